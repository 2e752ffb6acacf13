"""What a dispatcher does beside firing: it asks the ledger about timers, and publishes callbacks as events.

The dispatcher runs in a thread of its own and never waits; this runs on the event loop. The dispatcher hands timers over and
fetches the results in one of its next steps.
"""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import structlog

from meantime.clock import Clock
from meantime.errors import Invalid, MeantimeError, StorageUnavailable, Unavailable
from meantime.supervision import Work, supervised
from meantime.tasks import TaskSet
from meantime.timers.dispatching.held_timers import HeldTimer
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.model import LedgerEntry, TimerId, TimerState
from meantime.timers.reports import FuturesReport
from meantime.timers.topics import DONE, REQUEST

log = structlog.get_logger(__name__)


class PublishPermit:
    """Leave to publish timers whose attempt is written down: as long as nobody else can have them. `used` says whether
    anything may have been handed to Kafka's client."""

    def __init__(self, until: float, held: Callable[[], bool]) -> None:
        self._until = until
        self._held = held
        self.used = False

    @property
    def expired(self) -> bool:
        return time.monotonic() >= self._until or not self._held()

    def require(self) -> None:
        """To be asked right before anything is handed over."""
        if self.expired:
            raise Unavailable("the timers may be another dispatcher's by now")
        self.used = True


@dataclass(frozen=True, slots=True)
class PublishResult:
    """What became of timers by their place: why they were refused for good, and which may have been written or not. All
    others are published."""

    refused: Mapping[int, str] = field(default_factory=dict)
    doubtful: Collection[int] = frozenset()


class EventPublisher(Protocol):
    async def publish(self, timers: list[HeldTimer], require: Callable[[], None]) -> PublishResult:
        """Publish timers of one event type; `require` raises when that is not allowed any more."""
        ...

    async def published(self, timers: list[HeldTimer]) -> Collection[int]:
        """Which of these timers of one event type, by their place, have been published before."""
        ...


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
    unsent: tuple[HeldTimer, ...] = ()
    """They were not published, which is certain."""
    doubtful: tuple[HeldTimer, ...] = ()
    """They may have been."""


@dataclass(frozen=True, slots=True)
class UnverifiedTimers:
    """Timers of one share, and how far the ledger must have read to know about them."""

    timers: list[HeldTimer]
    needed: Mapping[tuple[str, int], int]


class BackgroundWork:
    def __init__(self, ledger: LedgerStore, events: EventPublisher, clock: Clock, remember_ms: int) -> None:
        self._ledger = ledger
        self._events = events
        self._clock = clock
        self._remember_ms = remember_ms
        self._loop = asyncio.get_running_loop()
        self._tasks: dict[int, TaskSet] = {}
        self._given_up: Counter[int] = Counter()
        self._cleared = 0
        self._results: deque[WorkResult] = deque()
        self.through: Mapping[int, int] = {}
        """How far `timer-request` has come through the Spark job, by partition."""

    # For the dispatcher, from its own thread

    def check(self, timers: list[HeldTimer], reached: Mapping[int, int], ended_from: int) -> None:
        needed = {(REQUEST, partition): offset for partition, offset in reached.items()}
        needed[DONE, timers[0].share] = ended_from
        self._start(timers[0].share, partial(self._check, UnverifiedTimers(timers, needed)), "timers ledger check")

    def publish(self, timers: list[HeldTimer], until: float) -> None:
        """Timers of one share and one event type, until an instant of the monotonic clock."""
        share = timers[0].share
        tenure = self._tenure(share)
        permit = PublishPermit(until, lambda: self._tenure(share) == tenure)
        self._start(share, partial(self._publish, timers, permit), "timers event callbacks")

    def look(self, timers: list[HeldTimer], wait_for: float) -> None:
        """After some seconds, whether timers of one share and one event type have been published."""
        self._start(timers[0].share, partial(self._look, timers, wait_for), "timers event look-up")

    def give_up(self, share: int) -> None:
        """Its timers are somebody else's from now on."""
        self._given_up[share] += 1
        self._loop.call_soon_threadsafe(self._cancel, share)

    def _start(self, share: int, work: Work, name: str) -> None:
        self._loop.call_soon_threadsafe(self._begin, share, self._tenure(share), work, name)

    def _tenure(self, share: int) -> tuple[int, int]:
        """Changes whenever the share goes elsewhere, and with every dispatcher."""
        return self._cleared, self._given_up[share]

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
        self._cleared += 1
        await asyncio.gather(*(tasks.end() for tasks in self._tasks.values()))
        self._results.clear()

    def _begin(self, share: int, tenure: tuple[int, int], work: Work, name: str) -> None:
        if tenure == self._tenure(share):
            self._tasks.setdefault(share, TaskSet()).start(supervised(work, name), name)

    def _cancel(self, share: int) -> None:
        self._tasks.get(share, TaskSet()).cancel()

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

    async def _publish(self, timers: list[HeldTimer], permit: PublishPermit) -> None:
        while not (permit.expired or permit.used):
            try:
                self._published(timers, await self._events.publish(timers, permit.require))
                return
            except Invalid as error:
                self._published(timers, PublishResult(dict.fromkeys(range(len(timers)), error.detail)))
                return
            except MeantimeError as error:
                log.warning("publishing_postponed", topic=timers[0].future.topic, timers=len(timers), error=error.detail)
                await asyncio.sleep(ASK_AGAIN_EVERY)
        left = tuple(timers)
        self._results.append(WorkResult(doubtful=left) if permit.used else WorkResult(unsent=left))

    def _published(self, timers: list[HeldTimer], result: PublishResult) -> None:
        open = {*result.refused, *result.doubtful}
        self._results.append(
            WorkResult(
                published=tuple(held for place, held in enumerate(timers) if place not in open),
                refused=tuple((timers[place], reason) for place, reason in result.refused.items()),
                doubtful=tuple(timers[place] for place in result.doubtful),
            )
        )

    async def _look(self, timers: list[HeldTimer], wait_for: float) -> None:
        await asyncio.sleep(wait_for)
        while True:
            try:
                found = set(await self._events.published(timers))
                break
            except MeantimeError as error:
                log.warning("looking_postponed", topic=timers[0].future.topic, timers=len(timers), error=error.detail)
            await asyncio.sleep(ASK_AGAIN_EVERY)
        there = tuple(held for place, held in enumerate(timers) if place in found)
        self._results.append(
            WorkResult(published=there, unsent=tuple(held for place, held in enumerate(timers) if place not in found))
        )


def state_by_ledger(held: HeldTimer, entry: LedgerEntry | None, oldest_ms: int) -> TimerState:
    """What the ledger's word means for a timer that comes very late: it is pending, has ended, or was cancelled. The ledger
    never forgets a pending timer; so one that it does not know, and that was requested before it began to forget, has
    ended."""
    if entry is None:
        return TimerState.FIRED if held.requested_ms < oldest_ms else TimerState.PENDING
    if entry.state in (TimerState.CANCELLED, TimerState.VOID):
        return TimerState.CANCELLED
    return TimerState.FIRED if entry.state in (TimerState.FIRED, TimerState.REJECTED) else TimerState.PENDING
