"""How many Kafka consumers a node has open for streams that are behind, and whose turn it is when more of them are wanted.

Whoever waits gets a slot in the order of asking. While somebody waits, those who have had theirs for longest are asked to
give it back; they may ask again at once, and then wait behind the others. So neither a stream that nobody reads nor one that
never comes to its end keeps others from reading.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from prometheus_client import Gauge

from meantime.metrics import REGISTRY

CONSUMERS = Gauge(
    "meantime_stream_consumers_open", "Kafka consumers of streams that have not read everything yet.", registry=REGISTRY
)

TURN_FOR: Final = 5.0
"""Seconds for which a slot can be kept, whoever waits."""


class ConsumerSlots:
    def __init__(self, limit: int, turn_for: float = TURN_FOR) -> None:
        self._free = limit
        self._turn_for = turn_for
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._holders: dict[object, tuple[float, Callable[[], None]]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def slot(self, recall: Callable[[], None]) -> AsyncIterator[None]:
        """Keep a slot for as long as the block runs; `recall` is called, once, when others want it."""
        await self._acquire()
        holder = object()
        self._holders[holder] = (asyncio.get_running_loop().time(), recall)
        CONSUMERS.inc()
        try:
            yield
        finally:
            CONSUMERS.dec()
            self._holders.pop(holder, None)
            self._release()

    async def _acquire(self) -> None:
        if self._free and not self._waiting:
            self._free -= 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._watch()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            raise

    def _release(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._free += 1

    def _watch(self) -> None:
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._turn_for / 5, self._recall)

    def _recall(self) -> None:
        """As many of those whose turn is over as there are who wait."""
        self._timer = None
        wanted = sum(not turn.done() for turn in self._waiting)
        over = asyncio.get_running_loop().time() - self._turn_for
        for holder, (since, recall) in list(self._holders.items())[:wanted]:
            if since <= over:
                del self._holders[holder]
                recall()
        if wanted:
            self._watch()
