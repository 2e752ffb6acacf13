"""What users do to schedules: make, change, pause, resume, delete, fire and backfill.

A change is one statement: the new row and what was set ahead under the old one, taken back as far as it can be. What could
not be taken back is told. From the moment of a change on, a leader that has read the schedule before can fire nothing of it;
what was due before that moment, and nobody has got to, is dealt with first.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from meantime.clock import Clock
from meantime.errors import Conflict, Invalid, NotFound, StaleVersion, StorageUnavailable, UnknownReference
from meantime.schedules.calendar import calendar_of, first_after, until
from meantime.schedules.firing import Firings, body_of, second_of
from meantime.schedules.model import FiringState, Schedule, ScheduleDeclaration, ScheduleDraft, ScheduleTarget
from meantime.schedules.rules import check_id, check_note, declared, natural_id
from meantime.schedules.store import Change, Deleted, Filter, ScheduleStore, TakenBack
from meantime.schedules.targets import MessageTopics, ScheduledTimer, TimerTargets
from meantime.schedules.zone_releases import ZoneReleases

Require = Callable[[str, ScheduleTarget], Awaitable[None]]
"""Raises `Forbidden` if the caller may not touch this schedule with this target."""

TRIES = 8
MOST_BACKFILLED = 1_000
PAGE = 500


@dataclass(frozen=True, slots=True)
class Changed:
    """`too_late` are the instants that were set ahead and could not be taken back; `same`: nothing had to be done."""

    schedule: Schedule
    new: bool = False
    same: bool = False
    too_late: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Fired:
    """The instants that were fired; `skipped` is how many others had been before."""

    instants: list[int]
    skipped: int = 0


class Changing:
    def __init__(
        self,
        store: ScheduleStore,
        firings: Firings,
        topics: MessageTopics,
        timers: TimerTargets,
        releases: ZoneReleases,
        clock: Clock,
        require_healthy: Callable[[], None],
    ) -> None:
        self._store = store
        self._firings = firings
        self._topics = topics
        self._timers = timers
        self._releases = releases
        self._clock = clock
        self._require_healthy = require_healthy

    def _now_ms(self) -> int:
        """Every change begins now, so a node that does not trust its clock makes none."""
        self._require_healthy()
        return self._clock.now_ms()

    async def get(self, schedule_id: str) -> Schedule:
        found = await self._store.find(schedule_id)
        if found is None or isinstance(found, Deleted):
            raise NotFound(f"schedule {schedule_id[:200]!r} does not exist")
        return found

    async def put(self, schedule_id: str, draft: ScheduleDraft, require: Require) -> Changed:
        check_id(schedule_id)
        declaration = declared(draft, self._now_ms())
        await require(schedule_id, declaration.target)
        for _ in range(TRIES):
            found = await self._store.find(schedule_id)
            present = None if isinstance(found, Deleted) else found
            if present is not None:
                await require(schedule_id, present.declaration.target)
            _check_version(present, draft.version)
            await self._check_target(schedule_id, declaration)
            changed = await self._put(schedule_id, present, declaration, draft)
            if changed is not None:
                return changed
        raise Conflict(f"schedule {schedule_id!r} is being changed by others")

    async def _put(
        self, schedule_id: str, present: Schedule | None, declaration: ScheduleDeclaration, draft: ScheduleDraft
    ) -> Changed | None:
        """None when somebody else was quicker."""
        paused = draft.paused if draft.paused is not None else present.paused if present is not None else False
        note = draft.note if draft.note is not None else present.note if present is not None else None
        if present is not None and (present.declaration, present.paused, present.note) == (declaration, paused, note):
            return Changed(present, same=True)
        await self._releases.note(declaration.recurrence.time_zone)
        now_ms = self._now_ms()
        change = Change(
            declaration=declaration,
            paused=paused,
            note=note,
            next_at_ms=first_after(calendar_of(declaration.recurrence), now_ms),
            from_ms=-1 if paused else now_ms,
            why="the schedule was changed",
        )
        if present is not None:
            return await self._changed(present, change, now_ms)
        if not await self._store.add(schedule_id, change, now_ms):
            return None
        await self._wake()
        return Changed(await self.get(schedule_id), new=True)

    async def _changed(self, present: Schedule, change: Change, now_ms: int) -> Changed | None:
        if not await self._firings.catch_up(present, now_ms):
            return None
        taken = await self._store.change(present, change, now_ms)
        if taken is None:
            return None
        late = await self._taken_back(taken)
        await self._wake()
        return Changed(await self.get(present.id), too_late=late)

    async def _taken_back(self, taken: TakenBack) -> list[int]:
        return sorted([*taken.late, *await self._firings.take_back(taken.cancelling)]) if taken.cancelling else taken.late

    async def pause(self, schedule_id: str, note: str | None, require: Require) -> Changed:
        check_note(note)
        return await self._set_paused(schedule_id, True, note, require)

    async def resume(self, schedule_id: str, require: Require) -> Changed:
        """What was due in the meantime is not made up for: it was paused, not missed."""
        return await self._set_paused(schedule_id, False, None, require)

    async def _set_paused(self, schedule_id: str, paused: bool, note: str | None, require: Require) -> Changed:
        for _ in range(TRIES):
            present = await self.get(schedule_id)
            await require(schedule_id, present.declaration.target)
            if present.paused == paused and (not paused or note in (None, present.note)):
                return Changed(present, same=True)
            now_ms = self._now_ms()
            change = Change(
                declaration=present.declaration,
                paused=paused,
                note=note if paused else None,
                next_at_ms=self._following(present, now_ms),
                from_ms=-1,
                why="the schedule was paused",
            )
            changed = await self._changed(present, change, now_ms)
            if changed is not None:
                return changed
        raise Conflict(f"schedule {schedule_id!r} is being changed by others")

    def _following(self, schedule: Schedule, now_ms: int) -> int | None:
        most = schedule.declaration.max_firings
        if most is not None and schedule.firings >= most:
            return None
        return first_after(calendar_of(schedule.declaration.recurrence), now_ms)

    async def matching(self, prefix: str, paused: bool) -> list[str]:
        """The schedules whose names begin so and that are paused or not."""
        found: list[str] = []
        after = ""
        while page := await self._store.page(Filter(prefix=prefix, paused=paused), after, PAGE):
            found += [schedule.id for schedule in page]
            after = page[-1].id
        return found

    async def delete(self, schedule_id: str, require: Require) -> list[int]:
        """The instants that could not be taken back. Deleting again is fine, for a day."""
        for _ in range(TRIES):
            found = await self._store.find(schedule_id)
            if isinstance(found, Deleted):
                return []
            if found is None:
                raise NotFound(f"schedule {schedule_id[:200]!r} does not exist")
            await require(schedule_id, found.declaration.target)
            now_ms = self._now_ms()
            taken = await self._store.delete(found, now_ms) if await self._firings.catch_up(found, now_ms) else None
            if taken is not None:
                return await self._taken_back(taken)
        raise Conflict(f"schedule {schedule_id!r} is being changed by others")

    async def fire(self, schedule_id: str, at_ms: int | None, require: Require) -> Fired:
        """Once, now. The instant is its identity: the same again is the same firing."""
        now_ms = self._now_ms()
        instant_ms = now_ms if at_ms is None else at_ms
        if not 0 <= instant_ms <= now_ms:
            raise Invalid("at_ms must not be before 1970 or after now", field="at_ms", now_ms=now_ms)
        return await self._fire(schedule_id, [instant_ms], require)

    async def backfill(self, schedule_id: str, from_ms: int, to_ms: int, dry_run: bool, require: Require) -> Fired:
        """Fire what the calendar has in a stretch of the past and was not fired then."""
        now_ms = self._now_ms()
        if not 0 <= from_ms < to_ms <= now_ms:
            raise Invalid("from_ms must lie before to_ms, and that not after now", field="to_ms", now_ms=now_ms)
        schedule = await self.get(schedule_id)
        await require(schedule_id, schedule.declaration.target)
        calendar = calendar_of(schedule.declaration.recurrence)
        found = [one.at_ms for one in until(calendar, from_ms - 1, to_ms - 1, MOST_BACKFILLED + 1)]
        if len(found) > MOST_BACKFILLED:
            raise Invalid(f"more than {MOST_BACKFILLED} instants lie there; take a shorter stretch", field="to_ms")
        if not dry_run:
            return await self._fire(schedule_id, found, require)
        fired = await self._store.fired(schedule_id, found)
        return Fired([at_ms for at_ms in found if at_ms not in fired], len(fired))

    async def _fire(self, schedule_id: str, instants: list[int], require: Require) -> Fired:
        for _ in range(TRIES):
            schedule = await self.get(schedule_id)
            await require(schedule_id, schedule.declaration.target)
            fired = await self._store.fired(schedule_id, instants)
            left = [at_ms for at_ms in instants if at_ms not in fired]
            recorded = await self._firings.fire_now(schedule, left) if left else []
            if recorded is not None:
                done = {one.at_ms for one in recorded if one.state in (FiringState.FIRED, FiringState.SETTING)}
                return Fired(sorted(done), len(instants) - len(done))
        raise Conflict(f"schedule {schedule_id!r} is being changed by others")

    async def _check_target(self, schedule_id: str, declaration: ScheduleDeclaration) -> None:
        target = declaration.target
        if target.topic is not None:
            place = await self._topics.find(target.topic)
            if place is None:
                raise UnknownReference(f"topic {target.topic!r} does not exist", field="target.topic")
            self._topics.check_producer(target.topic, target.group or "")
            if len(declaration.body) > place.max_body_bytes:
                most = place.max_body_bytes
                raise Invalid(f"the body has {len(declaration.body)} bytes; at most {most} are allowed there", field="body")
            return
        now_ms = self._clock.now_ms()
        token, body = natural_id(schedule_id, now_ms), body_of(declaration, schedule_id, now_ms, 1)
        await self._timers.check(ScheduledTimer(token, second_of(now_ms), target, body, schedule_id, 1, now_ms))

    async def _wake(self) -> None:
        """The leader looks by itself now and then; told, it looks at once."""
        with suppress(StorageUnavailable):
            await self._store.notify()


def _check_version(present: Schedule | None, version: int | None) -> None:
    if version is not None and (present is None or present.version != version):
        found = "does not exist" if present is None else f"has version {present.version}"
        raise StaleVersion(f"the schedule {found}, not version {version}", version=present.version if present else None)
