"""The zones of schedules as a release of the time zone data had them, and the schedules that it has moved, in PostgreSQL."""

from dataclasses import dataclass
from typing import Any

import msgspec

from meantime.database.pool import Database
from meantime.database.queries import load
from meantime.schedules.model import MovedFiring, Schedule
from meantime.schedules.store import ScheduleStore
from meantime.schedules.zones import RELEASE, Border


@dataclass(frozen=True, slots=True)
class StoredZone:
    """`first_offset` holds until the first of the borders, which are those of the coming years."""

    name: str
    tzdata: str
    first_offset: int
    borders: tuple[Border, ...]


class ZoneStore:
    def __init__(self, database: Database, schedules: ScheduleStore) -> None:
        self._database = database
        self._schedules = schedules
        self._sql = load("meantime.schedules", "store.sql")

    async def all(self) -> list[StoredZone]:
        rows = await self._database.fetch_all(self._sql["zones"])
        return [StoredZone(row["name"], row["tzdata"], row["first_offset"], _borders(row["borders"])) for row in rows]

    async def note(self, zone: StoredZone) -> None:
        """Unless it is stored already, perhaps by another release."""
        await self._database.execute(self._sql["note_zone"], _columns(zone))

    async def put(self, zone: StoredZone) -> None:
        await self._database.execute(self._sql["put_zone"], _columns(zone))

    async def same_under(self, name: str, release: str) -> None:
        """Those of its schedules that have not moved are planned by this release from now on."""
        await self._database.execute(self._sql["same_under_release"], {"zone": name, "tzdata": release})

    async def schedules(self, name: str, after: str, limit: int) -> list[Schedule]:
        return await self._schedules.page_of_zone(name, after, limit)

    async def move(
        self, schedule: Schedule, moved: MovedFiring, next_at_ms: int | None, work_ms: int | None, epoch: int
    ) -> None:
        params = {
            "id": schedule.id,
            "revision": schedule.revision,
            "next_at_ms": next_at_ms,
            "work_at_ms": work_ms,
            "tzdata": RELEASE,
            "moved": msgspec.json.encode(moved).decode(),
            "epoch": epoch,
        }
        await self._database.execute(self._sql["move"], params)


def _borders(text: str) -> tuple[Border, ...]:
    return msgspec.json.decode(text, type=tuple[Border, ...])


def _columns(zone: StoredZone) -> dict[str, Any]:
    return {
        "name": zone.name,
        "tzdata": zone.tzdata,
        "first_offset": zone.first_offset,
        "borders": msgspec.json.encode(zone.borders).decode(),
    }
