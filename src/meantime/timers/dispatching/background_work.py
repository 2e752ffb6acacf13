"""What a dispatcher does beside firing: it asks the ledger about timers, and publishes callbacks as events.

The dispatcher runs in a thread of its own and never waits; this runs on the event loop. The dispatcher hands timers over and
fetches the results in one of its next steps.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from meantime.clock import Clock
from meantime.errors import Invalid, MeantimeError, StorageUnavailable
from meantime.supervision import supervised
from meantime.tasks import TaskSet
from meantime.timers.dispatching.held_timers import HeldTimer
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.model import LedgerEntry, TimerId, TimerState
from meantime.timers.reports import FuturesReport
from meantime.timers.topics import DONE, REQUEST

log = structlog.get_logger(__name__)

Publish = Callable[[list[HeldTimer], set[HeldTimer]], Awaitable[list[str | None]]]
"""Publishes timers of one event type, of which some have been attempted before; for each, why it was refused for good,
or None when it is published."""

ASK_AGAIN_EVERY = 0.5
AT_ONCE = 5000


@dataclass(frozen=True, slots=True)
class WorkResult:
    """What has become of timers that were handed over."""

    go_on: tuple[HeldTimer, ...] = ()
    """They have not ended."""
    ended: tuple[HeldTimer, ...] = ()
    """They ended before."""
    cancelled: tuple[HeldTimer, ...] = ()
    published: tuple[HeldTimer, ...] = ()
    refused: tuple[tuple[HeldTimer, str], ...] = ()


@dataclass(frozen=True, slots=True)
class UnverifiedTimers:
    """Timers of one share, and how far the ledger must have read to know about them."""

    timers: list[HeldTimer]
    needed: Mapping[tuple[str, int], int]


class BackgroundWork:
    def __init__(self, ledger: LedgerStore, publish: Publish, clock: Clock, remember_ms: int) -> None:
        self._ledger = ledger
        self._publish = publish
        self._clock = clock
        self._remember_ms = remember_ms
        self._loop = asyncio.get_running_loop()
        self._tasks = TaskSet()
        self._results: deque[WorkResult] = deque()
        self.through: Mapping[int, int] = {}
        """How far `timer-request` has come through the Spark job, by partition."""

    # For the dispatcher, from its own thread

    def check(self, timers: list[HeldTimer], reached: Mapping[int, int], ended_from: int) -> None:
        needed = {(REQUEST, partition): offset for partition, offset in reached.items()}
        needed[DONE, timers[0].share] = ended_from
        checking = supervised(partial(self._check, UnverifiedTimers(timers, needed)), "timers ledger check")
        self._loop.call_soon_threadsafe(self._tasks.start, checking, "ledger check")

    def publish(self, timers: list[HeldTimer], attempted: set[HeldTimer]) -> None:
        publishing = supervised(partial(self._publish_all, timers, set(attempted)), "timers event callbacks")
        self._loop.call_soon_threadsafe(self._tasks.start, publishing, "event callbacks")

    def results(self) -> deque[WorkResult]:
        """Those that are there; the dispatcher takes them out."""
        return self._results

    # On the event loop

    async def follow_join(self) -> None:
        """Keep `through` up to date, for ever."""
        while True:
            await self.read_join_report()
            await asyncio.sleep(2.0)

    async def read_join_report(self) -> None:
        try:
            reports = await self._ledger.reports(FuturesReport, 0)
        except StorageUnavailable:
            return
        if reports and isinstance(reports[0].report, FuturesReport):
            self.through = reports[0].report.through

    async def clear(self) -> None:
        """Drop all work and results: the dispatcher that they belong to is gone, and the next one reads its timers again."""
        await self._tasks.end()
        self._results.clear()

    async def _check(self, unverified: UnverifiedTimers) -> None:
        while True:
            try:
                if await self._knows_enough(unverified):
                    break
            except StorageUnavailable as error:
                log.warning("ledger_unavailable", waiting=len(unverified.timers), error=error.detail)
            await asyncio.sleep(ASK_AGAIN_EVERY)
        for start in range(0, len(unverified.timers), AT_ONCE):
            await self._compare(unverified.timers[start : start + AT_ONCE])

    async def _knows_enough(self, unverified: UnverifiedTimers) -> bool:
        progress = await self._ledger.progress()
        return all(progress.get(place, 0) >= offset for place, offset in unverified.needed.items())

    async def _compare(self, timers: list[HeldTimer]) -> None:
        while True:
            try:
                known = await self._ledger.entries([TimerId(held.token, held.second) for held in timers])
                break
            except StorageUnavailable:
                await asyncio.sleep(ASK_AGAIN_EVERY)
        oldest_ms = self._clock.now_ms() - self._remember_ms
        by_state: dict[TimerState, list[HeldTimer]] = {
            TimerState.PENDING: [],
            TimerState.FIRED: [],
            TimerState.CANCELLED: [],
        }
        for held in timers:
            by_state[state_by_ledger(held, known.get(TimerId(held.token, held.second)), oldest_ms)].append(held)
        self._results.append(
            WorkResult(
                go_on=tuple(by_state[TimerState.PENDING]),
                ended=tuple(by_state[TimerState.FIRED]),
                cancelled=tuple(by_state[TimerState.CANCELLED]),
            )
        )

    async def _publish_all(self, timers: list[HeldTimer], attempted: set[HeldTimer]) -> None:
        while True:
            try:
                reasons = await self._publish(timers, attempted)
                break
            except Invalid as error:
                reasons = [error.detail] * len(timers)
                break
            except MeantimeError as error:
                log.warning("publishing_postponed", topic=timers[0].future.topic, timers=len(timers), error=error.detail)
                attempted.update(timers)
                await asyncio.sleep(ASK_AGAIN_EVERY)
            except Exception:
                attempted.update(timers)
                raise
        done = zip(timers, reasons, strict=True)
        published = tuple(held for held, reason in zip(timers, reasons, strict=True) if reason is None)
        refused = tuple((held, reason) for held, reason in done if reason is not None)
        self._results.append(WorkResult(published=published, refused=refused))


def state_by_ledger(held: HeldTimer, entry: LedgerEntry | None, oldest_ms: int) -> TimerState:
    """What the ledger's word means for a timer that comes very late: it is pending, has ended, or was cancelled. The ledger
    never forgets a pending timer; so one that it does not know, and that was requested before it began to forget, has
    ended."""
    if entry is None:
        return TimerState.FIRED if held.requested_ms < oldest_ms else TimerState.PENDING
    if entry.state in (TimerState.CANCELLED, TimerState.VOID):
        return TimerState.CANCELLED
    return TimerState.FIRED if entry.state in (TimerState.FIRED, TimerState.REJECTED) else TimerState.PENDING
