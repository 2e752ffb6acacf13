"""Calendars: single cases that people know, and what has no end."""

from datetime import UTC, datetime
from itertools import islice

import pytest

from meantime.schedules.calendar import (
    calendar_of,
    check_cron,
    first_after,
    latest,
    until,
)
from meantime.schedules.model import Fold, Gap, Recurrence
from meantime.schedules.zones import RELEASE, Border, stored_zone, zone


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


def shown(recurrence: Recurrence, start: str, count: int) -> list[tuple[str, str | None]]:
    """Local times and marks."""
    found = islice(calendar_of(recurrence).after(at(start) - 1), count)
    return [
        (
            datetime.fromtimestamp(one.at_ms / 1000 + one.offset, UTC).strftime("%m-%d %H:%M") + f"{one.offset // 3600:+d}",
            one.note,
        )
        for one in found
    ]


def berlin(cron: str, gap: Gap = "after", fold: Fold = "first") -> Recurrence:
    return Recurrence(cron=cron, time_zone="Europe/Berlin", on_gap=gap, on_overlap=fold)


def test_a_fixed_time_in_a_gap_comes_once_at_its_end() -> None:
    assert shown(berlin("0,30 2 * * *"), "2027-03-27T12:00", 2) == [("03-28 03:00+2", "moved: gap"), ("03-29 02:00+2", None)]


def test_a_fixed_time_in_a_gap_can_be_left_out() -> None:
    assert shown(berlin("30 2 * * *", "skip"), "2027-03-27T12:00", 1) == [("03-29 02:30+2", None)]


@pytest.mark.parametrize(
    ("fold", "expected"),
    [
        ("first", [("10-31 02:30+2", "first of two")]),
        ("second", [("10-31 02:30+1", "second of two")]),
        ("both", [("10-31 02:30+2", "first of two"), ("10-31 02:30+1", "second of two")]),
    ],
)
def test_a_fixed_time_that_clocks_show_twice_comes_when_it_should(fold: Fold, expected: list[tuple[str, str]]) -> None:
    found = shown(berlin("30 2 * * *", fold=fold), "2027-10-30T12:00", len(expected) + 1)
    assert found == [*expected, ("11-01 02:30+1", None)]


def test_a_rhythm_goes_on_through_both_passes_of_an_hour() -> None:
    hours = [text for text, _ in shown(berlin("*/30 * * * *"), "2027-10-31T00:00", 5)]
    assert hours == ["10-31 02:00+2", "10-31 02:30+2", "10-31 02:00+1", "10-31 02:30+1", "10-31 03:00+1"]


def test_a_day_that_an_island_left_out_comes_on_the_next() -> None:
    apia = Recurrence(cron="0 12 30 12 *", time_zone="Pacific/Apia")
    assert shown(apia, "2011-12-01T00:00", 2) == [("12-31 00:00+14", "moved: gap"), ("12-30 12:00+14", None)]


def test_a_midnight_that_does_not_exist_comes_at_one() -> None:
    saopaulo = Recurrence(cron="0 0 * * *", time_zone="America/Sao_Paulo")
    assert shown(saopaulo, "2018-11-04T00:00", 2) == [("11-04 01:00-2", "moved: gap"), ("11-05 00:00-2", None)]


def test_what_was_moved_is_not_fired_again_by_who_goes_on_from_it() -> None:
    calendar = calendar_of(berlin("30 2 * * *"))
    moved = first_after(calendar, at("2027-03-27T12:00"))
    assert moved == at("2027-03-28T01:00")
    assert first_after(calendar, moved) == at("2027-03-29T00:30")


def test_seconds_names_last_days_and_weekdays_of_a_month_are_understood() -> None:
    def days(cron: str) -> list[str]:
        found = islice(calendar_of(Recurrence(cron=cron)).after(at("2027-01-01T00:00")), 2)
        return [datetime.fromtimestamp(one.at_ms / 1000, UTC).strftime("%m-%d %H:%M:%S") for one in found]

    assert days("*/20 0 9 * * MON") == ["01-04 09:00:00", "01-04 09:00:20"]
    assert days("0 9 L * *") == ["01-31 09:00:00", "02-28 09:00:00"]
    assert days("0 9 * * FRI#2") == ["01-08 09:00:00", "02-12 09:00:00"]
    assert days("0 9 * * 5L") == ["01-29 09:00:00", "02-26 09:00:00"]


@pytest.mark.parametrize(
    ("cron", "said"),
    [
        ("30 2 30 2 *", "never fires"),
        ("0 0 31 4,6 *", "never fires"),
        ("61 * * * *", "minute"),
        ("* * * *", "fields"),
        ("* * * * * * *", "fields"),
        ("*/0 * * * *", "minute"),
        ("0 9 * * NOD", "day-of-week"),
        ("", "fields"),
    ],
)
def test_what_is_wrong_with_an_expression_is_said(cron: str, said: str) -> None:
    assert said in (check_cron(cron) or "")


def test_every_so_often_counts_from_1970_and_its_phase() -> None:
    calendar = calendar_of(Recurrence(every_ms=60_000, phase_ms=1_500))
    assert [one.at_ms for one in islice(calendar.after(120_000), 2)] == [121_500, 181_500]
    assert first_after(calendar, 121_500) == 181_500


def test_a_list_of_instants_ends() -> None:
    calendar = calendar_of(Recurrence(at_ms=(1_000, 5_000)))
    assert [one.at_ms for one in calendar.after(1_000)] == [5_000]
    assert first_after(calendar, 5_000) is None


def test_a_calendar_begins_with_its_start_and_ends_before_its_end() -> None:
    calendar = calendar_of(Recurrence(every_ms=1_000, starts_at_ms=5_000, ends_at_ms=8_000))
    assert [one.at_ms for one in calendar.after(0)] == [5_000, 6_000, 7_000]
    assert first_after(calendar, 7_000) is None


def test_the_latest_instants_are_found_without_walking_through_all() -> None:
    calendar = calendar_of(Recurrence(every_ms=1_000))
    found, more = latest(calendar, 0, 10**12, 3)
    assert ([one.at_ms for one in found], more) == ([10**12 - 2_000, 10**12 - 1_000, 10**12], True)
    assert latest(calendar, 10**12 - 1_500, 10**12, 3) == (until(calendar, 10**12 - 1_500, 10**12, 9), False)


def test_a_zone_can_be_built_from_what_was_stored_of_it() -> None:
    real = zone("Europe/Berlin")
    borders = [Border(*border) for border in real.borders_of(2027)]
    copy = stored_zone("Europe/Berlin", 3_600, borders)
    seconds = range(at("2027-01-02T00:00") // 1000, at("2027-12-30T00:00") // 1000, 7 * 3_600)
    assert [copy.offset_at(second) for second in seconds] == [real.offset_at(second) for second in seconds]
    assert RELEASE.startswith("20")
