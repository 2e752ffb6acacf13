"""A node of ZooKeeper as frozen data, and ZooKeeper's refusals as errors of this house."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from kazoo import exceptions as kazoo

from meantime.errors import Conflict, CoordinationLost, Forbidden, MeantimeError, NotFound, VersionMoved

REFUSALS: tuple[tuple[type[Exception], type[MeantimeError], str], ...] = (
    (kazoo.NoNodeError, NotFound, "there is no ZooKeeper node {path}"),
    (kazoo.NodeExistsError, Conflict, "there is a ZooKeeper node {path} already"),
    (kazoo.BadVersionError, VersionMoved, "the ZooKeeper node {path} was changed by another client"),
    (kazoo.NotEmptyError, Conflict, "the ZooKeeper node {path} has children"),
    (kazoo.NoAuthError, Forbidden, "the ZooKeeper credentials do not allow access to {path}"),
    (kazoo.InvalidACLError, Forbidden, "ZooKeeper does not accept the access list for {path}"),
)


@dataclass(frozen=True, slots=True)
class Znode:
    """`version` is for compare-and-set, `owner` the session of an ephemeral node (0: persistent), `created_zxid` grows over
    the whole of ZooKeeper and makes a fencing token."""

    data: bytes
    version: int
    owner: int
    created_zxid: int
    created_ms: int = 0
    """By ZooKeeper's clock."""

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


def znode(data: bytes, stat: Any) -> Znode:
    return Znode(data=data, version=stat.version, owner=stat.ephemeralOwner, created_zxid=stat.czxid, created_ms=stat.ctime)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Kazoo's exceptions become errors of this house."""
    try:
        yield
    except kazoo.KazooException as error:
        raise translate(error, path) from error


def translate(error: Exception, path: str) -> MeantimeError:
    """A refusal is a fact; whatever leaves the outcome open is `CoordinationLost`."""
    for refusal, ours, detail in REFUSALS:
        if isinstance(error, refusal):
            return ours(detail.format(path=path))
    return CoordinationLost(f"ZooKeeper gave no answer about {path}: {type(error).__name__}")
