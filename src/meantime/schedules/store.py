"""Schedules and their firings in PostgreSQL. One statement is one transaction: it does all of what it says, or nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from meantime.database.pool import Database
from meantime.database.queries import load
from meantime.names import is_identifier
from meantime.schedules.model import Firing, FiringState, MovedFiring, Schedule, ScheduleDeclaration
from meantime.schedules.planning import work_at_ms
from meantime.schedules.zones import RELEASE

CHANNEL = "meantime_schedules"
_AFTER_ALL_NAMES = "\x7f"
"""No name has a character that comes after this one."""
NO_LEADER = 0
"""The epoch of what a user asks for."""


@dataclass(frozen=True, slots=True)
class Deleted:
    """A schedule that was deleted a while ago."""

    version: int


@dataclass(frozen=True, slots=True)
class NewFiring:
    """A firing that is to be recorded, with its message if it has one. `previous` is the message that must be gone."""

    firing: Firing
    expires_at_ms: int
    bucket_id: int = 0
    producer_group: str = ""
    is_json: bool = True
    body: bytes = b""
    previous: str = ""


@dataclass(frozen=True, slots=True)
class Advance:
    """Where a schedule stands after a pass, and what it fires."""

    schedule: Schedule
    cursor_ms: int
    next_at_ms: int | None
    firings: Sequence[NewFiring] = ()


@dataclass(frozen=True, slots=True)
class TakenBack:
    """What a change did to what was set ahead. `cancelling` are timers of which Kafka has to be told."""

    cancelling: list[Firing] = field(default_factory=list)
    late: list[int] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Change:
    """What a schedule becomes. Instants up to `from_ms` stay as they are."""

    declaration: ScheduleDeclaration
    paused: bool
    note: str | None
    next_at_ms: int | None
    from_ms: int
    why: str


@dataclass(frozen=True, slots=True)
class Filter:
    prefix: str = ""
    label: str | None = None
    paused: bool | None = None
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Settled:
    """How a timer ended up that was being set or cancelled."""

    firing: Firing
    state: FiringState
    why: str | None = None


class ScheduleStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._sql = load("meantime.schedules", "store.sql")

    async def find(self, schedule_id: str) -> Schedule | Deleted | None:
        row = await self._database.fetch_one(self._sql["find"], {"id": schedule_id}) if is_identifier(schedule_id) else None
        if row is None:
            return None
        return _schedule(row) if row["deleted_at_ms"] is None else Deleted(row["version"])

    async def page(self, wanted: Filter, after: str, limit: int) -> list[Schedule]:
        params = {
            "prefix": wanted.prefix,
            "beyond": wanted.prefix + _AFTER_ALL_NAMES,
            "after": after,
            "label": wanted.label,
            "paused": wanted.paused,
            "moved": wanted.moved,
            "limit": limit,
        }
        sql = self._sql["page" if wanted.label is None else "page_of_target"]
        return [_schedule(row) for row in await self._database.fetch_all(sql, params)]

    async def page_of_zone(self, zone: str, after: str, limit: int) -> list[Schedule]:
        params = {"zone": zone, "after": after, "limit": limit}
        return [_schedule(row) for row in await self._database.fetch_all(self._sql["page_of_zone"], params)]

    async def add(self, schedule_id: str, change: Change, now_ms: int) -> bool:
        """False when there is one already."""
        return await self._database.fetch_one(self._sql["add"], _columns(schedule_id, change, now_ms)) is not None

    async def change(self, schedule: Schedule, change: Change, now_ms: int) -> TakenBack | None:
        """None when somebody else was quicker."""
        params = _columns(schedule.id, change, now_ms) | {"revision": schedule.revision}
        return _taken(await self._database.fetch_all(self._sql["change"], params))

    async def delete(self, schedule: Schedule, now_ms: int) -> TakenBack | None:
        why = "the schedule was deleted"
        params = {"id": schedule.id, "revision": schedule.revision, "now_ms": now_ms, "from_ms": -1, "why": why}
        return _taken(await self._database.fetch_all(self._sql["delete"], params))

    async def lead(self, epoch: int, node_id: str) -> int:
        """Begin to lead; everybody who led before can change nothing from now on."""
        row = await self._database.fetch_one(self._sql["lead"], {"epoch": epoch, "node_id": node_id})
        assert row is not None
        return int(row["epoch"])

    async def epoch(self) -> int:
        row = await self._database.fetch_one(self._sql["epoch"])
        return int(row["epoch"]) if row else 0

    async def due(self, now_ms: int, limit: int) -> list[Schedule]:
        rows = await self._database.fetch_all(self._sql["due"], {"now_ms": now_ms, "limit": limit})
        return [_schedule(row) for row in rows]

    async def postpone(self, schedule: Schedule, again_at_ms: int, epoch: int) -> None:
        params = {"id": schedule.id, "revision": schedule.revision, "again_at_ms": again_at_ms, "epoch": epoch}
        await self._database.execute(self._sql["postpone"], params)

    async def advance(
        self, advances: Sequence[Advance], epoch: int, now_ms: int, *, patient: bool = True
    ) -> tuple[set[str], list[Firing]]:
        """The schedules that moved on, and the firings that were recorded. All others have changed since they were read, or,
        to who is patient, have timers that are being cancelled."""
        params = _advances(advances) | _firings([one for each in advances for one in each.firings])
        params |= {"epoch": epoch, "now_ms": now_ms, "patient": patient}
        rows = await self._database.fetch_all(self._sql["advance"], params)
        moved = {row["schedule_id"] for row in rows if row["kind"] == "moved"}
        return moved, [_firing(row) for row in rows if row["kind"] == "firing"]

    async def settle(self, settled: Sequence[Settled]) -> None:
        params = {
            "ids": [one.firing.schedule_id for one in settled],
            "ats": [one.firing.at_ms for one in settled],
            "befores": [int(one.firing.state) for one in settled],
            "states": [int(one.state) for one in settled],
            "whys": [one.why for one in settled],
            "targets": [one.firing.target_id for one in settled],
        }
        await self._database.execute(self._sql["settle"], params)

    async def unfinished(self, before_ms: int, limit: int) -> list[Firing]:
        rows = await self._database.fetch_all(self._sql["unfinished"], {"before_ms": before_ms, "limit": limit})
        return [_firing(row) for row in rows]

    async def firings(self, schedule_id: str, from_ms: int, to_ms: int, limit: int) -> list[Firing]:
        params = {"id": schedule_id, "from_ms": from_ms, "to_ms": to_ms, "limit": limit}
        return [_firing(row) for row in await self._database.fetch_all(self._sql["firings"], params)]

    async def last_fired(self, ids: Sequence[str], now_ms: int) -> dict[str, int | None]:
        """The last instant of each that has come; None where it is not known any more."""
        rows = await self._database.fetch_all(self._sql["last_fired"], {"ids": list(ids), "now_ms": now_ms})
        return {row["id"]: row["at_ms"] for row in rows}

    async def fired(self, schedule_id: str, instants: Sequence[int]) -> set[int]:
        params = {"id": schedule_id, "ats": list(instants)}
        return {row["at_ms"] for row in await self._database.fetch_all(self._sql["fired"], params)}

    async def forget(self, now_ms: int, deleted_before_ms: int, limit: int) -> int:
        """How many firings were forgotten."""
        await self._database.execute(self._sql["forget_deleted"], {"before_ms": deleted_before_ms})
        return await self._database.execute(self._sql["forget_firings"], {"now_ms": now_ms, "limit": limit})

    async def notify(self) -> None:
        """Tell the leader that something is to be planned; it only saves time."""
        await self._database.execute("SELECT pg_notify(%(channel)s, '')", {"channel": CHANNEL})

    async def counts(self) -> Mapping[str, int]:
        return await self._database.fetch_one(self._sql["counts"]) or {}


def _schedule(row: Mapping[str, Any]) -> Schedule:
    return Schedule(
        id=row["id"],
        version=row["version"],
        revision=row["revision"],
        declaration=msgspec.json.decode(row["declaration"], type=ScheduleDeclaration),
        paused=row["paused"],
        note=row["note"],
        cursor_ms=row["cursor_ms"],
        next_at_ms=row["next_at_ms"],
        last_at_ms=row["last_at_ms"],
        firings=row["firings"],
        tzdata=row["tzdata"],
        moved=msgspec.json.decode(row["moved"], type=MovedFiring) if row["moved"] else None,
        created_at_ms=row["created_at_ms"],
        changed_at_ms=row["changed_at_ms"],
    )


def _firing(row: Mapping[str, Any]) -> Firing:
    return Firing(
        schedule_id=row["schedule_id"],
        at_ms=row["at_ms"],
        due_at_ms=row["due_at_ms"],
        version=row["version"],
        state=FiringState(row["state"]),
        why=row["why"],
        target=row["label"],
        target_id=row["target_id"],
        topic_id=row["topic_id"],
        number=row["number"],
        created_at_ms=row["created_at_ms"],
    )


def _columns(schedule_id: str, change: Change, now_ms: int) -> dict[str, Any]:
    declaration, next_at_ms = change.declaration, None if change.paused else change.next_at_ms
    return {
        "id": schedule_id,
        "declaration": msgspec.json.encode(declaration).decode(),
        "label": declaration.target.label,
        "time_zone": declaration.recurrence.time_zone,
        "paused": change.paused,
        "note": change.note,
        "next_at_ms": next_at_ms,
        "work_at_ms": work_at_ms(declaration, next_at_ms),
        "tzdata": RELEASE,
        "from_ms": change.from_ms,
        "why": change.why,
        "now_ms": now_ms,
    }


def _taken(rows: Sequence[Mapping[str, Any]]) -> TakenBack | None:
    if not any(row["kind"] == "done" for row in rows):
        return None
    cancelling = [_firing(row) for row in rows if row["kind"] == "cancelling"]
    return TakenBack(cancelling, sorted(row["at_ms"] for row in rows if row["kind"] == "late"))


def _advances(advances: Sequence[Advance]) -> dict[str, Any]:
    return {
        "ids": [one.schedule.id for one in advances],
        "revisions": [one.schedule.revision for one in advances],
        "cursors": [one.cursor_ms for one in advances],
        "nexts": [one.next_at_ms for one in advances],
        "works": [work_at_ms(one.schedule.declaration, one.next_at_ms) for one in advances],
    }


def _firings(firings: Sequence[NewFiring]) -> dict[str, Any]:
    return {
        "f_ids": [one.firing.schedule_id for one in firings],
        "f_ats": [one.firing.at_ms for one in firings],
        "f_dues": [one.firing.due_at_ms for one in firings],
        "f_versions": [one.firing.version for one in firings],
        "f_states": [int(one.firing.state) for one in firings],
        "f_whys": [one.firing.why for one in firings],
        "f_labels": [one.firing.target for one in firings],
        "f_targets": [one.firing.target_id for one in firings],
        "f_topics": [one.firing.topic_id for one in firings],
        "f_buckets": [one.bucket_id for one in firings],
        "f_groups": [one.producer_group for one in firings],
        "f_kinds": [one.is_json for one in firings],
        "f_bodies": [one.body for one in firings],
        "f_previous": [one.previous for one in firings],
        "f_numbers": [one.firing.number for one in firings],
        "f_expires": [one.expires_at_ms for one in firings],
    }
