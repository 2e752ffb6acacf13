"""Views of ZooKeeper that follow every change, through reconnections and new sessions.

The latest state is never missed; states in between may be, since changes that come close together are read as one. While
there is no connection the last known state stands.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar

from meantime.coordination.pulse import Pulse
from meantime.coordination.session import Session, Watch
from meantime.coordination.tasks import running
from meantime.coordination.znodes import Znode
from meantime.errors import CoordinationLost, NotFound

log = logging.getLogger(__name__)

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
async def open_directory(session: Session, path: str) -> AsyncIterator["Directory"]:
    directory = Directory(session, path)
    async with running(directory.run(), name=f"follow {path}"):
        yield directory


class Directory:
    """The children of a node with their data, read anew only where something changed."""

    def __init__(self, session: Session, path: str) -> None:
        self.current: dict[str, bytes] = {}
        self.known = asyncio.Event()
        """Set once the directory was read for the first time."""
        self._session = session
        self._path = path
        self._stale: set[str] = set()
        self._pulse = Pulse()
        self._listeners: list[Callable[[], None]] = []

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on the event loop after each change; returns what stops that."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    async def run(self) -> None:
        while True:
            seen = self._pulse.count
            await self._session.wait_connected()
            try:
                await self._read()
            except CoordinationLost:
                await asyncio.sleep(RETRY_EVERY)
            else:
                await self._pulse.beyond(seen)

    async def _read(self) -> None:
        names = await _read_children(self._session, self._path, self._pulse.beat)
        stale = [name for name in names if name in self._stale or name not in self.current]
        self._stale.difference_update(stale)
        try:
            nodes = await asyncio.gather(*map(self._read_child, stale))
        except CoordinationLost:
            self._stale.update(stale)
            raise
        fresh = {name: node.data for name, node in zip(stale, nodes, strict=True) if node}
        kept = {name: data for name, data in self.current.items() if name in names}
        self._replace(kept | fresh)

    async def _read_child(self, name: str) -> Znode | None:
        try:
            return await self._session.get(f"{self._path}/{name}", watch=partial(self._mark, name))
        except NotFound:
            return None

    def _mark(self, name: str, _event: object) -> None:
        self._stale.add(name)
        self._pulse.beat()

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
        except CoordinationLost:
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
