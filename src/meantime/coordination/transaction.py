"""Several changes to ZooKeeper, all of them or none."""

from dataclasses import dataclass
from typing import Any

from kazoo.exceptions import KazooException, RolledBackError, RuntimeInconsistency

from meantime.coordination.session import Session
from meantime.coordination.zk.znodes import translated


@dataclass(frozen=True, slots=True)
class Create:
    path: str
    data: bytes
    ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class SetData:
    """Only if the node still has `version`."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True)
class Delete:
    """Only if the node still has `version` (-1: any)."""

    path: str
    version: int = -1


Step = Create | SetData | Delete


async def transact(session: Session, *steps: Step) -> None:
    """Do all steps, or none and raise what kept the first one back: `Conflict`, `NotFound` or `VersionMoved`. After
    `CoordinationLost` nobody knows which it was: look again."""
    results = await session._call(steps[0].path, lambda: _request(session, steps).commit_async(), list)
    for step, result in zip(steps, results, strict=True):
        if isinstance(result, KazooException) and not isinstance(result, (RolledBackError, RuntimeInconsistency)):
            with translated(step.path):
                raise result


def _request(session: Session, steps: tuple[Step, ...]) -> Any:
    request = session._client.transaction()
    for step in steps:
        match step:
            case Create(path, data, ephemeral):
                request.create(path, data, ephemeral=ephemeral)
            case SetData(path, data, version):
                request.set_data(path, data, version)
            case Delete(path, version):
                request.delete(path, version)
    return request
