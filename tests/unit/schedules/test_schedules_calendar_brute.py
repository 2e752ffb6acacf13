"""The calendar against a brute force that looks at every minute around every change of the clocks.

The brute force knows nothing of the calendar: it reads the zones through `zoneinfo`, matches fields by hand, and takes what
the contract says literally. `MEANTIME_CALENDAR_YEARS=10` looks at so many years, and at all zones.
"""

import os
import random
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.resources import files
from itertools import product
from typing import NamedTuple
from zoneinfo import ZoneInfo

from meantime.schedules.calendar import calendar_of, first_after
from meantime.schedules.model import Fold, Gap, Recurrence
from meantime.schedules.zones import zone_names

YEARS = int(os.environ.get("MEANTIME_CALENDAR_YEARS", "0"))
ZONES = {
    "Europe/Berlin": (2027,),
    "Australia/Lord_Howe": (2027,),
    "Pacific/Apia": (2011,),
    "America/Sao_Paulo": (2018,),
    "Africa/Casablanca": (2027,),
    "Antarctica/Troll": (2027,),
    "America/Havana": (2027,),
    "America/Santiago": (2027,),
    "Asia/Gaza": (2027,),
    "Pacific/Chatham": (2027,),
    "America/Scoresbysund": (2024,),
}
AROUND = timedelta(hours=25)
EXPRESSIONS = (
    "30 2 * * *",
    "0 0 * * *",
    "15 1 * * *",
    "45 1,2,3 * * *",
    "0,20,40 0-3 * * *",
    "59 23 * * *",
    "0 12 30 12 *",
    "*/7 2 * * *",
    "*/30 * * * *",
    "15 * * * *",
    "30 */2 * * *",
    "5 0 1-15 * 6,0",
)
POLICIES: tuple[tuple[Gap, Fold], ...] = (("after", "first"), ("skip", "second"), ("after", "both"))
MINUTE = 60


class Window(NamedTuple):
    """Every minute around one change of the clocks, with what wall clocks show then."""

    zone: str
    start: int
    walls: list[datetime]
    shown_at: dict[datetime, list[int]]
    all_walls: list[datetime]
    """Also those that no clock shows."""


class Fields(NamedTuple):
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    any_day: bool
    any_weekday: bool
    fixed: bool


def test_every_instant_is_what_a_look_at_every_minute_finds() -> None:
    random.seed(23)
    checks = wrong = 0
    for window in windows():
        for expression, (gap, fold) in product(EXPRESSIONS, POLICIES):
            if not fields(expression).fixed and (gap, fold) != POLICIES[0]:
                continue
            expected = brute(window, expression, gap, fold)
            recurrence = Recurrence(cron=expression, time_zone=window.zone, on_gap=gap, on_overlap=fold)
            found = walked(window, recurrence)
            checks += len(window.walls)
            wrong += found != expected
            checks_of_starts, wrong_starts = started_anywhere(window, recurrence, expected)
            checks, wrong = checks + checks_of_starts, wrong + wrong_starts
            assert not wrong, f"{expression} in {window.zone} ({gap}, {fold}): {expected} expected, {found} found"
    print(f"{checks} checks, {wrong} wrong")
    assert checks > 1_000_000


def walked(window: Window, recurrence: Recurrence) -> list[int]:
    found = []
    for occurrence in calendar_of(recurrence).after((window.start - 1) * 1000):
        if occurrence.at_ms >= (window.start + MINUTE * len(window.walls)) * 1000:
            break
        found.append(occurrence.at_ms // 1000)
    return found


def started_anywhere(window: Window, recurrence: Recurrence, expected: list[int]) -> tuple[int, int]:
    """Wherever it is started, the next one is the next one."""
    wrong, calendar = 0, calendar_of(recurrence)
    starts = [window.start + random.randrange(MINUTE * len(window.walls)) for _ in range(3)] + expected[:1]
    for start in starts:
        following = next((at for at in expected if at > start), None)
        if following is not None:
            wrong += first_after(calendar, start * 1000 + 999) != following * 1000
    return len(starts), wrong


def windows() -> Iterator[Window]:
    zones = {name: tuple(range(2020, 2020 + YEARS)) for name in sorted(zone_names())} if YEARS else ZONES
    for name, years in zones.items():
        for year in years:
            for change in changes(name, year):
                start = change - int(AROUND.total_seconds())
                yield window_of(name, start, change + int(AROUND.total_seconds()))


def window_of(name: str, start: int, end: int) -> Window:
    walls = [shown(name, second) for second in range(start, end, MINUTE)]
    shown_at: dict[datetime, list[int]] = {}
    for place, wall in enumerate(walls):
        shown_at.setdefault(wall, []).append(start + MINUTE * place)
    first, minutes = min(walls), (max(walls) - min(walls)) // timedelta(minutes=1)
    return Window(name, start, walls, shown_at, [first + timedelta(minutes=one) for one in range(minutes + 1)])


def changes(name: str, year: int) -> Iterator[int]:
    """The first minutes with another offset, found hour by hour and then minute by minute."""
    first, end = (int(datetime(one, 1, 1, tzinfo=UTC).timestamp()) for one in (year, year + 1))
    for hour in range(first, end, 3600):
        if offset(name, hour) != offset(name, hour + 3600):
            yield next(second for second in range(hour, hour + 3601, MINUTE) if offset(name, second) != offset(name, hour))


def brute(window: Window, expression: str, gap: Gap, fold: Fold) -> list[int]:
    rule = fields(expression)
    if not rule.fixed:
        return [window.start + MINUTE * place for place, wall in enumerate(window.walls) if matches(rule, wall)]
    found: set[int] = set()
    for wall in window.all_walls:
        if matches(rule, wall):
            instants = window.shown_at.get(wall)
            found.update(passes(instants, fold) if instants else moved(window, wall, gap))
    return sorted(found)


def passes(instants: list[int], fold: Fold) -> list[int]:
    return instants if fold == "both" else instants[:1] if fold == "first" else instants[-1:]


def moved(window: Window, wall: datetime, gap: Gap) -> list[int]:
    """To the first minute after the gap in which this wall time lies."""
    if gap == "skip":
        return []
    place = next(place for place, shown in enumerate(window.walls) if shown > wall)
    return [window.start + MINUTE * place]


def matches(rule: Fields, wall: datetime) -> bool:
    if wall.minute not in rule.minutes or wall.hour not in rule.hours:
        return False
    return day_matches(rule, wall.date())


@cache
def day_matches(rule: Fields, day: date) -> bool:
    if day.month not in rule.months:
        return False
    of_month, of_week = day.day in rule.days, day.isoweekday() % 7 in rule.weekdays
    return (of_month and of_week) if rule.any_day or rule.any_weekday else (of_month or of_week)


@cache
def fields(expression: str) -> Fields:
    minute, hour, day, month, weekday = expression.split()
    return Fields(
        values(minute, 0, 59),
        values(hour, 0, 23),
        values(day, 1, 31),
        values(month, 1, 12),
        values(weekday, 0, 6),
        day == "*",
        weekday == "*",
        "*" not in (minute[0], hour[0]),
    )


def values(field: str, least: int, most: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        first, _, last = span.partition("-")
        begin = least if first == "*" else int(first)
        end = most if first == "*" else int(last or first)
        found.update(range(begin, end + 1, int(step or 1)))
    return frozenset(found)


@cache
def info(name: str) -> ZoneInfo:
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as data:
        return ZoneInfo.from_file(data, key=name)


def shown(name: str, second: int) -> datetime:
    return datetime.fromtimestamp(second, info(name)).replace(tzinfo=None, fold=0)


def offset(name: str, second: int) -> timedelta | None:
    return datetime.fromtimestamp(second, info(name)).utcoffset()
