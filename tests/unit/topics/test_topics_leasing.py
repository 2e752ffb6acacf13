"""What leasing decides without a database: what is upcoming, bucket shares, streams."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import Conflict
from meantime.topics.leasing.bucket_shares import BucketShares, assign, share_buckets
from meantime.topics.leasing.prefetch import NEVER_MS, Upcoming
from meantime.topics.leasing.receivers import LeaseStream
from meantime.topics.model import Consumer, Due, Lease
from meantime.topics.storage.messages import LeaseDemand


def due(id: str, at_ms: int, bucket_id: int = 0) -> Due:
    return Due(id, 1, bucket_id, at_ms)


@given(st.lists(st.integers(0, 100), max_size=50))
def test_what_is_upcoming_is_taken_in_time_order_and_never_early(instants: list[int]) -> None:
    upcoming = Upcoming(help_after_ms=25, few=10, most=1000)
    upcoming.replace([due(str(at_ms), at_ms) for at_ms in sorted(instants)], 100, False, None)
    taken = upcoming.take(50, 1000)
    assert [one.at_ms for one in taken] == sorted(at_ms for at_ms in instants if at_ms <= 50)
    assert upcoming.next_ms == min((at_ms for at_ms in instants if at_ms > 50), default=NEVER_MS)


def test_a_bucket_that_another_node_serves_is_left_to_it_for_a_moment() -> None:
    upcoming = Upcoming(help_after_ms=25, few=10, most=1000)
    upcoming.replace([due("mine", 10, 1), due("theirs", 10, 2)], 100, False, {1})
    assert [one.id for one in upcoming.take(10, 9)] == ["mine"]
    assert upcoming.next_ms == 35
    assert [one.id for one in upcoming.take(35, 9)] == ["theirs"]


def test_news_beyond_what_is_known_are_left_for_the_next_look() -> None:
    upcoming = Upcoming(help_after_ms=25, few=10, most=2)
    upcoming.replace([], 100, False, None)
    assert upcoming.add(due("later", 101))
    assert len(upcoming) == 0
    assert [upcoming.add(due("x", 50)) for _ in range(3)] == [True, True, False]


def test_a_message_goes_to_the_consumer_of_its_bucket_while_there_is_room() -> None:
    consumers = [Consumer(1, name, "here", "push", 10) for name in ("a", "b")]
    shares = share_buckets(4, consumers, "here")
    takers = {"a": LeaseDemand("a", 100, 1), "b": LeaseDemand("b", 100, 2)}
    pairs = assign([due("1", 1, 0), due("2", 2, 1), due("3", 3, 3), due("4", 4, 3)], takers, shares)
    assert [(one.id, taker.consumer_id) for one, taker in pairs] == [("1", "a"), ("2", "b"), ("3", "b")]


def test_a_node_serves_the_buckets_of_its_own_consumers() -> None:
    consumers = [Consumer(1, "a", "here", "push", 10), Consumer(1, "b", "there", "push", 10)]
    assert share_buckets(4, consumers, "here").buckets == (0, 1)
    assert share_buckets(4, consumers[:1], "here").buckets is None
    assert BucketShares().buckets is None


def test_a_node_is_alone_only_while_nobody_takes_elsewhere() -> None:
    here, there = Consumer(1, "a", "here", "push", 10), Consumer(1, "b", "there", "pull", None)
    assert share_buckets(4, [here], "here").exclusive
    assert not share_buckets(4, [here, there], "here").exclusive
    assert not BucketShares().exclusive


def test_pulls_get_buckets_only_where_there_are_no_streams() -> None:
    stream, pull = Consumer(1, "s", "there", "push", 10), Consumer(1, "p", "here", "pull", None)
    assert share_buckets(4, [stream, pull], "here").owners == {"s": (0, 3)}
    assert share_buckets(4, [pull], "here").owners == {"p": (0, 3)}


def lease(id: str, at_ms: int) -> Lease:
    return Lease(id, 2, at_ms, 0, 0, 1, "c", "owners", True, b"1", None)


async def test_the_room_of_a_stream_is_its_buffer_less_what_its_consumer_holds() -> None:
    stream = LeaseStream("c", 100, buffer=3)
    stream.offer([lease("a", 50), lease("b", 60)])
    assert stream.room(10) == 1
    stream.hold("pulled elsewhere", 70)
    assert stream.room(10) == 0
    stream.hold("a", None)
    assert stream.room(10) == 1
    assert [one.id for one in await stream.next(0)] == ["a", "b"]
    assert await stream.next(0) == []


async def test_what_changes_during_a_look_stays_changed() -> None:
    stream = LeaseStream("c", 100, buffer=3)
    stream.begin_look()
    stream.hold("a", None)
    stream.hold("c", 70)
    stream.finish_look({"a": 50, "b": 60})
    assert stream.room(10) == 1


async def test_a_lease_whose_end_has_passed_counts_until_the_database_was_asked() -> None:
    stream = LeaseStream("c", 100, buffer=2)
    stream.offer([lease("a", 50), lease("b", 60)])
    assert not stream.must_look(49)
    assert stream.must_look(50)
    assert stream.room(50) == 0
    stream.begin_look()
    stream.finish_look({"a": 90})
    assert stream.room(50) == 1
    assert not stream.must_look(89)
    stream.hold("a", None)
    assert not stream.must_look(90)


async def test_a_stream_that_was_ended_says_so() -> None:
    stream = LeaseStream("c", 100, buffer=2)
    stream.end(Conflict())
    with pytest.raises(Conflict):
        await stream.next(10)
    assert stream.room(0) == 0
