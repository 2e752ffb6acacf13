"""Where an event goes."""

from collections import Counter
from typing import Any

import pytest

from meantime.streams.model import EventType
from meantime.streams.publishing.partitioning import NoPartition, anywhere, partitioner


def event_type(strategy: str, *key_fields: str, partitions: int = 8, category: str = "undefined") -> EventType:
    return EventType("orders", category, strategy, key_fields, partitions, 1000, "delete", None, {})


def place(event: dict[str, Any], *key_fields: str, **given: Any) -> int:
    choose = partitioner(event_type("hash", *key_fields, **given))
    assert choose is not None
    return choose(event)


def test_random_events_may_go_anywhere_and_do() -> None:
    assert partitioner(event_type("random")) is None
    assert set(anywhere(1000, 4)) == {0, 1, 2, 3}
    assert anywhere(3, 1) == [0, 0, 0]
    assert {anywhere(1, 4)[0] for _ in range(200)} == {0, 1, 2, 3}


def test_a_batch_of_random_events_is_spread_evenly() -> None:
    assert sorted(Counter(anywhere(10, 4)).values()) == [2, 2, 3, 3]


def test_equal_keys_share_a_partition_whatever_else_the_events_say() -> None:
    assert place({"id": "a", "n": 1}, "id") == place({"n": 2, "id": "a"}, "id")


def test_the_mapping_of_keys_does_not_change_between_releases() -> None:
    assert [place({"id": f"key-{number}"}, "id") for number in range(6)] == [4, 3, 2, 5, 0, 7]


def test_keys_spread_over_all_partitions() -> None:
    counts = Counter(place({"id": number}, "id") for number in range(8000))
    assert set(counts) == set(range(8))
    assert min(counts.values()) > 500


def test_several_fields_make_one_key_in_their_order() -> None:
    one, other = {"a": "1", "b": "2"}, {"a": "2", "b": "1"}
    places = {place(event, "a", "b", partitions=32) for event in (one, other)}
    assert len(places) == 2


def test_a_key_may_be_nested_or_have_dots_in_its_name() -> None:
    assert place({"order": {"id": "x"}}, "order.id") == place({"order.id": "x"}, "order.id") == place({"id": "x"}, "id")


def test_keys_of_data_events_are_below_data() -> None:
    event = {"data": {"id": "x"}, "data_op": "C"}
    assert place(event, "id", category="data") == place({"id": "x"}, "id")


@pytest.mark.parametrize("event", [{}, {"id": None}, {"id": {}}, {"other": {"id": 1}}])
def test_an_event_without_its_key_has_no_place(event: dict[str, Any]) -> None:
    with pytest.raises(NoPartition, match="missing"):
        place(event, "id.number")


def test_user_defined_events_name_their_partition() -> None:
    choose = partitioner(event_type("user_defined", partitions=3))
    assert choose is not None
    assert choose({"metadata": {"partition": "2"}}) == 2


@pytest.mark.parametrize("partition", ["3", "-1", "x", "", 1, None])
def test_a_partition_that_is_not_there_is_refused(partition: object) -> None:
    choose = partitioner(event_type("user_defined", partitions=3))
    assert choose is not None
    with pytest.raises(NoPartition):
        choose({"metadata": {"partition": partition}})
