"""What a new release of the time zone data has moved.

The zones in use are stored as the release had them under which their schedules were planned. A leader of another release
compares: where a zone is the same nothing happens; where it is not, each of its schedules is planned with both, and one
whose coming firings differ is planned anew, told in the log, in the metrics and in the list of moved schedules.
"""

from itertools import islice

import structlog

from meantime.clock import Clock
from meantime.schedules.calendar import calendar_of, first_after
from meantime.schedules.model import DAY_MS, MovedFiring, Recurrence, Schedule
from meantime.schedules.planning import work_at_ms
from meantime.schedules.zone_store import StoredZone, ZoneStore
from meantime.schedules.zones import RELEASE, Zone, stored_zone, year_of, zone, zone_names

log = structlog.get_logger(__name__)

YEARS = 5
"""So far ahead the borders of a zone are stored."""
COMPARED_MS = 400 * DAY_MS
MOST_COMPARED = 1_000
PAGE = 500


def stored(name: str, release: str, now_ms: int) -> StoredZone:
    """A zone as this release has it, from now on."""
    where, now = zone(name), now_ms // 1000
    years = range(year_of(now), year_of(now) + YEARS)
    borders = [border for year in years for border in where.borders_of(year) if border.at > now]
    return StoredZone(name, release, where.offset_at(now), tuple(borders))


def first_difference(recurrence: Recurrence, before: Zone, after_ms: int) -> MovedFiring | None:
    """The first coming instant that was another one with the zone as it was before."""
    until_ms = after_ms + COMPARED_MS
    old = islice(calendar_of(recurrence, before).after(after_ms), MOST_COMPARED)
    new = islice(calendar_of(recurrence).after(after_ms), MOST_COMPARED)
    for was, now in zip(old, new, strict=False):
        if min(was.at_ms, now.at_ms) > until_ms:
            return None
        if was.at_ms != now.at_ms:
            return MovedFiring(was.at_ms, now.at_ms)
    return None


class ZoneReleases:
    def __init__(self, store: ZoneStore, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._noted: set[str] = set()

    async def note(self, name: str) -> None:
        """A schedule is made in this zone."""
        if name not in self._noted:
            await self._store.note(stored(name, RELEASE, self._clock.now_ms()))
            self._noted.add(name)

    async def check(self, epoch: int) -> list[str]:
        """By a leader, when it begins: the schedules that have moved since the release under which they were planned."""
        moved: list[str] = []
        for known in await self._store.all():
            if known.tzdata == RELEASE or known.name not in zone_names():
                continue
            now_ms = self._clock.now_ms()
            new = stored(known.name, RELEASE, now_ms)
            if not _same(known, new, now_ms):
                moved += await self._moved(known, epoch)
            await self._store.same_under(known.name, RELEASE)
            await self._store.put(new)
        if moved:
            log.warning("schedules_moved", tzdata=RELEASE, schedules=len(moved), first=moved[:10])
        return moved

    async def _moved(self, known: StoredZone, epoch: int) -> list[str]:
        before = stored_zone(known.name, known.first_offset, known.borders)
        found, after = [], ""
        while page := await self._store.schedules(known.name, after, PAGE):
            for schedule in page:
                if (moved := await self._move(schedule, before, epoch)) is not None:
                    found.append(schedule.id)
                    log.warning("schedule_moved", schedule=schedule.id, from_ms=moved.from_ms, to_ms=moved.to_ms)
            after = page[-1].id
        return found

    async def _move(self, schedule: Schedule, before: Zone, epoch: int) -> MovedFiring | None:
        recurrence = schedule.declaration.recurrence
        now_ms = self._clock.now_ms()
        moved = first_difference(recurrence, before, now_ms) if recurrence.cron is not None else None
        if moved is None:
            return None
        next_at_ms = None
        if schedule.next_at_ms is not None:
            next_at_ms = first_after(calendar_of(recurrence), schedule.cursor_ms)
        work_ms = work_at_ms(schedule.declaration, next_at_ms)
        await self._store.move(schedule, moved, next_at_ms, work_ms, epoch)
        return moved


def _same(known: StoredZone, new: StoredZone, now_ms: int) -> bool:
    """From now on, by what both know. Two that differ only in what is far ahead may be taken for different."""
    now, before = now_ms // 1000, stored_zone(known.name, known.first_offset, known.borders)
    last = known.borders[-1].at if known.borders else new.borders[-1].at if new.borders else now
    ahead = [border for border in known.borders if border.at > now]
    return before.offset_at(now) == new.first_offset and ahead == [border for border in new.borders if border.at <= last]
