"""What the statistics of a subscription say about who reads what."""

from meantime.streams.model import PartitionKey
from meantime.streams.subscriptions.rules import ConnectedStream
from meantime.streams.subscriptions.stats import assignments

KEYS: list[PartitionKey] = [("orders", 0), ("orders", 1)]


def states(readers: list[ConnectedStream], owners: dict[PartitionKey, str]) -> list[tuple[str, str, str | None]]:
    return [(one.state, one.stream_id, one.assignment_type) for one in assignments(KEYS, readers, owners).values()]


def test_partitions_without_a_reader_are_unassigned() -> None:
    assert states([], {}) == [("unassigned", "", None)] * 2


def test_partitions_with_the_reader_they_should_have_are_assigned() -> None:
    one = ConnectedStream("a", "1")
    assert states([one], dict.fromkeys(KEYS, "a")) == [("assigned", "a", "auto")] * 2


def test_a_partition_that_another_stream_waits_for_is_being_reassigned() -> None:
    readers = [ConnectedStream("a", "1"), ConnectedStream("b", "2")]
    assert states(readers, dict.fromkeys(KEYS, "a")) == [("assigned", "a", "auto"), ("reassigning", "a", "auto")]


def test_partitions_asked_for_by_name_say_so() -> None:
    direct = ConnectedStream("a", "1", frozenset({("orders", 1)}))
    assert states([direct], {("orders", 1): "a"}) == [("unassigned", "", None), ("assigned", "a", "direct")]


def test_a_partition_whose_client_has_gone_belongs_to_nobody_or_waits_for_its_next_reader() -> None:
    assert states([], {("orders", 0): "gone"})[0] == ("unassigned", "", None)
    assert states([ConnectedStream("b", "2")], {("orders", 0): "gone"})[0] == ("reassigning", "gone", "auto")
