"""Who reads which partition of a subscription."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import Conflict
from meantime.streams.model import PartitionKey
from meantime.streams.subscriptions.rules import ConnectedStream, check_free_slot, plan


def keys(count: int) -> list[PartitionKey]:
    return [("orders", partition) for partition in range(count)]


def readers(count: int) -> list[ConnectedStream]:
    return [ConnectedStream(f"s{number}", f"{number:010d}") for number in range(count)]


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[PartitionKey], list[ConnectedStream], dict[PartitionKey, str]]:
    partitions = keys(draw(st.integers(1, 12)))
    present = readers(draw(st.integers(1, 8)))
    streams = [reader.stream_id for reader in present] + ["gone"]
    owners = draw(st.dictionaries(st.sampled_from(partitions), st.sampled_from(streams)))
    return partitions, present, owners


@given(situations())
def test_every_partition_has_one_reader_and_shares_differ_by_one_at_most(
    situation: tuple[list[PartitionKey], list[ConnectedStream], dict[PartitionKey, str]],
) -> None:
    partitions, present, owners = situation
    planned = plan(partitions, present, owners)
    shares = [list(planned.values()).count(reader.stream_id) for reader in present]
    assert set(planned) == set(partitions)
    assert max(shares) - min(shares) <= 1


@given(situations())
def test_no_more_than_necessary_moves(
    situation: tuple[list[PartitionKey], list[ConnectedStream], dict[PartitionKey, str]],
) -> None:
    partitions, present, owners = situation
    planned = plan(partitions, present, owners)
    streams = {reader.stream_id for reader in present}
    moved = sum(owners.get(key) in streams and owners[key] != stream for key, stream in planned.items())
    held = sorted((Counter(owners.values())[stream] for stream in streams), reverse=True)
    share, more = divmod(len(partitions), len(present))
    necessary = sum(max(0, count - share - (rank < more)) for rank, count in enumerate(held))
    assert moved == necessary


@given(situations())
def test_a_plan_that_has_been_carried_out_is_final(
    situation: tuple[list[PartitionKey], list[ConnectedStream], dict[PartitionKey, str]],
) -> None:
    partitions, present, owners = situation
    planned = plan(partitions, present, owners)
    assert plan(partitions, present, planned) == planned
    assert plan(partitions, list(reversed(present)), owners) == planned


def test_partitions_asked_for_by_name_are_taken_from_those_who_did_not() -> None:
    direct = ConnectedStream("d", "9", frozenset({("orders", 1)}))
    planned = plan(keys(3), [*readers(1), direct], dict.fromkeys(keys(3), "s0"))
    assert planned == {("orders", 0): "s0", ("orders", 1): "d", ("orders", 2): "s0"}


def test_what_nobody_can_read_stays_unassigned() -> None:
    direct = ConnectedStream("d", "9", frozenset({("orders", 1)}))
    assert plan(keys(2), [direct], {}) == {("orders", 1): "d"}


def test_there_is_a_slot_for_each_partition() -> None:
    three = readers(3)
    check_free_slot(keys(3), three, three[2])
    with pytest.raises(Conflict):
        check_free_slot(keys(2), three, three[2])


def test_a_reader_needs_a_partition_that_is_not_asked_for_by_name() -> None:
    direct = ConnectedStream("d", "0", frozenset(keys(2)))
    me = ConnectedStream("me", "1")
    with pytest.raises(Conflict):
        check_free_slot(keys(2), [direct, me], me)
    check_free_slot(keys(3), [direct, me], me)


def test_nobody_can_ask_for_what_another_has_asked_for_by_name() -> None:
    first = ConnectedStream("a", "0", frozenset({("orders", 0)}))
    second = ConnectedStream("b", "1", frozenset({("orders", 0), ("orders", 1)}))
    with pytest.raises(Conflict, match="orders:0"):
        check_free_slot(keys(3), [first, second], second)
    check_free_slot(keys(3), [first, second], first)
