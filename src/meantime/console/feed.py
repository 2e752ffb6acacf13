"""The stream of the console: one state for all viewers of a node, made once a second and only while there are any.

    a viewer comes ──► snapshot ──► difference ──► difference ──► …
                          ▲                            │ it reads too slowly
                          └──── what it missed ◄───────┘

A viewer gets the whole state and then what has changed (`merge_patch`), as server-sent events. Each of them is encoded once
for all. A viewer that does not keep up has a few of them waiting, never more; then they are dropped and it gets the whole
state instead. One that reads nothing for a while is let go.
"""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import structlog

from meantime.console.merge_patch import Json, difference
from meantime.errors import MeantimeError, Unavailable
from meantime.pulse import Pulse
from meantime.tasks import end, start

log = structlog.get_logger(__name__)

EVERY = 1.0
MOST_VIEWERS = 500
MOST_WAITING = 5
PATIENCE = 30.0
"""Seconds after which a viewer that reads nothing is let go."""
RETRY_MS = 2000
"""After which a browser comes back by itself."""

Collect = Callable[[], Awaitable[Json]]


class ConsoleFeed:
    def __init__(self, collect: Collect, every: float = EVERY) -> None:
        self._collect = collect
        self._every = every
        self._viewers: set[Viewer] = set()
        self._task: asyncio.Task[None] | None = None
        self._state: Json | None = None
        self._number = 0
        self._snapshot: bytes | None = None

    def join(self) -> "Viewer":
        if len(self._viewers) >= MOST_VIEWERS:
            raise Unavailable(f"this node has {MOST_VIEWERS} viewers of the console already; ask another")
        viewer = Viewer(self)
        self._viewers.add(viewer)
        if self._task is None:
            self._task = start(self._run(), "console feed")
        return viewer

    def leave(self, viewer: "Viewer") -> None:
        self._viewers.discard(viewer)
        if not self._viewers and self._task is not None:
            self._task.cancel()
            self._task, self._state, self._snapshot = None, None, None

    @property
    def viewers(self) -> int:
        return len(self._viewers)

    def snapshot(self) -> bytes | None:
        """The whole state; None before the first one."""
        if self._snapshot is None and self._state is not None:
            self._snapshot = _event("snapshot", self._number, self._state)
        return self._snapshot

    async def _run(self) -> None:
        while True:
            began = time.monotonic()
            try:
                await self.run_once()
            except MeantimeError as error:
                log.info("console_state_not_known", error=error.detail)
            except Exception:
                log.exception("console_state_failed")
            await asyncio.sleep(max(0.1, self._every - (time.monotonic() - began)))

    async def run_once(self) -> None:
        """Make the next state, and tell the viewers what is new."""
        state, before = await self._collect(), self._state
        self._number += 1
        self._state, self._snapshot = state, None
        change = None if before is None else _event("delta", self._number, difference(before, state))
        for viewer in self._viewers:
            viewer.tell(change)

    async def close(self) -> None:
        if self._task is not None:
            await end(self._task)


class Viewer:
    """One open stream. It begins with a snapshot, and has one again whenever it did not keep up."""

    def __init__(self, feed: ConsoleFeed) -> None:
        self._feed = feed
        self._waiting: deque[bytes] = deque()
        self._behind = True
        self._told = Pulse()
        self._read_at = time.monotonic()

    def tell(self, change: bytes | None) -> None:
        if change is None or len(self._waiting) >= MOST_WAITING:
            self._behind = True
        if self._behind:
            self._waiting.clear()
        elif change is not None:
            self._waiting.append(change)
        self._told.beat()

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"retry: %d\n\n" % RETRY_MS
        while True:
            seen = self._told.count
            chunk = self._next()
            if chunk is None:
                await self._told.beyond(seen)
            else:
                yield chunk
            self._read_at = time.monotonic()

    def _next(self) -> bytes | None:
        if not self._behind:
            return self._waiting.popleft() if self._waiting else None
        snapshot = self._feed.snapshot()
        if snapshot is not None:
            self._waiting.clear()
            self._behind = False
        return snapshot

    async def cut(self) -> None:
        while True:
            left = self._read_at + PATIENCE - time.monotonic()
            if left <= 0:
                return
            await asyncio.sleep(left)

    def close(self) -> None:
        self._feed.leave(self)


def _event(kind: str, number: int, data: Json) -> bytes:
    return b"event: %b\nid: %d\ndata: %b\n\n" % (kind.encode(), number, msgspec.json.encode(data))


@asynccontextmanager
async def open_feed(collect: Collect, every: float = EVERY) -> AsyncIterator[ConsoleFeed]:
    feed = ConsoleFeed(collect, every)
    try:
        yield feed
    finally:
        await feed.close()
