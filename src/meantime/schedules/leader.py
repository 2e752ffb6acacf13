"""The leader: sets what becomes due within the next minute, for all schedules of the cluster.

    standby ──elected, healthy──► take a new epoch (fences whoever led before) ──► pass, pass, pass ...
       ▲                                                                             │
       └───── leadership over, degraded, or fenced by another leader ◄───────────────┘

A pass costs what is due, not what exists: it asks an index for what has to be looked at. Each batch is one statement that
checks epoch and revisions, so a leader that was frozen and wakes up late changes nothing. Since everything is set a minute
ahead, nobody notices a leader's death for half of that.
"""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from meantime.clock import Clock
from meantime.coordination.election import Election, Leadership
from meantime.errors import Degraded, Unavailable
from meantime.schedules.calendar import calendar_of
from meantime.schedules.firing import Firings
from meantime.schedules.meters import LEADING, PASS_FAILURES
from meantime.schedules.model import DAY_MS, Schedule
from meantime.schedules.planning import planned
from meantime.schedules.store import Advance, ScheduleStore
from meantime.schedules.zone_releases import ZoneReleases

log = structlog.get_logger(__name__)

ELECTION = "schedules"
PASS_EVERY = 0.5
BATCH = 250
"""Schedules that are moved on by one statement."""
MOST_FIRINGS = 2_000
"""And firings: the batch ends where it has so many."""
PLANNED_AT_ONCE = 25
"""So many are planned before others have their turn."""
AGAIN_AFTER_MS = 60_000
DEGRADED_FOR = 1.0
UNFINISHED_AFTER_MS = 10_000
TIDY_EVERY = 10.0
DELETED_FOR_MS = DAY_MS
FORGOTTEN_AT_ONCE = 5_000


class ScheduleLeader:
    """`require_healthy` raises `Degraded` while this node must not lead."""

    def __init__(
        self,
        store: ScheduleStore,
        firings: Firings,
        releases: ZoneReleases,
        clock: Clock,
        require_healthy: Callable[[], None],
        node_id: str,
    ) -> None:
        self._store = store
        self._firings = firings
        self._releases = releases
        self._clock = clock
        self._require_healthy = require_healthy
        self._node_id = node_id
        self._tidied_at = -TIDY_EVERY
        self.wake = asyncio.Event()

    async def run(self, election: Election) -> None:
        """Lead whenever elected, for ever."""
        await election.run(self.lead)

    async def lead(self, leadership: Leadership) -> None:
        """Until the leadership is over, this node is degraded, or another leads."""
        try:
            self._require_healthy()
            epoch = await self._store.lead(leadership.epoch, self._node_id)
            LEADING.set(1)
            log.info("schedules_led", epoch=epoch)
            await self._compare_zones(epoch)
            while await self._turn(leadership, epoch):
                await self._rest()
        except Unavailable as error:
            log.info("schedules_not_led", reason=error.detail)
            await asyncio.sleep(DEGRADED_FOR)
        finally:
            LEADING.set(0)

    async def _compare_zones(self, epoch: int) -> None:
        """Whatever goes wrong with it, firing goes on."""
        try:
            await self._releases.check(epoch)
        except Exception:
            log.exception("schedule_zones_not_compared")

    async def _turn(self, leadership: Leadership, epoch: int) -> bool:
        """One pass; False when this node should lead no longer. A database that is away is waited for."""
        leadership.require()
        self._require_healthy()
        try:
            await self.run_once(epoch)
            await self._tidy()
            return await self._store.epoch() == epoch
        except Degraded:
            raise
        except Unavailable as error:
            log.info("schedules_pass_postponed", reason=error.detail)
            return True

    async def _rest(self) -> None:
        try:
            async with asyncio.timeout(PASS_EVERY):
                await self.wake.wait()
        except TimeoutError:
            return
        self.wake.clear()

    async def run_once(self, epoch: int) -> int:
        """Fire everything that has to be set now; how many firings that were."""
        fired = 0
        while True:
            now_ms = self._clock.now_ms()
            due = await self._store.due(now_ms, BATCH)
            if not due:
                return fired
            moved, count = await self._fire(due, epoch, now_ms)
            fired += count
            if not moved:
                return fired

    async def _fire(self, due: Sequence[Schedule], epoch: int, now_ms: int) -> tuple[int, int]:
        """How many schedules moved on, and how many firings were recorded."""
        moved, fired = 0, 0
        batch: list[Advance] = []
        for place, schedule in enumerate(due):
            advance = await self._planned(schedule, epoch, now_ms)
            if advance is None:
                moved += 1
                continue
            batch.append(advance)
            if sum(len(one.firings) for one in batch) >= MOST_FIRINGS:
                some = await self._advanced(batch, epoch, now_ms)
                moved, fired, batch = moved + some[0], fired + some[1], []
            if place % PLANNED_AT_ONCE == 0:
                await asyncio.sleep(0)
        some = await self._advanced(batch, epoch, now_ms)
        return moved + some[0], fired + some[1]

    async def _advanced(self, batch: list[Advance], epoch: int, now_ms: int) -> tuple[int, int]:
        """How many schedules moved on, and how many firings were recorded. What is wrong with one of them harms no other."""
        if not batch:
            return 0, 0
        try:
            moved, recorded = await self._firings.fire(batch, epoch, now_ms)
        except Unavailable:
            raise
        except Exception:
            if len(batch) > 1:
                parts = [await self._advanced([one], epoch, now_ms) for one in batch]
                return sum(part[0] for part in parts), sum(part[1] for part in parts)
            await self._postpone(batch[0].schedule, epoch, now_ms)
            return 1, 0
        return len(moved), len(recorded)

    async def _planned(self, schedule: Schedule, epoch: int, now_ms: int) -> Advance | None:
        """None when it could not be planned."""
        try:
            plan = planned(schedule, calendar_of(schedule.declaration.recurrence), now_ms)
            firings = await self._firings.prepared(schedule, plan.firings, now_ms)
        except Unavailable:
            raise
        except Exception:
            await self._postpone(schedule, epoch, now_ms)
            return None
        return Advance(schedule, plan.cursor_ms, plan.next_at_ms, firings)

    async def _postpone(self, schedule: Schedule, epoch: int, now_ms: int) -> None:
        """To be called where it went wrong: that is told, and tried again later."""
        PASS_FAILURES.inc()
        log.exception("schedule_not_planned", schedule=schedule.id)
        await self._store.postpone(schedule, now_ms + AGAIN_AFTER_MS, epoch)

    async def _tidy(self) -> None:
        """Now and then: finish what others left, and forget what is old."""
        loop_time = asyncio.get_running_loop().time()
        if loop_time - self._tidied_at < TIDY_EVERY:
            return
        self._tidied_at = loop_time
        now_ms = self._clock.now_ms()
        try:
            await self._firings.finish(now_ms - UNFINISHED_AFTER_MS, BATCH)
            await self._store.forget(now_ms, now_ms - DELETED_FOR_MS, FORGOTTEN_AT_ONCE)
        except Unavailable:
            raise
        except Exception:
            log.exception("schedules_not_tidied")
