"""What lies between two cursors, as ranges of offsets."""

import pytest

from meantime.errors import BadCursor, Invalid
from meantime.pipelines.archive.hold import archived_timeline
from meantime.pipelines.event_types.kafka_reader import rounds
from meantime.pipelines.event_types.layout import EventTypeLayout
from meantime.pipelines.event_types.ranges import Range, advanced, between, lags, shares, tasks
from meantime.streams.cursors import Cursor
from meantime.streams.model import Timeline


def timeline(order: int, *latest: int, deleted: bool = False) -> Timeline:
    return Timeline(
        None, "orders", order, f"s{order % 2}", f"t{order}", 2, 0, latest_offsets=latest or None, deleted=deleted
    )


def layout(newest: Cursor, *timelines: Timeline) -> EventTypeLayout:
    begin = Cursor(timelines[0].order, -1)
    return EventTypeLayout("orders", timelines, {"0": begin, "1": begin}, {"0": newest, "1": newest})


THREE = layout(Cursor(3, 4), timeline(1, 9, 9), timeline(2, -1, 2), timeline(3))


def counted(ranges: list[Range]) -> list[tuple[int, int, int, int]]:
    return [(one.partition, one.order, one.first, one.end) for one in ranges]


def test_a_range_ends_with_its_timeline() -> None:
    found = between(THREE, THREE.resolved("begin", "begin"), THREE.newest)
    assert counted(found) == [(0, 1, 0, 10), (0, 3, 0, 5), (1, 1, 0, 10), (1, 2, 0, 3), (1, 3, 0, 5)]


def test_a_start_is_exclusive_and_an_end_inclusive() -> None:
    found = between(THREE, {"0": Cursor(1, 7)}, {"0": Cursor(3, 0)})
    assert counted(found) == [(0, 1, 8, 10), (0, 3, 0, 1)]


def test_nothing_lies_between_a_place_and_itself() -> None:
    assert between(THREE, THREE.newest, THREE.newest) == []


def test_a_cursor_of_a_fake_timeline_means_the_oldest_one() -> None:
    assert counted(between(THREE, {"1": Cursor(0, 8)}, {"1": Cursor(2, 0)})) == [(1, 1, 9, 10), (1, 2, 0, 1)]


def test_what_was_cleaned_up_is_an_error_and_no_gap() -> None:
    gone = layout(Cursor(2, 0), timeline(1, 5, 5, deleted=True), timeline(2))
    with pytest.raises(BadCursor, match="cleaned up"):
        between(gone, {"0": Cursor(1, 2)}, {"0": Cursor(2, 0)})


def test_a_switch_between_the_questions_does_not_invent_events() -> None:
    raced = layout(Cursor(1, 9), timeline(1, 9, 9), timeline(2))
    assert lags(raced, {"0": Cursor(1, 4), "1": Cursor(1, 9)}) == {"0": 5, "1": 0}


def test_a_batch_goes_over_borders_up_to_its_limit() -> None:
    end = advanced(THREE, {"0": Cursor(1, 9), "1": Cursor(1, 9)}, 6)
    assert end == {"0": Cursor(3, 1), "1": Cursor(2, 2)}


def test_without_a_limit_a_batch_ends_at_the_end() -> None:
    assert advanced(THREE, {"0": Cursor(1, 2), "1": Cursor(1, 2)}, None) == dict(THREE.newest)


def test_a_batch_always_moves_on() -> None:
    assert shares({"0": 5, "1": 7}, 1) == {"0": 0, "1": 1}
    assert shares({"0": 50, "1": 150}, 100) == {"0": 25, "1": 75}


def test_tasks_hold_every_offset_once_and_one_storage_each() -> None:
    ranges = [Range(f"s{n % 2}", f"t{n}", n, 0, 0, 70_000) for n in range(4)]
    found = tasks(ranges, 4)
    assert sum(one.count for task in found for one in task) == 280_000
    assert all(len({one.storage_id for one in task}) == 1 for task in found)
    assert max(sum(one.count for one in task) for task in found) == 70_000


def test_cursors_of_an_option_are_for_known_partitions() -> None:
    with pytest.raises(BadCursor, match="no partition '7'"):
        THREE.resolved({"7": "BEGIN"}, "begin")
    assert THREE.resolved({"1": "001-0001-000000000000000003"}, "end")["1"] == Cursor(1, 3)
    with pytest.raises(Invalid):
        THREE.resolved({"1": "here"}, "begin")


@pytest.mark.parametrize(
    ("first", "second", "archived"),
    [
        (Cursor(1, -1), Cursor(1, -1), 0),
        (Cursor(1, 9), Cursor(1, 8), 0),
        (Cursor(1, 9), Cursor(1, 9), 1),
        (Cursor(1, 9), Cursor(2, 1), 1),
        (Cursor(1, 9), Cursor(2, 2), 2),
        (Cursor(3, 4), Cursor(3, 4), 2),
    ],
)
def test_a_timeline_is_archived_when_nothing_of_any_partition_is_left(first: Cursor, second: Cursor, archived: int) -> None:
    """Partition 0 of timeline 2 is empty: there is nothing of it to wait for."""
    assert archived_timeline(THREE, {"0": first, "1": second}) == archived


def test_two_ranges_of_one_partition_are_not_read_at_the_same_time() -> None:
    first, second = Range("s", "t1", 1, 0, 0, 5), Range("s", "t1", 1, 0, 7, 9)
    other = Range("s", "t1", 1, 1, 0, 5)
    assert [list(together.values()) for together in rounds([first, second, other])] == [[first, other], [second]]
