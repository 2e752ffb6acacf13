"""Which seconds are to be written."""

from hypothesis import given
from hypothesis import strategies as st

from meantime.timers.oscillator import MOST_AT_ONCE, missing, until_next

NOW = 1_700_000_000


def test_an_empty_dial_begins_with_the_present_second():
    assert list(missing(None, NOW * 1000 + 999, 5)) == [NOW + offset for offset in range(6)]


def test_nothing_is_written_twice():
    assert list(missing(NOW + 5, NOW * 1000 + 999, 5)) == []
    assert list(missing(NOW + 5, NOW * 1000 + 1000, 5)) == [NOW + 6]


def test_a_clock_that_went_back_writes_nothing():
    assert list(missing(NOW + 5, (NOW - 60) * 1000, 5)) == []


@given(st.integers(1, 20_000))
def test_whatever_was_missed_is_caught_up_without_a_gap(behind: int):
    last, written = NOW - behind, []
    while seconds := missing(last, NOW * 1000, 5):
        assert len(seconds) <= MOST_AT_ONCE
        written += seconds
        last = seconds[-1]
    assert written == list(range(NOW - behind + 1, NOW + 6))


def test_the_next_second_is_waited_for():
    assert until_next(NOW * 1000) == 1.0
    assert until_next(NOW * 1000 + 250) == 0.75
