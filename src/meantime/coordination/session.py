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
connection is interrupted, and means: look again. `following` builds views on that, which survive both.
"""

import asyncio
import enum
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import structlog
from kazoo.client import KazooClient
from kazoo.protocol.states import KazooState
from kazoo.retry import KazooRetry
from kazoo.security import make_digest_acl

from meantime.coordination.handler import LoopHandler
from meantime.coordination.layout import Layout
from meantime.coordination.pulse import Pulse
from meantime.coordination.znodes import Znode, translated, znode
from meantime.errors import CoordinationLost, NotFound, VersionMoved

log = structlog.get_logger(__name__)

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
        self._tasks: set[asyncio.Task[None]] = set()
        self._presumption: asyncio.TimerHandle | None = None
        self._client = _client(options, LoopHandler(loop))
        self._client.add_listener(self._heard)

    # Life

    def start(self) -> None:
        self._client.start_async()
        self._spawn(self._keep_alive())

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        self._client.remove_listener(self._heard)
        stopping = self._loop.run_in_executor(None, self._stop_client)
        await asyncio.wait({stopping}, timeout=self._options.timeout + 1.0)
        self._change(SessionState.LOST)

    def _stop_client(self) -> None:
        self._client.stop()
        self._client.close()

    async def _keep_alive(self) -> None:
        """Kazoo's connection thread ends for good after a protocol error or refused credentials; start it again."""
        while True:
            await asyncio.sleep(1.0)
            if self._client._connection.connection_stopped.is_set():
                log.warning("the ZooKeeper connection has ended; starting it again", servers=self._options.servers)
                await self._loop.run_in_executor(None, self._client.start_async)

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

    def _heard(self, state: str) -> None:
        """Runs in kazoo's thread. The session id is read here because it belongs to this very change."""
        client_id = self._client.client_id
        self._client.handler.completion_queue.put(partial(self._apply, state, client_id[0] if client_id else None))

    def _apply(self, state: str, session_id: int | None) -> None:
        if state == KazooState.CONNECTED:
            if session_id != self.id:
                self._discards.clear()
            self.id = session_id
            self._change(SessionState.CONNECTED)
            self._spawn(self._discard_again())
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
        log.info("ZooKeeper session " + state.value, session=f"{self.id:x}" if self.id else None)
        self.state, self.state_since = state, time.monotonic()
        self._changes.beat()
        for listener in list(self._listeners):
            try:
                listener(state)
            except Exception:
                log.exception("a listener to the ZooKeeper session failed")

    # Reading

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        """Its data and version; no watch is left where there is no node (use `exists`)."""
        data, stat = await self._call(path, lambda: self._client.get_async(path, watch=watch))
        return znode(data, stat)

    async def exists(self, path: str, watch: Watch | None = None) -> Znode | None:
        """The node without its data, or None; the watch also tells when it is created."""
        stat = await self._call(path, lambda: self._client.exists_async(path, watch=watch))
        return znode(b"", stat) if stat else None

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        names = await self._call(path, lambda: self._client.get_children_async(path, watch=watch))
        return sorted(names)

    # Writing

    async def create(self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequence: bool = False) -> str:
        """Create the node, and its parents where they are missing; returns its path with the sequence number."""
        created = await self._call(
            path,
            lambda: self._client.create_async(path, data, ephemeral=ephemeral, sequence=sequence, makepath=True),
        )
        return str(created)

    async def ensure(self, path: str) -> None:
        """Make sure that a persistent node is there."""
        await self._call(path, lambda: self._client.ensure_path_async(path))

    async def set(self, path: str, data: bytes, version: int = -1) -> int:
        """Set the data if the node still has `version` (-1: any); returns the new version. Refused: `VersionMoved`."""
        stat = await self._call(path, lambda: self._client.set_async(path, data, version))
        return int(stat.version)

    async def delete(self, path: str, version: int = -1) -> None:
        await self._call(path, lambda: self._client.delete_async(path, version))

    async def discard(self, path: str, data: bytes | None = None) -> None:
        """Delete an ephemeral node of this session (only if it holds `data`, where given): now or, without a connection,
        as soon as there is one again, and then `CoordinationLost` is raised. Anybody else's node is left alone."""
        self._discards.add((path, data))
        try:
            node = await self.get(path)
            if node.owner == self.id and data in (None, node.data):
                await self.delete(path, node.version)
        except (NotFound, VersionMoved):
            log.debug("gone, or not what it was", path=path)
        self._discards.discard((path, data))

    async def settle(self, path: str) -> None:
        """Finish what `discard` had to put off, before the path is used again."""
        for put_off, data in list(self._discards):
            if put_off == path:
                await self.discard(path, data)

    async def _discard_again(self) -> None:
        try:
            for path, data in list(self._discards):
                await self.discard(path, data)
        except CoordinationLost:
            log.debug("the connection is gone again")

    # Plumbing

    async def _call(self, path: str, start: Callable[[], Any]) -> Any:
        if not self.connected:
            raise CoordinationLost(f"no ZooKeeper connection to {self._options.servers} ({self.state.value})")
        answer: asyncio.Future[Any] = self._loop.create_future()
        start().rawlink(partial(_settle, answer))
        with translated(path):
            try:
                async with asyncio.timeout(self._options.timeout):
                    return await answer
            except TimeoutError as error:
                raise CoordinationLost(f"ZooKeeper did not answer in {self._options.timeout:g} s") from error

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _settle(answer: asyncio.Future[Any], result: Any) -> None:
    if answer.done():
        return
    if result.successful():
        answer.set_result(result.value)
    else:
        answer.set_exception(result.exception)


def _client(options: SessionOptions, handler: LoopHandler) -> Any:
    # Re-connecting must be quicker than the session's end, so the pause between attempts stays short.
    retry = KazooRetry(max_tries=-1, delay=0.05, backoff=2, max_delay=0.4, sleep_func=handler.sleep_func)
    digest = None
    if options.digest_user:
        digest = (options.digest_user, options.digest_password or "")
    return KazooClient(
        hosts=options.servers,
        timeout=options.timeout,
        handler=handler,
        connection_retry=retry,
        auth_data=[("digest", ":".join(digest))] if digest else None,
        default_acl=[make_digest_acl(*digest, all=True)] if digest else None,
    )
