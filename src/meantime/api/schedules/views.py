"""What schedules answer over HTTP."""

from base64 import b64encode
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from meantime.errors import UNREADABLE
from meantime.schedules.calendar import calendar_of, first_after
from meantime.schedules.model import Fold, Gap, Missed, MovedFiring, Overlap, Schedule, ScheduleDeclaration, ScheduleTarget

FiringWord = Literal["planned", "fired", "skipped", "missed", "cancelled"]


class ScheduleView(msgspec.Struct, frozen=True, kw_only=True):
    """`next_at_ms` is null where nothing is to come, or while it is paused; `moved` is there where another release of
    tzdata has moved a firing. Onlookers without `look:bodies` get no body."""

    id: str
    version: int
    cron: str | UnsetType = UNSET
    every_ms: int | UnsetType = UNSET
    phase_ms: int | UnsetType = UNSET
    at_ms: list[int] | UnsetType = UNSET
    time_zone: str
    target: ScheduleTarget
    body: Raw | UnsetType = UNSET
    body_b64: str | UnsetType = UNSET
    on_gap: Gap
    on_overlap: Fold
    missed: Missed
    missed_within_ms: int
    overlap: Overlap
    jitter_ms: int
    starts_at_ms: int | None
    ends_at_ms: int | None
    max_firings: int | None
    paused: bool
    note: str | None
    next_at_ms: int | None
    last_at_ms: int | None
    firings: int
    tzdata: str
    created_at_ms: int
    changed_at_ms: int
    moved: MovedFiring | UnsetType = UNSET


class ChangedScheduleView(ScheduleView, frozen=True, kw_only=True):
    """`too_late` are instants of the version before that could not be taken back."""

    too_late: list[int]


class SchedulesView(msgspec.Struct, frozen=True):
    """`next` continues the list; null at its end."""

    schedules: list[ScheduleView]
    next: str | None


class TooLateView(msgspec.Struct, frozen=True):
    """Instants that were set ahead and could not be taken back."""

    too_late: list[int]


class NextView(msgspec.Struct, frozen=True):
    """`local` is the wall clock with its offset; `at` the same instant in UTC."""

    at_ms: int
    at: str
    local: str
    note: Literal["moved: gap", "first of two", "second of two"] | None


class NextsView(msgspec.Struct, frozen=True):
    firings: list[NextView]


class FiringView(msgspec.Struct, frozen=True, kw_only=True):
    """`id` of the message, or `token` of the timer. `lateness_ms` is by how much it was created after it was due."""

    at_ms: int
    due_at_ms: int
    state: FiringWord
    why: str | None
    id: str | UnsetType = UNSET
    token: str | UnsetType = UNSET
    version: int
    created_at_ms: int
    lateness_ms: int


class FiringsView(msgspec.Struct, frozen=True):
    """Newest first."""

    firings: list[FiringView]


class FiredView(msgspec.Struct, frozen=True, kw_only=True):
    """What was done: `count` firings, `at_ms` their instants. `skipped` of a backfill were fired before."""

    count: int
    at_ms: list[int]
    skipped: int = 0


class PausedView(msgspec.Struct, frozen=True):
    """How many schedules changed, which they are, and what could not be taken back, by schedule."""

    count: int
    ids: list[str]
    too_late: dict[str, list[int]]


def schedule_view(schedule: Schedule, last_at_ms: int | None, now_ms: int, *, with_body: bool = True) -> ScheduleView:
    hidden = {} if with_body else {"body": UNSET, "body_b64": UNSET}
    return ScheduleView(**_fields(schedule, last_at_ms, now_ms) | hidden)


def changed_view(schedule: Schedule, too_late: list[int], last_at_ms: int | None, now_ms: int) -> ChangedScheduleView:
    return ChangedScheduleView(too_late=too_late, **_fields(schedule, last_at_ms, now_ms))


def _fields(schedule: Schedule, last_at_ms: int | None, now_ms: int) -> dict[str, Any]:
    declaration = schedule.declaration
    recurrence = declaration.recurrence
    return {
        "id": schedule.id,
        "version": schedule.version,
        "cron": UNSET if recurrence.cron is None else recurrence.cron,
        "every_ms": UNSET if recurrence.every_ms is None else recurrence.every_ms,
        "phase_ms": UNSET if recurrence.every_ms is None else recurrence.phase_ms,
        "at_ms": UNSET if recurrence.at_ms is None else list(recurrence.at_ms),
        "time_zone": recurrence.time_zone,
        "target": declaration.target,
        "body": _template(declaration.body) if declaration.is_json else UNSET,
        "body_b64": UNSET if declaration.is_json else b64encode(declaration.body).decode(),
        "on_gap": recurrence.on_gap,
        "on_overlap": recurrence.on_overlap,
        "missed": declaration.missed,
        "missed_within_ms": declaration.missed_within_ms,
        "overlap": declaration.overlap,
        "jitter_ms": declaration.jitter_ms,
        "starts_at_ms": recurrence.starts_at_ms,
        "ends_at_ms": recurrence.ends_at_ms,
        "max_firings": declaration.max_firings,
        "paused": schedule.paused,
        "note": schedule.note,
        "next_at_ms": _next_at_ms(schedule, declaration, now_ms),
        "last_at_ms": last_at_ms,
        "firings": schedule.firings,
        "tzdata": schedule.tzdata,
        "created_at_ms": schedule.created_at_ms,
        "changed_at_ms": schedule.changed_at_ms,
        "moved": UNSET if schedule.moved is None else schedule.moved,
    }


def _next_at_ms(schedule: Schedule, declaration: ScheduleDeclaration, now_ms: int) -> int | None:
    """Also what is set already lies ahead of whoever asks, as long as it is not due."""
    if schedule.paused:
        return None
    following = first_after(calendar_of(declaration.recurrence), now_ms)
    if following is None or following > schedule.cursor_ms:
        return schedule.next_at_ms
    return following


def _template(body: bytes) -> Raw:
    """A template that is JSON as it stands is shown as such, and any other as the string that it was given as."""
    try:
        given = msgspec.json.decode(body)
    except UNREADABLE:
        given = ""
    return Raw(msgspec.json.encode(body.decode())) if isinstance(given, str) else Raw(body)
