"""Cursor arithmetic, checked against a plain list of all events that were ever written."""

from contextlib import suppress
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import BadCursor
from meantime.streams.cursors import (
    Cursor,
    NamedPosition,
    PartitionTimelines,
    TimelineRange,
    last_offset,
    parse,
    parse_partition,
    partition_timelines,
)
from meantime.streams.model import Timeline


@dataclass(frozen=True)
class History:
    """Sizes of the timelines, oldest first; the last one is active."""

    sizes: list[int]

    @property
    def track(self) -> PartitionTimelines:
        last = len(self.sizes)
        return PartitionTimelines(
            tuple(TimelineRange(order, size - 1, active=order == last) for order, size in enumerate(self.sizes, start=1))
        )

    @property
    def places(self) -> list[tuple[Cursor, int]]:
        """Every way to name a place, with the number of events up to it."""
        named, before = [], 0
        for order, size in enumerate(self.sizes, start=1):
            named += [(Cursor(order, offset), before + offset + 1) for offset in range(-1, size)]
            before += size
        return named

    @property
    def total(self) -> int:
        return sum(self.sizes)


histories = st.builds(History, st.lists(st.integers(0, 4), min_size=1, max_size=6))


@st.composite
def histories_with_places(draw: st.DrawFn, places: int = 1) -> tuple[History, list[tuple[Cursor, int]]]:
    history = draw(histories)
    return history, [draw(st.sampled_from(history.places)) for _ in range(places)]


@given(st.builds(Cursor, st.integers(0, 0xFFFF), st.integers(-1, 10**18 - 1)))
def test_what_is_written_can_be_read_back(cursor: Cursor) -> None:
    assert parse(str(cursor)) == cursor


def test_cursors_have_the_form_of_the_contract() -> None:
    assert str(Cursor(1, -1)) == "001-0001--1"
    assert str(Cursor(1, 0)) == "001-0001-000000000000000000"
    assert str(Cursor(0xAB, 42)) == "001-00ab-000000000000000042"


def test_a_fake_timeline_writes_plain_numbers() -> None:
    assert str(Cursor(0, 7)) == "000000000000000007"
    assert str(Cursor(0, -1)) == "-1"


@pytest.mark.parametrize("text", ["BEGIN", "begin", "Begin", "bEgIn"])
def test_begin_is_understood_in_any_case(text: str) -> None:
    assert parse(text) is NamedPosition.BEGIN


@pytest.mark.parametrize(
    "text",
    ["", "x", "-2", "001-0001", "001-0001-", "001-0001--2", "002-0001-0", "001-1-0", "001-000g-0", "1.0", "٣", "9" * 19],
)
def test_nonsense_is_refused_with_its_reason(text: str) -> None:
    with pytest.raises(BadCursor) as refused:
        parse(text)
    assert refused.value.reason == "malformed"


@given(st.text(max_size=40))
def test_any_text_is_a_cursor_or_refused(text: str) -> None:
    with suppress(BadCursor):
        parse(text)


@pytest.mark.parametrize("text", ["3", "-1", "00", "+1", "", "a", "1 ", "٣"])
def test_an_unknown_partition_is_refused(text: str) -> None:
    with pytest.raises(BadCursor):
        parse_partition(text, 3)


@given(histories_with_places())
def test_settling_keeps_the_place_and_is_final(drawn: tuple[History, list[tuple[Cursor, int]]]) -> None:
    history, [(cursor, position)] = drawn
    settled = history.track.settled(cursor)
    assert (settled, position) in history.places
    assert history.track.settled(settled) == settled


@given(histories_with_places(places=2))
def test_settled_cursors_are_equal_when_they_are_the_same_place_and_ordered_as_the_events(
    drawn: tuple[History, list[tuple[Cursor, int]]],
) -> None:
    history, [(one, first), (other, second)] = drawn
    settled_one, settled_other = history.track.settled(one), history.track.settled(other)
    assert (settled_one == settled_other) == (first == second)
    assert (settled_one < settled_other) == (first < second)


@given(histories_with_places(places=2))
def test_distance_counts_the_events_between(drawn: tuple[History, list[tuple[Cursor, int]]]) -> None:
    history, [(initial, first), (final, second)] = drawn
    assert history.track.distance(initial, final) == second - first
    assert history.track.distance(final, initial) == first - second


@given(histories_with_places(), st.integers(-30, 30))
def test_a_shift_is_undone_by_the_distance(drawn: tuple[History, list[tuple[Cursor, int]]], by: int) -> None:
    history, [(cursor, position)] = drawn
    if position + by < 0:
        with pytest.raises(BadCursor) as refused:
            history.track.shifted(cursor, by)
        assert refused.value.reason == "before_beginning"
    else:
        assert history.track.distance(cursor, history.track.shifted(cursor, by)) == by


@given(histories_with_places())
def test_lag_is_what_is_left_to_read(drawn: tuple[History, list[tuple[Cursor, int]]]) -> None:
    history, [(cursor, position)] = drawn
    assert history.track.lag(cursor) == history.total - position


def test_a_shift_by_nothing_changes_nothing() -> None:
    assert History([3, 2]).track.shifted(Cursor(1, 2), 0) == Cursor(1, 2)


def test_a_shift_backwards_stays_in_its_timeline_down_to_before_its_first_event() -> None:
    switched = History([3, 0, 4]).track
    assert switched.shifted(Cursor(3, 2), -3) == Cursor(3, -1)
    assert switched.shifted(Cursor(3, 2), -4) == Cursor(1, 1)


def test_a_shift_forward_may_pass_borders_and_the_end() -> None:
    switched = History([3, 0, 4]).track
    assert switched.shifted(Cursor(1, 1), 1) == Cursor(1, 2)
    assert switched.shifted(Cursor(1, 1), 2) == Cursor(3, 0)
    assert switched.shifted(Cursor(1, 1), 100) == Cursor(3, 98)


def test_one_step_before_the_beginning_is_refused() -> None:
    with pytest.raises(BadCursor):
        History([3]).track.shifted(Cursor(1, -1), -1)


def test_plain_cursors_belong_to_the_oldest_timeline() -> None:
    switched = History([3, 4]).track
    assert switched.settled(Cursor(0, 1)) == Cursor(1, 1)
    assert switched.settled(Cursor(0, 2)) == Cursor(2, -1)


@pytest.mark.parametrize("cursor", [Cursor(3, 0), Cursor(1, 3), Cursor(2, 4)])
def test_a_stream_cannot_start_where_nothing_is(cursor: Cursor) -> None:
    with pytest.raises(BadCursor) as refused:
        History([3, 4]).track.readable(cursor)
    assert refused.value.reason == ("unknown_timeline" if cursor.order == 3 else "beyond_end")


def test_what_is_below_the_low_watermark_has_expired() -> None:
    trimmed = PartitionTimelines((TimelineRange(1, last=9, first=5), TimelineRange(2, last=3, active=True)))
    assert trimmed.readable(Cursor(1, 4)) == Cursor(1, 4)
    with pytest.raises(BadCursor) as refused:
        trimmed.readable(Cursor(1, 3))
    assert refused.value.reason == "expired"
    assert (trimmed.oldest(), trimmed.restart_from()) == (Cursor(1, 5), Cursor(1, 4))


def test_deleted_timelines_have_expired_except_for_their_very_end() -> None:
    cleaned = PartitionTimelines((TimelineRange(1, last=9, deleted=True), TimelineRange(2, last=3, active=True)))
    assert cleaned.readable(Cursor(1, 9)) == Cursor(2, -1)
    with pytest.raises(BadCursor):
        cleaned.readable(Cursor(1, 8))
    assert (cleaned.oldest(), cleaned.restart_from()) == (Cursor(2, 0), Cursor(2, -1))
    with pytest.raises(BadCursor):
        cleaned.distance(Cursor(1, 0), Cursor(2, 0))
    with pytest.raises(BadCursor):
        cleaned.shifted(Cursor(2, 0), -2)


def test_an_empty_partition_shows_what_will_come_first() -> None:
    empty = History([0]).track
    assert (str(empty.oldest()), str(empty.newest())) == ("001-0001-000000000000000000", "001-0001--1")
    assert History([0, 0, 0]).track.oldest() == Cursor(3, 0)


def test_a_partition_whose_events_have_all_expired_shows_the_next_one() -> None:
    trimmed = PartitionTimelines((TimelineRange(1, last=4, first=5), TimelineRange(2, last=6, first=7, active=True)))
    assert (trimmed.oldest(), trimmed.newest(), trimmed.restart_from()) == (Cursor(2, 7), Cursor(2, 6), Cursor(2, 6))


@given(histories, st.integers(0, 5))
def test_restarting_loses_nothing_that_can_be_read(history: History, trimmed: int) -> None:
    sizes = history.sizes
    stretches = [
        TimelineRange(order, size - 1, first=min(trimmed, size), active=order == len(sizes))
        for order, size in enumerate(sizes, start=1)
    ]
    shortened = PartitionTimelines(tuple(stretches))
    readable = [(s.order, offset) for s in stretches for offset in range(s.first, (s.last or 0) + 1)]
    restart = shortened.restart_from()
    assert all((restart.order, restart.offset) < place for place in readable)
    if readable:
        assert shortened.oldest() == Cursor(*readable[0])


def test_a_partition_that_a_timeline_did_not_have_is_empty_there() -> None:
    narrow = Timeline(None, "orders", 1, "default", "t", 1, 0, switched_at_ms=1, latest_offsets=(5,))
    wide = Timeline(None, "orders", 2, "default", "u", 2, 1)
    assert last_offset(narrow, 1) == -1
    assert partition_timelines([narrow, wide], 1, high=3).settled(Cursor(1, -1)) == Cursor(2, -1)
