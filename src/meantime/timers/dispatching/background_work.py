"""What a dispatcher leaves to others: timers that need the ledger, and callbacks that are published as events.

The fast hand turns in a thread of its own and never waits; this runs on the event loop. The hand puts timers down here and
picks verdicts up when it comes by.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from meantime.clock import Clock
from meantime.errors import Invalid, MeantimeError, StorageUnavailable
from meantime.tasks import end
from meantime.timers.dispatching.held_timers import Held
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.model import Identity, Standing, State
from meantime.timers.reports import FuturesReport
from meantime.timers.topics import DONE, REQUEST

log = structlog.get_logger(__name__)

Publish = Callable[[list[Held], set[Held]], Awaitable[list[str | None]]]
"""Publishes timers of one event type, of which some have been attempted before; for each, why it was refused for good,
or None when it is published."""

ASK_AGAIN_EVERY = 0.5
AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What has become of timers that were put down here."""

    go_on: tuple[Held, ...] = ()
    """They have not ended."""
    ended: tuple[Held, ...] = ()
    """They ended before."""
    cancelled: tuple[Held, ...] = ()
    published: tuple[Held, ...] = ()
    refused: tuple[tuple[Held, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Doubts:
    """Timers of one share, and how far the ledger must have read to know about them."""

    timers: list[Held]
    needed: Mapping[tuple[str, int], int]


class Desk:
    def __init__(self, ledger: LedgerStore, publish: Publish, clock: Clock, remember_ms: int) -> None:
        self._ledger = ledger
        self._publish = publish
        self._clock = clock
        self._remember_ms = remember_ms
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._verdicts: deque[Verdicts] = deque()
        self.through: Mapping[int, int] = {}
        """How far `timer-request` has come through the Spark job, by partition."""

    # For the hand, from its own thread

    def doubt(self, timers: list[Held], reached: Mapping[int, int], memory_from: int) -> None:
        needed = {(REQUEST, partition): offset for partition, offset in reached.items()}
        needed[DONE, timers[0].share] = memory_from
        self._loop.call_soon_threadsafe(self._start, self._ask(Doubts(timers, needed)))

    def publish(self, timers: list[Held], attempted: set[Held]) -> None:
        self._loop.call_soon_threadsafe(self._start, self._publish_all(timers, attempted))

    def verdicts(self) -> deque[Verdicts]:
        """Those that have come in; the hand takes them out."""
        return self._verdicts

    # On the event loop

    async def follow_join(self) -> None:
        """Keep `through` up to date, for ever."""
        while True:
            await self.look_at_join()
            await asyncio.sleep(2.0)

    async def look_at_join(self) -> None:
        try:
            reports = await self._ledger.reports(FuturesReport, 0)
        except StorageUnavailable:
            return
        if reports and isinstance(reports[0].report, FuturesReport):
            self.through = reports[0].report.through

    def _start(self, work) -> None:  # type: ignore[no-untyped-def]
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def clear(self) -> None:
        """Drop all that lies here: the hand that put it down is gone, and the next one reads it again."""
        await end(*self._tasks)
        self._verdicts.clear()

    async def _ask(self, doubts: Doubts) -> None:
        while True:
            try:
                if await self._knows_enough(doubts):
                    break
            except StorageUnavailable as error:
                log.warning("ledger_unavailable", waiting=len(doubts.timers), error=error.detail)
            await asyncio.sleep(ASK_AGAIN_EVERY)
        for start in range(0, len(doubts.timers), AT_ONCE):
            await self._judge(doubts.timers[start : start + AT_ONCE])

    async def _knows_enough(self, doubts: Doubts) -> bool:
        progress = await self._ledger.progress()
        return all(progress.get(place, 0) >= offset for place, offset in doubts.needed.items())

    async def _judge(self, timers: list[Held]) -> None:
        while True:
            try:
                known = await self._ledger.standings([Identity(held.token, held.second) for held in timers])
                break
            except StorageUnavailable:
                await asyncio.sleep(ASK_AGAIN_EVERY)
        oldest_ms = self._clock.now_ms() - self._remember_ms
        sorted_out: dict[State, list[Held]] = {State.PENDING: [], State.FIRED: [], State.CANCELLED: []}
        for held in timers:
            sorted_out[verdict(held, known.get(Identity(held.token, held.second)), oldest_ms)].append(held)
        self._verdicts.append(
            Verdicts(
                go_on=tuple(sorted_out[State.PENDING]),
                ended=tuple(sorted_out[State.FIRED]),
                cancelled=tuple(sorted_out[State.CANCELLED]),
            )
        )

    async def _publish_all(self, timers: list[Held], attempted: set[Held]) -> None:
        while True:
            try:
                reasons = await self._publish(timers, attempted)
                break
            except Invalid as error:
                reasons = [error.detail] * len(timers)
                break
            except MeantimeError as error:
                log.warning("publishing_waits", topic=timers[0].future.topic, timers=len(timers), error=error.detail)
                attempted = set(timers)
                await asyncio.sleep(ASK_AGAIN_EVERY)
        done = zip(timers, reasons, strict=True)
        published = tuple(held for held, reason in zip(timers, reasons, strict=True) if reason is None)
        refused = tuple((held, reason) for held, reason in done if reason is not None)
        self._verdicts.append(Verdicts(published=published, refused=refused))


def verdict(held: Held, standing: Standing | None, oldest_ms: int) -> State:
    """What the ledger's word means for a timer that comes very late: it is pending, has ended, or was cancelled. The ledger
    never forgets a pending timer; so one that it does not know, and that was requested before it began to forget, has
    ended."""
    if standing is None:
        return State.FIRED if held.requested_ms < oldest_ms else State.PENDING
    if standing.state in (State.CANCELLED, State.VOID):
        return State.CANCELLED
    return State.FIRED if standing.state in (State.FIRED, State.REJECTED) else State.PENDING
