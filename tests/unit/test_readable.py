import pytest

from meantime.cli.instants import unix_seconds
from meantime.durations import parse_duration
from meantime.readable import clock_time, from_now, human, readable


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s"),
        (0.25, "250 ms"),
        (0.9996, "1 s"),
        (1.5, "1.5 s"),
        (59, "59 s"),
        (59.96, "1 min"),
        (90, "1 min 30 s"),
        (3605, "1 h 5 s"),
        (5400, "1 h 30 min"),
        (172_800, "2 d"),
        (90_061, "1 d 1 h"),
        (-90, "-1 min 30 s"),
    ],
)
def test_durations_are_shown_in_their_two_largest_units(seconds: float, text: str) -> None:
    assert human(seconds) == text


@pytest.mark.parametrize(
    ("unix_ms", "text"),
    [
        (1_795_000_000_250, "2026-11-18 11:06:40.250Z"),
        (1_795_000_000_000, "2026-11-18 11:06:40Z"),
        (-1, "1969-12-31 23:59:59.999Z"),
        (10**18, "never"),
    ],
)
def test_instants_are_shown_in_utc(unix_ms: int, text: str) -> None:
    assert clock_time(unix_ms) == text


def test_what_is_shown_can_be_typed_in_again() -> None:
    assert unix_seconds(clock_time(1_795_000_000_250), 0) == 1_795_000_000.25
    assert [parse_duration(human(seconds)) for seconds in (0, 0.25, 1.5, 90, 5400, 172_800)] == [
        0,
        0.25,
        1.5,
        90,
        5400,
        172_800,
    ]


@pytest.mark.parametrize(
    ("ahead_ms", "text"),
    [
        (0, "now"),
        (-400, "now"),
        (1500, "in 2 s"),
        (180_000, "in 3 min"),
        (-7_200_000, "2 h ago"),
        (5_399_500, "in 1 h 30 min"),
        (259_100_000, "in 3 d"),
    ],
)
def test_instants_are_told_from_now(ahead_ms: int, text: str) -> None:
    assert from_now(1_795_000_000_000 + ahead_ms, 1_795_000_000_000) == text


def test_fields_in_milliseconds_are_shown_by_their_names() -> None:
    document = {
        "at_ms": 1_795_000_000_250,
        "stall_ms": 12.0,
        "lateness_ms": {"p50": 3, "p99": 1200},
        "held": 7,
        "age_ms": None,
    }

    assert readable("status", document) == {
        "at_ms": "2026-11-18 11:06:40.250Z",
        "stall_ms": "12 ms",
        "lateness_ms": {"p50": "3 ms", "p99": "1.2 s"},
        "held": 7,
        "age_ms": None,
    }
