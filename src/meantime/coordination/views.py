"""Views of ZooKeeper that follow every change, through reconnections and new sessions.

The latest state is never missed; states in between may be, since changes that come close together are read as one. While
there is no connection the last known state stands.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

import structlog

from meantime.coordination.session import Session, Watch
from meantime.coordination.zk.znodes import Znode
from meantime.errors import MeantimeError, NotFound
from meantime.pulse import Pulse
from meantime.supervision import kept_running

log = structlog.get_logger(__name__)

T = TypeVar("T")
RETRY_EVERY = 0.2


async def follow_data(session: Session, path: str) -> AsyncIterator[Znode | None]:
    """The node now and after each change; None while it does not exist."""
    async for node in _follow(session, partial(_read_data, session, path)):
        yield node


async def follow_children(session: Session, path: str) -> AsyncIterator[list[str]]:
    """The sorted names of the children now and after each change; empty while the node does not exist."""
    async for names in _follow(session, partial(_read_children, session, path)):
        yield names


@asynccontextmanager
async def open_children_view(session: Session, path: str) -> AsyncIterator["ChildrenView"]:
    directory = ChildrenView(session, path)
    async with kept_running(directory.run, "children view", path):
        yield directory


class ChildrenView:
    """The children of a node with their data, read anew only where something changed.

    `refresh` makes `current` at least as new as anything that this session has seen before the call: ZooKeeper delivers a
    watch event before the answer to whatever came after the change. `run` refreshes for ever; without it, whoever needs the
    directory refreshes it, and `changes` beats when that is worth it.
    """

    def __init__(self, session: Session, path: str) -> None:
        self.current: dict[str, bytes] = {}
        self.known = asyncio.Event()
        """Set once the directory was read for the first time."""
        self.changes = Pulse()
        self._session = session
        self._path = path
        self._names: list[str] = []
        self._listed = False
        self._stale: set[str] = set()
        self._reading = asyncio.Lock()
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on the event loop after each change; returns what stops that."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    async def run(self) -> None:
        while True:
            seen = self.changes.count
            await self._session.wait_connected()
            try:
                await self.refresh()
            except MeantimeError as error:
                log.debug("children_not_read", path=self._path, error=error.detail)
                await asyncio.sleep(RETRY_EVERY)
            else:
                await self.changes.beyond(seen)

    async def refresh(self) -> None:
        async with self._reading:
            await self._list()
            stale = [name for name in self._names if name in self._stale or name not in self.current]
            fresh = await self._read(stale)
            kept = self.current.keys() & set(self._names) - set(stale)
            self._replace({name: self.current[name] for name in sorted(kept)} | fresh)

    async def _list(self) -> None:
        if self._listed:
            return
        self._listed = True  # before reading: a watch that fires in between must not be overwritten
        try:
            self._names = await _read_children(self._session, self._path, self._mark_listing)
        except BaseException:
            self._listed = False
            raise

    async def _read(self, names: list[str]) -> dict[str, bytes]:
        self._stale.difference_update(names)
        found = {}
        try:
            reading = [(name, self._session.get(f"{self._path}/{name}", partial(self._mark, name))) for name in names]
            for name, node in reading:
                with suppress(NotFound):
                    found[name] = (await node).data
        except BaseException:
            self._stale.update(names)
            raise
        return found

    def _mark_listing(self, _event: object) -> None:
        self._listed = False
        self.changes.beat()

    def _mark(self, name: str, _event: object) -> None:
        self._stale.add(name)
        self.changes.beat()

    def _replace(self, current: dict[str, bytes]) -> None:
        changed = current != self.current or not self.known.is_set()
        self.current = current
        self.known.set()
        if changed:
            for listener in list(self._listeners):
                listener()


async def _follow(session: Session, read: Callable[[Watch], Awaitable[T]]) -> AsyncIterator[T]:
    pulse = Pulse()
    while True:
        seen = pulse.count
        await session.wait_connected()
        try:
            state = await read(pulse.beat)
        except MeantimeError as error:
            log.debug("node_not_read", error=error.detail)
            await asyncio.sleep(RETRY_EVERY)
            continue
        yield state
        await pulse.beyond(seen)


async def _read_data(session: Session, path: str, watch: Watch) -> Znode | None:
    while True:
        try:
            return await session.get(path, watch)
        except NotFound:
            # A watch on what is not there is left by `exists`; the node may have come in between.
            if await session.exists(path, watch) is None:
                return None


async def _read_children(session: Session, path: str, watch: Watch) -> list[str]:
    while True:
        try:
            return await session.children(path, watch)
        except NotFound:
            if await session.exists(path, watch) is None:
                return []
