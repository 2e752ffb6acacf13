"""The ZooKeeper session of a process, as awaitables on its event loop.

    LOST ──► CONNECTED ──► SUSPENDED ──► CONNECTED      (same session: everything it owns is still there)
                              └────────► LOST ──► CONNECTED   (as a rule a new session: what it owned is gone)

CONNECTED: there is a connection, and what this session owns is its own.
SUSPENDED: the connection is gone, the session lives on for some time that only the server knows. A holder must act as if
    its claim could end any moment: a leader stops leading, a worker takes no new message, nobody issues a lease. Nothing
    is given back yet; if the connection returns in time, all is as before.
LOST: the session is over, or the connection has been away so long (two thirds of the timeout) that it may be. Claims have
    ended: others may hold them by now. Also the state before the first connection, so a process may start before ZooKeeper.
    A new session comes by itself; whoever owns ephemeral nodes makes them again. `id` tells whether it is another session.

Calls made without a connection fail at once with `CoordinationLost`, which is retryable; one that was under way when the
connection broke fails the same way, and then nobody knows whether it was done: look again before repeating it. A watch is
a callable; it is called once on the event loop (with kazoo's event, which nobody needs), when the node changes or when the
connection is interrupted, and means: look again. `views` builds on that, which survive both.
"""

import asyncio
import enum
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import structlog
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.security import make_digest_acl

from meantime.coordination.layout import Layout
from meantime.coordination.zk.connection import LoopConnection
from meantime.coordination.zk.handler import LoopHandler
from meantime.coordination.zk.znodes import Znode, translate, znode
from meantime.errors import CoordinationLost, NotFound, VersionMoved
from meantime.pulse import Pulse
from meantime.tasks import TaskSet

log = structlog.get_logger(__name__)

T = TypeVar("T")
Watch = Callable[[object], object]


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """`hosts` is `host:port,host:port`, and may end in `/root`, which then takes the place of `root`. With a digest user,
    everything created is open to that user only."""

    hosts: str
    root: str = "/meantime"
    timeout: float = 6.0
    digest_user: str | None = None
    digest_password: str | None = None

    @property
    def servers(self) -> str:
        return self.hosts.partition("/")[0]

    @property
    def layout(self) -> Layout:
        suffix = self.hosts.partition("/")[2].strip("/")
        root = (suffix or self.root).strip("/")
        return Layout(f"/{root}" if root else "")


@asynccontextmanager
async def open_session(options: SessionOptions) -> AsyncIterator["Session"]:
    """A session that keeps connecting for as long as it is open; it does not wait for the first connection."""
    session = Session(options, asyncio.get_running_loop())
    session.start()
    try:
        yield session
    finally:
        await session.close()


class Session:
    def __init__(self, options: SessionOptions, loop: asyncio.AbstractEventLoop) -> None:
        self.layout = options.layout
        self.state = SessionState.LOST
        self.state_since = time.monotonic()
        self.id: int | None = None
        self._options = options
        self._loop = loop
        self._listeners: list[Callable[[SessionState], None]] = []
        self._changes = Pulse()
        self._discards: set[tuple[str, bytes | None]] = set()
        self._tasks = TaskSet()
        self._presumption: asyncio.TimerHandle | None = None
        self._client = _client(options)
        self._client.add_listener(self._on_kazoo_state)

    # Life

    def start(self) -> None:
        self._client._connection.start()

    async def close(self) -> None:
        await self._tasks.end()
        await self._client._connection.goodbye()
        self._change(SessionState.LOST)

    # State

    @property
    def root(self) -> str:
        return self.layout.root

    @property
    def timeout(self) -> float:
        return self._options.timeout

    @property
    def connected(self) -> bool:
        return self.state is SessionState.CONNECTED

    def on_change(self, listener: Callable[[SessionState], None]) -> Callable[[], None]:
        """Call `listener` on the event loop at each change of state; returns what stops that."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    async def wait_connected(self) -> None:
        while not self.connected:
            await self._changes.beyond(self._changes.count)

    def _on_kazoo_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            if self._client._session_id != self.id:
                self._discards.clear()
            self.id = self._client._session_id
            self._change(SessionState.CONNECTED)
            self._tasks.start(self._discard_again(), "discard again")
        elif state == KazooState.SUSPENDED:
            self._change(SessionState.SUSPENDED)
            self._presumption = self._loop.call_later(self._options.timeout * 2 / 3, self._presume_lost)
        else:
            self._change(SessionState.LOST)

    def _presume_lost(self) -> None:
        if self.state is SessionState.SUSPENDED:
            self._change(SessionState.LOST)

    def _change(self, state: SessionState) -> None:
        if self._presumption:
            self._presumption.cancel()
        if state is self.state:
            return
        log.info("zookeeper_session_changed", state=state.value, session=f"{self.id:x}" if self.id else None)
        self.state, self.state_since = state, time.monotonic()
        self._changes.beat()
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:
                log.exception("session_listener_failed")

    # Requests: sent when the method is called, so several may be under way; ZooKeeper answers in the same order

    def get(self, path: str, watch: Watch | None = None) -> asyncio.Future[Znode]:
        """Its data and version; no watch is left where there is no node (use `exists`)."""
        return self._call(path, lambda: self._client.get_async(path, watch=watch), lambda answer: znode(*answer))

    def exists(self, path: str, watch: Watch | None = None) -> asyncio.Future[Znode | None]:
        """The node without its data, or None; the watch also tells when it is created."""
        return self._call(path, lambda: self._client.exists_async(path, watch=watch), _znode_without_data)

    def children(self, path: str, watch: Watch | None = None) -> asyncio.Future[list[str]]:
        """The sorted names of its children."""
        return self._call(path, lambda: self._client.get_children_async(path, watch=watch), sorted)

    def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False
    ) -> asyncio.Future[str]:
        """Create the node, and its parents where they are missing; gives its path with the sequence number."""
        return self._call(
            path,
            lambda: self._client.create_async(path, data, ephemeral=ephemeral, sequence=sequence, makepath=True),
            str,
        )

    def ensure(self, path: str) -> asyncio.Future[None]:
        """Make sure that a persistent node is there."""
        return self._call(path, lambda: self._client.ensure_path_async(path), lambda _: None)

    def set(self, path: str, data: bytes, version: int = -1) -> asyncio.Future[int]:
        """Set the data if the node still has `version` (-1: any); gives the new version. Refused: `VersionMoved`."""
        return self._call(path, lambda: self._client.set_async(path, data, version), lambda stat: int(stat.version))

    def delete(self, path: str, version: int = -1) -> asyncio.Future[None]:
        return self._call(path, lambda: self._client.delete_async(path, version), lambda _: None)

    def _call(self, path: str, start: Callable[[], Any], convert: Callable[[Any], T]) -> asyncio.Future[T]:
        if not self.connected:
            raise CoordinationLost(f"no ZooKeeper connection to {self._options.servers} ({self.state.value})")
        answer: asyncio.Future[T] = self._loop.create_future()
        # Of several requests under way only the first failure may be looked at.
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        start().rawlink(partial(_settle, answer, path, convert))
        return answer

    # Giving back

    async def discard(self, path: str, data: bytes | None = None) -> None:
        """Delete an ephemeral node of this session (only if it holds `data`, where given): now or, without a connection,
        as soon as there is one again, and then `CoordinationLost` is raised. Anybody else's node is left alone."""
        self._discards.add((path, data))
        try:
            node = await self.get(path)
            if node.owner == self.id and data in (None, node.data):
                await self.delete(path, node.version)
        except (NotFound, VersionMoved):
            log.debug("nothing_to_discard", path=path)
        self._discards.discard((path, data))

    async def settle(self, path: str) -> None:
        """Finish what `discard` had to put off, before the path is used again."""
        for put_off, data in list(self._discards):
            if put_off == path:
                await self.discard(path, data)

    async def _discard_again(self) -> None:
        try:
            for path, data in list(self._discards):
                if (path, data) in self._discards:  # else the path may be in use again
                    await self.discard(path, data)
        except CoordinationLost:
            log.debug("discards_postponed")


def _settle(answer: asyncio.Future[T], path: str, convert: Callable[[Any], T], result: Any) -> None:
    if answer.done():
        return
    if result.successful():
        answer.set_result(convert(result.value))
    else:
        answer.set_exception(translate(result.exception, path))


def _znode_without_data(stat: Any) -> Znode | None:
    return znode(b"", stat) if stat else None


def _client(options: SessionOptions) -> Any:
    digest = None
    if options.digest_user:
        digest = (options.digest_user, options.digest_password or "")
    client = KazooClient(
        hosts=options.servers,
        timeout=options.timeout,
        handler=LoopHandler(),
        auth_data=[("digest", ":".join(digest))] if digest else None,
        default_acl=[make_digest_acl(*digest, all=True)] if digest else None,
    )
    client._connection = LoopConnection(client)
    return client
