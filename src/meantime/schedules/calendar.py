"""Calendars: from a rule and a zone to instants. Pure, and the one place that knows what a change of the clocks does.

`cronsim` is asked for wall times only, as naive times; how they become instants is decided here, offset by offset:

    ──── offset a ────┤ border ├──── offset b ────      within one offset an instant is its wall time less the offset
                      gap: wall times that no clock shows; overlap: wall times that clocks show twice

*Interval kind* (minute or hour begin with `*`): every instant whose wall clock matches. *Fixed kind*: what falls into a gap
comes at its end, once, or not at all; what clocks show twice comes at the first, the second or both passes.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator
from datetime import datetime, timedelta
from itertools import islice, takewhile
from typing import Literal, NamedTuple, Protocol

from cronsim import CronSim, CronSimError

from meantime.schedules.model import Recurrence
from meantime.schedules.zones import Border, Zone, unix, wall, zone

MOVED: Literal["moved: gap"] = "moved: gap"
FIRST: Literal["first of two"] = "first of two"
SECOND: Literal["second of two"] = "second of two"
Note = Literal["moved: gap", "first of two", "second of two"]

_LONGEST_FOLD_S = 25 * 3600
"""No clock was ever set back by more."""
_SECOND = timedelta(seconds=1)
LATEST_S = 32_000_000_000
"""Some time before the years end."""


class Occurrence(NamedTuple):
    """`offset` is that of wall clocks at the instant, in seconds."""

    at_ms: int
    offset: int = 0
    note: Note | None = None


class Calendar(Protocol):
    def after(self, instant_ms: int) -> Iterator[Occurrence]:
        """The occurrences strictly after an instant, in order."""
        ...


class CronCalendar:
    def __init__(self, recurrence: Recurrence, where: Zone) -> None:
        assert recurrence.cron is not None
        self._expression = recurrence.cron
        self._zone = where
        self._skips_gaps = recurrence.on_gap == "skip"
        self._passes = recurrence.on_overlap
        self._fixed = is_fixed(recurrence.cron)

    def after(self, instant_ms: int) -> Iterator[Occurrence]:
        for at, offset, note in self._seconds_after(min(instant_ms // 1000, LATEST_S)):
            yield Occurrence(at * 1000, offset, note)

    def _seconds_after(self, start: int) -> Iterator[tuple[int, int, Note | None]]:
        """Offset by offset: `start` is the second after which the present offset is walked through, `known` the second up to
        which there is no border ahead."""
        where, known = self._zone, start
        offset = where.offset_at(start)
        before = where.last_border(start - _LONGEST_FOLD_S, start)
        moved_to: int | None = None
        while start < LATEST_S:
            border: Border | None = None
            for shown in self._walls_after(wall(start, offset)):
                at = unix(shown, offset)
                border = where.next_border(known, at)
                if border is not None:
                    if self._fixed and not self._skips_gaps and shown < wall(border.at, border.after):
                        moved_to = border.at
                        yield border.at, border.after, MOVED
                    break
                known = at
                note = self._note(shown, at, before)
                if at != moved_to and self._counts(note):
                    yield at, offset, note
            if border is None:
                return
            before, offset, start, known = border, border.after, border.at - 1, border.at

    def _walls_after(self, shown: datetime) -> Iterator[datetime]:
        yield from CronSim(self._expression, shown)

    def _note(self, shown: datetime, at: int, before: Border | None) -> Note | None:
        if before is not None and shown < wall(before.at, before.before):
            return SECOND
        ahead = self._zone.next_border(at, at + _LONGEST_FOLD_S)
        return FIRST if ahead is not None and shown >= wall(ahead.at, ahead.after) else None

    def _counts(self, note: Note | None) -> bool:
        if not self._fixed or note is None or self._passes == "both":
            return True
        return (note == FIRST) == (self._passes == "first")


class EveryCalendar:
    """Every so many milliseconds, counted from 1970."""

    def __init__(self, every_ms: int, phase_ms: int, where: Zone) -> None:
        self.every_ms = every_ms
        self.phase_ms = phase_ms
        self._zone = where

    def after(self, instant_ms: int) -> Iterator[Occurrence]:
        at_ms = self.following(instant_ms)
        while at_ms < LATEST_S * 1000:
            yield Occurrence(at_ms, self._zone.offset_at(at_ms // 1000))
            at_ms += self.every_ms

    def following(self, instant_ms: int) -> int:
        return ((instant_ms - self.phase_ms) // self.every_ms + 1) * self.every_ms + self.phase_ms


class ListCalendar:
    def __init__(self, instants: tuple[int, ...], where: Zone) -> None:
        self._instants = instants
        self._zone = where

    def after(self, instant_ms: int) -> Iterator[Occurrence]:
        for at_ms in self._instants[bisect_right(self._instants, instant_ms) :]:
            yield Occurrence(at_ms, self._zone.offset_at(at_ms // 1000))


class BoundedCalendar:
    """From its start on, and before its end."""

    def __init__(self, calendar: Calendar, starts_at_ms: int | None, ends_at_ms: int | None) -> None:
        self.calendar = calendar
        self._starts_at_ms = starts_at_ms
        self._ends_at_ms = ends_at_ms

    def after(self, instant_ms: int) -> Iterator[Occurrence]:
        start_ms = instant_ms if self._starts_at_ms is None else max(instant_ms, self._starts_at_ms - 1)
        for occurrence in self.calendar.after(start_ms):
            if self._ends_at_ms is not None and occurrence.at_ms >= self._ends_at_ms:
                return
            yield occurrence


def calendar_of(recurrence: Recurrence, where: Zone | None = None) -> BoundedCalendar:
    """`where` in place of the zone of that name, to see what another release of it does."""
    where = where or zone(recurrence.time_zone)
    calendar: Calendar
    if recurrence.cron is not None:
        calendar = CronCalendar(recurrence, where)
    elif recurrence.every_ms is not None:
        calendar = EveryCalendar(recurrence.every_ms, recurrence.phase_ms, where)
    else:
        calendar = ListCalendar(recurrence.at_ms or (), where)
    return BoundedCalendar(calendar, recurrence.starts_at_ms, recurrence.ends_at_ms)


def first_after(calendar: Calendar, instant_ms: int) -> int | None:
    return next((occurrence.at_ms for occurrence in calendar.after(instant_ms)), None)


def until(calendar: Calendar, after_ms: int, until_ms: int, most: int) -> list[Occurrence]:
    """At most so many after one instant, and not after another."""
    found: list[Occurrence] = []
    for occurrence in islice(calendar.after(after_ms), most):
        if occurrence.at_ms > until_ms:
            break
        found.append(occurrence)
    return found


def latest(calendar: Calendar, after_ms: int, until_ms: int, most: int) -> tuple[list[Occurrence], bool]:
    """The latest that are not after `until_ms`, at most so many, and whether there are more before them. What it costs goes
    by `most` and not by the time between: it looks back over longer and longer stretches until there are enough."""
    stretch_ms = 60_000
    while True:
        start_ms = max(after_ms, until_ms - stretch_ms)
        ahead = calendar.after(start_ms)
        found = deque(takewhile(lambda occurrence: occurrence.at_ms <= until_ms, ahead), maxlen=most + 1)
        if len(found) > most:
            return list(found)[-most:], True
        if start_ms == after_ms:
            return list(found), False
        stretch_ms *= 2


def is_fixed(expression: str) -> bool:
    """Whether it names times of a day, and not a rhythm."""
    minute, hour = expression.split()[-5:-3]
    return not (minute.startswith("*") or hour.startswith("*"))


def check_cron(expression: str) -> str | None:
    """What is wrong with it; None if nothing is."""
    try:
        dated = CronSim(expression, datetime(2000, 1, 1) - _SECOND)
    except (CronSimError, ValueError, AssertionError) as error:
        text = str(error) or "it cannot be read"
        return "it never fires: no month has that day" if _is_impossible(expression) else text
    return "it never fires" if next(dated, None) is None else None


def _is_impossible(expression: str) -> bool:
    """Whether it can be read but for the day, which the months that it names do not have."""
    fields = expression.split()
    if len(fields) not in (5, 6):
        return False
    try:
        CronSim(" ".join([*fields[:-2], "*", fields[-1]]), datetime(2000, 1, 1))
    except (CronSimError, ValueError, AssertionError):
        return False
    return True
