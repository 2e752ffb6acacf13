"""The oscillator: every second is written to its topic once, ahead of cluster time by the lead, with no gap.

    standby ──elected──► open the topic (fences whoever wrote before) ──► read its last second ──► write on, second by second
       ▲                                                                                            │
       └──────────────── leadership over, or fenced ◄───────────────────────────────────────────────┘

A new leader goes on from the last second in the topic, so what was missed is caught up, however long it was. A topic that
holds none is not new: Kafka may have deleted its ticks in the meantime, so it is asked elsewhere where they ended. Two
leaders cannot both write: opening the topic makes every earlier writer fail.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

import structlog

from meantime.clock import Clock

log = structlog.get_logger(__name__)

MOST_AT_ONCE = 5000
AHEAD_S = 60
"""How far ahead of the lead a tick may be that an earlier leader wrote; one further ahead is nobody's."""
LONG_AGO_S = 600
MOST_BACK_S = 30 * 86_400
"""How far back ticks are written again, for whoever reads them; the Spark job needs the last one only."""


class TickTopic(Protocol):
    async def last(self, latest: int) -> int | None:
        """The newest second in it that is not after `latest`."""
        ...

    async def write(self, seconds: range) -> None: ...


LastKnown = Callable[[int], Awaitable[int | None]]
"""Asked with the present second where the ticks ended that Kafka has forgotten; None when there were none."""
OpenTickTopic = Callable[[], AbstractAsyncContextManager[TickTopic]]


@dataclass(frozen=True, slots=True)
class Tick:
    """What the leader reports after each write."""

    last: int
    written_at_ms: int
    caught_up: bool


def missing(last: int | None, now_ms: int, lead_s: int) -> range:
    """The seconds that are to be written now; an empty topic begins with the present second."""
    now = now_ms // 1000
    first = now if last is None else last + 1
    return range(first, min(now + lead_s + 1, first + MOST_AT_ONCE))


def until_next(now_ms: int) -> float:
    """Seconds until a new second begins."""
    return (1000 - now_ms % 1000) / 1000


class Oscillator:
    def __init__(self, open_oscillator_topic: OpenTickTopic, clock: Clock, lead_s: int, last_known: LastKnown) -> None:
        self._open_topic = open_oscillator_topic
        self._clock = clock
        self._lead_s = lead_s
        self._last_known = last_known

    async def ticks(self) -> AsyncIterator[Tick]:
        """Write ticks for as long as this is iterated over."""
        async with self._open_topic() as topic:
            last = await self._last(topic)
            log.info("oscillator_topic_opened", last=last)
            while True:
                now_ms = self._clock.now_ms()
                seconds = missing(last, now_ms, self._lead_s)
                if seconds:
                    await topic.write(seconds)
                    last = seconds[-1]
                    yield Tick(last, self._clock.now_ms(), len(seconds) < MOST_AT_ONCE)
                if len(seconds) < MOST_AT_ONCE:
                    await asyncio.sleep(until_next(now_ms))

    async def _last(self, topic: TickTopic) -> int | None:
        """Where to go on. Among the last records of the topic there may be none that is a tick, or an old one that somebody
        else has put there."""
        now = self._clock.now_ms() // 1000
        last = await topic.last(now + self._lead_s + AHEAD_S)
        if last is None or last < now - LONG_AGO_S:
            known = await self._last_known(now)
            last = max((second for second in (last, known) if second is not None), default=None)
        return None if last is None else max(last, now - MOST_BACK_S)

    async def lead(self, report: Callable[[Tick], Awaitable[None]]) -> None:
        async for tick in self.ticks():
            await report(tick)
