"""Time zones: the offsets of a zone and the borders between them.

Their data come from the package `tzdata`, never from the machine, so that all nodes of a release agree; `RELEASE` names
them. A zone can also be built from the borders that were stored with an earlier release, to see what a new one has moved.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache
from importlib.resources import files
from typing import NamedTuple
from zoneinfo import ZoneInfo

import tzdata  # type: ignore[import-untyped]

RELEASE: str = tzdata.IANA_VERSION

_EPOCH = datetime(1970, 1, 1)
_PROBE_S = 6 * 3600
"""No zone has changed its offset twice within so short a time."""
_YEARS = range(1900, 9000)


class Border(NamedTuple):
    """From the Unix second `at` on, wall clocks are `after` seconds ahead of UTC; until then `before`."""

    at: int
    before: int
    after: int


class Zone:
    """`offset_at` gives the offset at a Unix second, `borders_of` the borders within a year (UTC)."""

    def __init__(self, name: str, offset_at: Callable[[int], int], borders_of: Callable[[int], Sequence[Border]]) -> None:
        self.name = name
        self.offset_at = offset_at
        self.borders_of = borders_of

    def next_border(self, after: int, until: int) -> Border | None:
        """The first with `after` < at <= `until`."""
        for year in range(year_of(after), year_of(until) + 1):
            for border in self.borders_of(year):
                if after < border.at <= until:
                    return border
        return None

    def last_border(self, since: int, until: int) -> Border | None:
        """The last with `since` < at <= `until`."""
        for year in range(year_of(until), year_of(since) - 1, -1):
            for border in reversed(self.borders_of(year)):
                if since < border.at <= until:
                    return border
        return None


@cache
def zone_names() -> frozenset[str]:
    return frozenset(files("tzdata").joinpath("zones").read_text("utf-8").split())


@cache
def zone(name: str) -> Zone:
    """Raises KeyError for a name that is none."""
    if name not in zone_names():
        raise KeyError(name)
    *folders, file = name.split("/")
    with files("tzdata").joinpath("zoneinfo", *folders, file).open("rb") as data:
        info = ZoneInfo.from_file(data, key=name)

    def offset_at(second: int) -> int:
        return _seconds(datetime.fromtimestamp(second, info).utcoffset())

    return Zone(name, offset_at, lru_cache(512)(lambda year: _borders(offset_at, year)))


def stored_zone(name: str, first_offset: int, borders: Sequence[Border]) -> Zone:
    """A zone as it was known: before its first border it has `first_offset`."""
    ordered = sorted(borders)
    instants = [border.at for border in ordered]

    def offset_at(second: int) -> int:
        place = bisect_right(instants, second)
        return ordered[place - 1].after if place else first_offset

    return Zone(name, offset_at, lambda year: [border for border in ordered if year_of(border.at) == year])


def year_of(second: int) -> int:
    return wall(second, 0).year


def wall(second: int, offset: int) -> datetime:
    """What a wall clock with this offset shows, as a naive time."""
    return _EPOCH + timedelta(seconds=second + offset)


def unix(shown: datetime, offset: int) -> int:
    """The Unix second at which a wall clock with this offset shows this."""
    past = shown - _EPOCH
    return past.days * 86_400 + past.seconds - offset


def _borders(offset_at: Callable[[int], int], year: int) -> tuple[Border, ...]:
    if year not in _YEARS:
        return ()
    first, end = (int(datetime(one, 1, 1, tzinfo=UTC).timestamp()) for one in (year, year + 1))
    found, before, place = [], offset_at(first - 1), first - 1
    while place < end - 1:
        probe = min(place + _PROBE_S, end - 1)
        after = offset_at(probe)
        if after != before:
            found.append(Border(_change(offset_at, place, probe, before), before, after))
        place, before = probe, after
    return tuple(found)


def _change(offset_at: Callable[[int], int], low: int, high: int, before: int) -> int:
    """The first second with another offset than `before`, which `low` still has and `high` no longer."""
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if offset_at(middle) == before else (low, middle)
    return high


def _seconds(offset: timedelta | None) -> int:
    assert offset is not None
    return offset.days * 86_400 + offset.seconds
