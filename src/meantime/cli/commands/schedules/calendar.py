"""Schedules and their instants as people read them: a calendar with the wall clock of the schedule, UTC, and marks where the
clocks change."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from meantime.cli.instants import clock_time, from_now, human
from meantime.cli.output import print_table
from meantime.cli.session import ClusterSession

if TYPE_CHECKING:
    from meantime.sdk.schedule_model import PlannedFiring, Schedule

MEANING = {
    "moved: gap": "moved: the clocks go forward past its time",
    "first of two": "the first of two: the clocks go back",
    "second of two": "the second of two: the clocks have gone back",
}


def recurrence(schedule: "Schedule") -> str:
    """When it recurs, on one line."""
    if schedule.cron is not None:
        return f"{schedule.cron} in {schedule.time_zone}"
    if schedule.every_ms is not None:
        phase = f", {human(schedule.phase_ms / 1000)} later" if schedule.phase_ms else ""
        return f"every {human(schedule.every_ms / 1000)}{phase}"
    return f"{len(schedule.at_ms or []):,} instants"


def print_calendar(session: ClusterSession, firings: "Sequence[PlannedFiring]") -> None:
    now_ms = session.client.now() * 1000
    rows = [
        [_wall_clock(firing), clock_time(firing.at_ms), from_now(firing.at_ms, now_ms), mark]
        for firing, mark in zip(firings, marks(firings), strict=True)
    ]
    print_table(["local", "UTC", "", "note"], rows)


def marks(firings: "Iterable[PlannedFiring]") -> list[str]:
    """What is special about each: what a change of the clocks did to it, and from where on another offset holds."""
    found, before = [], None
    for firing in firings:
        offset = _offset(firing)
        changed = f"clocks changed: {before} → {offset}" if before and offset and before != offset else ""
        meaning = MEANING.get(firing.note or "", firing.note or "")
        found.append("; ".join(part for part in (meaning, changed) if part))
        before = offset or before
    return found


def _wall_clock(firing: "PlannedFiring") -> str:
    """`Mon 2027-03-29 09:00:00 +02:00`."""
    moment = _local(firing)
    return firing.local if moment is None else f"{moment:%a %Y-%m-%d %H:%M:%S} {_offset(firing)}"


def _offset(firing: "PlannedFiring") -> str:
    moment = _local(firing)
    return moment.isoformat()[len("2027-03-29T09:00:00") :].lstrip(".0123456789") if moment else ""


def _local(firing: "PlannedFiring") -> datetime | None:
    try:
        return datetime.fromisoformat(firing.local)
    except ValueError:
        return None
