"""Firing: from planned instants to messages and timers, each once.

Messages are made by the statement that records their firings and moves the cursor, so there is nothing between. Timers are
recorded first as being set, then set, then marked: whoever finds one that is being set sets it again, which is the same
timer, and whoever takes one back finds it also while it is being set. A cancel may come before its timer.
"""

import asyncio
from collections.abc import Iterable, Sequence

import structlog

from meantime.clock import Clock
from meantime.errors import MeantimeError, Unavailable
from meantime.schedules.calendar import calendar_of
from meantime.schedules.meters import AHEAD, FIRINGS
from meantime.schedules.model import DAY_MS, Firing, FiringState, Schedule, ScheduleDeclaration
from meantime.schedules.planning import PlannedFiring, planned
from meantime.schedules.rules import natural_id
from meantime.schedules.store import NO_LEADER, Advance, Deleted, NewFiring, ScheduleStore, Settled
from meantime.schedules.targets import ArrivedMessage, MessageTopics, ScheduledTimer, TimerTargets, TopicPlace
from meantime.schedules.templates import Filling, filled

log = structlog.get_logger(__name__)

REMEMBERED = 1_000
"""So many firings of a schedule are remembered, but none for less than an hour or more than 90 days."""
LEAST_REMEMBERED_MS, MOST_REMEMBERED_MS = 3_600_000, 90 * DAY_MS
CANCELLED_AT_ONCE = 16
AGAIN_AFTER = 0.2

_NO_TOPIC = "the topic does not exist"


class Firings:
    def __init__(self, store: ScheduleStore, topics: MessageTopics, timers: TimerTargets, clock: Clock) -> None:
        self._store = store
        self._topics = topics
        self._timers = timers
        self._clock = clock

    async def prepared(self, schedule: Schedule, plans: Sequence[PlannedFiring], now_ms: int) -> list[NewFiring]:
        """As they are recorded; what the target makes impossible is skipped, and says why."""
        target = schedule.declaration.target
        place = await self._topics.find(target.topic) if target.topic is not None else None
        expires_at_ms = now_ms + _remembered_for(plans)
        made = [self._firing(schedule, one, place, expires_at_ms, now_ms) for one in plans]
        return _once(schedule, made) if schedule.declaration.overlap == "skip" else made

    def _firing(
        self, schedule: Schedule, plan: PlannedFiring, place: TopicPlace | None, expires_at_ms: int, now_ms: int
    ) -> NewFiring:
        declaration, target_id = schedule.declaration, natural_id(schedule.id, plan.at_ms)
        state, why = FiringState.FIRED if declaration.target.topic is not None else FiringState.SETTING, plan.missed
        if plan.missed is not None:
            state = FiringState.MISSED
        elif declaration.target.topic is not None and place is None:
            state, why = FiringState.SKIPPED, _NO_TOPIC
        firing = Firing(
            schedule_id=schedule.id,
            at_ms=plan.at_ms,
            due_at_ms=plan.due_at_ms,
            version=schedule.version,
            state=state,
            why=why,
            target=declaration.target.label,
            target_id=target_id,
            topic_id=place.topic_id if place and state is FiringState.FIRED else 0,
            number=plan.number,
            created_at_ms=now_ms,
        )
        if state is not FiringState.FIRED or place is None:
            return NewFiring(firing, expires_at_ms)
        return NewFiring(
            firing,
            expires_at_ms,
            bucket_id=self._topics.bucket_of(target_id, place.bucket_count),
            producer_group=declaration.target.group or "",
            is_json=declaration.is_json,
            body=body_of(declaration, schedule.id, plan.at_ms, plan.number),
        )

    async def fire(
        self, advances: Sequence[Advance], epoch: int, now_ms: int, *, patient: bool = True
    ) -> tuple[set[str], list[Firing]]:
        """Which schedules moved on, and what was recorded for them."""
        moved, recorded = await self._store.advance(advances, epoch, now_ms, patient=patient)
        for firing in recorded:
            FIRINGS.labels(firing.state.name.lower()).inc()
            if firing.state in (FiringState.FIRED, FiringState.SETTING):
                AHEAD.observe(max(0.0, (firing.due_at_ms - now_ms) / 1000))
        self._announce(recorded, now_ms, advances)
        declarations = {one.schedule.id: one.schedule.declaration for one in advances}
        await self.set_timers([firing for firing in recorded if firing.state is FiringState.SETTING], declarations)
        return moved, recorded

    def _announce(self, recorded: Iterable[Firing], now_ms: int, advances: Sequence[Advance]) -> None:
        buckets = {one.firing.target_id: one.bucket_id for each in advances for one in each.firings}
        arrived: dict[int, list[ArrivedMessage]] = {}
        for firing in recorded:
            if firing.state is FiringState.FIRED:
                message = ArrivedMessage(firing.target_id, buckets[firing.target_id], max(firing.due_at_ms, now_ms))
                arrived.setdefault(firing.topic_id, []).append(message)
        for topic_id, messages in arrived.items():
            self._topics.arrived(topic_id, messages)

    async def set_timers(self, firings: Sequence[Firing], declarations: dict[str, ScheduleDeclaration]) -> None:
        """Set timers that are recorded as being set. One that cannot be set now is set later, by the leader."""
        if not firings:
            return
        timers = [timer_of(firing, declarations[firing.schedule_id]) for firing in firings]
        try:
            await self._timers.set(timers)
        except Unavailable as error:
            log.warning("schedule_timers_not_set", timers=len(timers), error=error.detail)
            return
        except MeantimeError as error:
            log.warning("schedule_timers_refused", timers=len(timers), error=error.detail)
            await self._store.settle([Settled(one, FiringState.SKIPPED, error.detail) for one in firings])
            return
        await self._store.settle([Settled(firing, FiringState.FIRED) for firing in firings])

    async def take_back(self, firings: Sequence[Firing]) -> list[int]:
        """Cancel timers that are recorded as being cancelled; the instants for which it was too late. What is not known yet
        stays as it is, for the leader."""
        limit = asyncio.Semaphore(CANCELLED_AT_ONCE)

        async def one(firing: Firing) -> Settled | None:
            async with limit:
                return await self._cancelled(firing)

        settled = [found for found in await asyncio.gather(*map(one, firings)) if found is not None]
        if settled:
            await self._store.settle(settled)
        cancelled = {found.firing.at_ms for found in settled if found.state is FiringState.CANCELLED}
        return sorted(firing.at_ms for firing in firings if firing.at_ms not in cancelled)

    async def _cancelled(self, firing: Firing) -> Settled | None:
        try:
            cancelled = await self._timers.cancel(firing.target_id, second_of(firing.due_at_ms))
        except Unavailable as error:
            log.warning("schedule_timer_not_cancelled", schedule=firing.schedule_id, at_ms=firing.at_ms, error=error.detail)
            return None
        return Settled(firing, FiringState.CANCELLED if cancelled else FiringState.FIRED)

    async def finish(self, before_ms: int, limit: int) -> int:
        """Finish what somebody else has begun and not ended; how many there were."""
        firings = await self._store.unfinished(before_ms, limit)
        cancelling = [firing for firing in firings if firing.state is FiringState.CANCELLING]
        if cancelling:
            await self.take_back(cancelling)
        setting = [firing for firing in firings if firing.state is FiringState.SETTING]
        declarations = await self._declarations({firing.schedule_id for firing in setting})
        await self.set_timers([firing for firing in setting if firing.schedule_id in declarations], declarations)
        return len(firings)

    async def _declarations(self, ids: set[str]) -> dict[str, ScheduleDeclaration]:
        found = {schedule_id: await self._store.find(schedule_id) for schedule_id in ids}
        return {id: one.declaration for id, one in found.items() if one is not None and not isinstance(one, Deleted)}

    async def catch_up(self, schedule: Schedule, now_ms: int) -> bool:
        """Deal with all that was due up to now and that no leader has got to, before the schedule becomes another one. False
        when there was something: then the schedule has to be read again."""
        if schedule.paused or schedule.next_at_ms is None or schedule.next_at_ms > now_ms:
            return True
        plan = planned(schedule, calendar_of(schedule.declaration.recurrence), now_ms, ahead=False)
        firings = await self.prepared(schedule, plan.firings, now_ms)
        advance = Advance(schedule, plan.cursor_ms, plan.next_at_ms, firings)
        moved, _ = await self.fire([advance], NO_LEADER, now_ms)
        if not moved:
            await asyncio.sleep(AGAIN_AFTER)
        return False

    async def fire_now(self, schedule: Schedule, instants: Sequence[int]) -> list[Firing] | None:
        """For a user, at once: these instants as far as they have not been fired. None when the schedule has changed."""
        now_ms = self._clock.now_ms()
        numbered = enumerate(instants, start=schedule.firings + 1)
        plans = [PlannedFiring(at_ms, max(at_ms, now_ms), number) for number, at_ms in numbered]
        firings = await self.prepared(schedule, plans, now_ms)
        advance = Advance(schedule, schedule.cursor_ms, schedule.next_at_ms, firings)
        moved, recorded = await self.fire([advance], NO_LEADER, now_ms, patient=False)
        return recorded if moved else None


def second_of(due_at_ms: int) -> int:
    """Timers have seconds: the first that is not before."""
    return -(-due_at_ms // 1000)


def body_of(declaration: ScheduleDeclaration, schedule_id: str, at_ms: int, number: int) -> bytes:
    if not declaration.is_json:
        return declaration.body
    return filled(declaration.body, Filling(schedule_id, at_ms, number))


def timer_of(firing: Firing, declaration: ScheduleDeclaration) -> ScheduledTimer:
    body = body_of(declaration, firing.schedule_id, firing.at_ms, firing.number)
    second = second_of(firing.due_at_ms)
    return ScheduledTimer(
        firing.target_id, second, declaration.target, body, firing.schedule_id, firing.version, firing.at_ms
    )


def _once(schedule: Schedule, made: list[NewFiring]) -> list[NewFiring]:
    """Where messages must not overlap, only the first of several can be fired, and only if the one before is gone."""
    before: str | None = natural_id(schedule.id, schedule.last_at_ms) if schedule.last_at_ms is not None else ""
    result: list[NewFiring] = []
    for one in made:
        if one.firing.state is not FiringState.FIRED:
            result.append(one)
        elif before is not None:
            result.append(_with_previous(one, before))
            before = None
        else:
            result.append(_skipped(one))
    return result


def _with_previous(new: NewFiring, previous: str) -> NewFiring:
    return NewFiring(new.firing, new.expires_at_ms, new.bucket_id, new.producer_group, new.is_json, new.body, previous)


def _skipped(new: NewFiring) -> NewFiring:
    fields = {name: getattr(new.firing, name) for name in Firing.__struct_fields__}
    why = "another one was late at the same time (overlap is skip)"
    return NewFiring(Firing(**fields | {"state": FiringState.SKIPPED, "why": why, "topic_id": 0}), new.expires_at_ms)


def _remembered_for(plans: Sequence[PlannedFiring]) -> int:
    """By how far they lie apart; one that is alone, as long as any."""
    if len(plans) < 2:
        return MOST_REMEMBERED_MS
    apart_ms = (plans[-1].at_ms - plans[0].at_ms) // (len(plans) - 1)
    return max(LEAST_REMEMBERED_MS, min(MOST_REMEMBERED_MS, apart_ms * REMEMBERED))
