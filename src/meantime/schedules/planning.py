"""What a leader does about one schedule at one moment, as a pure decision.

Everything up to the present that nobody has dealt with is late. While the oldest of it is no later than a minute it is fired
at once, as after a change of leaders. Older than that, somebody was away, and the schedule's `missed` decides: the last, all
(the latest 1,000), or none. What lies ahead is planned up to `until_ms`, and the cursor follows.
"""

from dataclasses import dataclass

from meantime.schedules.calendar import Calendar, Occurrence, first_after, latest, until
from meantime.schedules.model import Schedule, ScheduleDeclaration
from meantime.schedules.rules import jitter

AHEAD_MS = 60_000
"""How long before its instant a firing is set."""
SLACK_MS = 15_000
"""So much further ahead a schedule is planned that has to be planned at all."""
LATE_MS = 60_000
SHORTLY_MS = 1_000
"""Where the message before matters, nothing is set ahead: whether it is still there is looked at so long before."""
MOST_MISSED = 1_000
MOST_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class PlannedFiring:
    """`missed` says why it is not fired; None when it is."""

    at_ms: int
    due_at_ms: int
    number: int
    missed: str | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    firings: tuple[PlannedFiring, ...]
    cursor_ms: int
    next_at_ms: int | None


def ahead_ms(declaration: ScheduleDeclaration) -> int:
    return SHORTLY_MS if declaration.overlap == "skip" else AHEAD_MS


def work_at_ms(declaration: ScheduleDeclaration, next_at_ms: int | None) -> int | None:
    """When a leader has to look at it again."""
    return None if next_at_ms is None else next_at_ms - ahead_ms(declaration)


def planned(schedule: Schedule, calendar: Calendar, now_ms: int, *, ahead: bool = True) -> Plan:
    """Without `ahead` only what is late."""
    declaration = schedule.declaration
    slack_ms = 0 if declaration.overlap == "skip" else SLACK_MS
    until_ms = now_ms + ahead_ms(declaration) + slack_ms if ahead else now_ms
    late = _late(schedule, calendar, now_ms)
    reached_ms = late[-1][0].at_ms if late else schedule.cursor_ms
    coming = until(calendar, reached_ms, until_ms, MOST_AT_ONCE)
    entries = [*late, *((occurrence, None) for occurrence in coming)]
    return _counted(schedule, calendar, entries, max(schedule.cursor_ms, reached_ms))


def _late(schedule: Schedule, calendar: Calendar, now_ms: int) -> list[tuple[Occurrence, str | None]]:
    """What is not ahead any more, each with the reason why it is not fired."""
    first_ms = first_after(calendar, schedule.cursor_ms)
    if first_ms is None or first_ms > now_ms:
        return []
    found, _ = latest(calendar, schedule.cursor_ms, now_ms, MOST_MISSED + 1)
    if first_ms >= now_ms - LATE_MS:
        return [(occurrence, None) for occurrence in found]
    return _judged(schedule.declaration, found, now_ms)


def _judged(declaration: ScheduleDeclaration, found: list[Occurrence], now_ms: int) -> list[tuple[Occurrence, str | None]]:
    oldest_ms = now_ms - declaration.missed_within_ms
    judged: list[tuple[Occurrence, str | None]] = []
    for place, occurrence in enumerate(found):
        reason = None
        if declaration.missed == "none":
            reason = "nobody could fire it in time, and missed is none"
        elif occurrence.at_ms < oldest_ms:
            reason = f"nobody could fire it within {declaration.missed_within_ms} ms (missed_within_ms)"
        elif declaration.missed == "last" and place < len(found) - 1:
            reason = "nobody could fire it in time, and only the last one is made up for (missed is last)"
        judged.append((occurrence, reason))
    if len(judged) > MOST_MISSED:
        told = f"more than {MOST_MISSED} were missed: this one and those before it are not fired, and those are not listed"
        judged[0] = (judged[0][0], told)
    return judged


def _counted(schedule: Schedule, calendar: Calendar, entries: list[tuple[Occurrence, str | None]], cursor_ms: int) -> Plan:
    """With the number of each; after the last that is allowed there is nothing more."""
    number, most, firings = schedule.firings, schedule.declaration.max_firings, []
    for occurrence, missed in entries:
        if most is not None and number >= most:
            break
        number += missed is None
        due_at_ms = occurrence.at_ms + jitter(schedule.id, occurrence.at_ms, schedule.declaration.jitter_ms)
        firings.append(PlannedFiring(occurrence.at_ms, due_at_ms, number, missed))
        cursor_ms = occurrence.at_ms
    ended = most is not None and number >= most
    return Plan(tuple(firings), cursor_ms, None if ended else first_after(calendar, cursor_ms))
