"""Parts of topics that decide without a database: drafts, merging, what is upcoming, bucket shares, streams, overload."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.adapt import PyFormat, Transformer

from meantime.api.topics.forms import ClaimForm, read_claims, read_drafts
from meantime.database.arrays import Packed, bools, byte_strings, int8s, texts
from meantime.errors import Conflict, Invalid, Malformed
from meantime.topics.drafts import checked, new_id
from meantime.topics.duties.overload import PredictedOverload, Rates, forecast
from meantime.topics.leasing.bucket_shares import BucketShares, assign, share_buckets
from meantime.topics.leasing.prefetch import NEVER_MS, Upcoming
from meantime.topics.leasing.receivers import LeaseStream
from meantime.topics.merging import Merger, Sizes, rounds
from meantime.topics.meters import BulkHistogram
from meantime.topics.model import Consumer, Due, Lease, MessageDraft, NewMessage, Refused, Settings, Topic
from meantime.topics.storage.messages import LeaseDemand

NOW_MS = 1_000_000
TOPIC = Topic(1, "t", 1, Settings(max_body_bytes=8, max_future_ms=1000))


def draft(**fields: object) -> NewMessage | Refused:
    (entry,) = read_drafts(msgspec.json.encode({"messages": [fields]}))
    return checked(entry, TOPIC, "owners", NOW_MS) if isinstance(entry, MessageDraft) else entry


def test_a_json_body_is_kept_as_it_was_given() -> None:
    (entry,) = read_drafts(b'{"messages":[{"at_ms":1,"body": {"a" : 1.0}}]}')
    assert isinstance(entry, MessageDraft)
    message = checked(entry, msgspec.structs.replace(TOPIC, settings=Settings()), "owners", NOW_MS)
    assert isinstance(message, NewMessage)
    assert message.body == b'{"a" : 1.0}'


def test_bytes_count_decoded_against_the_limit() -> None:
    assert isinstance(draft(at_ms=1, body_b64="MTIzNDU2Nzg="), NewMessage)
    assert isinstance(draft(at_ms=1, body_b64="MTIzNDU2Nzg5"), Refused)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"at_ms": 1, "after_ms": 1},
        {"at_ms": NOW_MS + 1001},
        {"at_ms": 1, "body": "too large"},
        {"at_ms": 1, "body": 1, "body_b64": "MQ=="},
        {"at_ms": 1, "body_b64": "not base64"},
        {"at_ms": 1, "id": ""},
        {"at_ms": 1, "id": "a b"},
        {"at_ms": 1, "id": "x" * 129},
        {"at_ms": "1"},
    ],
)
def test_a_draft_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    assert isinstance(draft(**fields), Refused)


def test_a_missing_body_is_null_and_null_is_no_second_body() -> None:
    assert draft(at_ms=1).body == b"null"  # type: ignore[union-attr]
    assert draft(at_ms=1, body=None, body_b64="MQ==").body == b"1"  # type: ignore[union-attr]


def test_the_past_means_now() -> None:
    assert draft(at_ms=5).at_ms == NOW_MS  # type: ignore[union-attr]


def test_ids_that_the_broker_makes_are_sorted_by_time() -> None:
    assert new_id(1) < new_id(2) < new_id(NOW_MS)


def test_one_bad_entry_spoils_no_other() -> None:
    entries = read_drafts(b'{"messages":[{"id":"a","at_ms":1},{"id":"b","at_ms":"x"},7]}')
    assert [type(entry) for entry in entries] == [MessageDraft, Refused, Refused]
    assert entries[1].id == "b"


@pytest.mark.parametrize("body", [b"", b"{}", b'{"messages":[]}', b'{"messages":null}'])
def test_an_empty_batch_makes_no_sense(body: bytes) -> None:
    with pytest.raises(Invalid):
        read_drafts(body)


@pytest.mark.parametrize("body", [b"[", b"[]", b'{"messages":5}', b'{"messages":"x"}', b"\xff", b'{"messages":["\xff"]}'])
def test_what_is_not_a_batch_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_drafts(body)


def test_a_claim_without_a_readable_version_is_still_about_its_message() -> None:
    consumer, claims = read_claims(
        b'{"consumer_id":"c","leases":[{"id":"a","version":"x"},{"version":1},{"id":"b","version":2}]}'
    )
    assert consumer == "c"
    assert claims[0] == ClaimForm("a", None)
    assert isinstance(claims[1], Refused)
    assert claims[2] == ClaimForm("b", 2)


async def test_callers_that_come_while_a_statement_runs_share_the_next_one() -> None:
    gate, batches = asyncio.Event(), []

    async def run(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        await gate.wait()
        return [item * 10 for item in items]

    merger: Merger[int, int] = Merger(run, lanes=1)
    calls = [asyncio.create_task(merger.submit([number])) for number in range(5)]
    await asyncio.sleep(0)
    gate.set()
    assert await asyncio.gather(*calls) == [[0], [10], [20], [30], [40]]
    assert sum(map(len, batches)) == 5
    assert len(batches) <= 2


async def test_an_error_reaches_every_caller_and_the_next_batch_runs() -> None:
    async def run(items: Sequence[int]) -> list[int]:
        if 1 in items:
            raise Conflict()
        return list(items)

    merger: Merger[int, int] = Merger(run, lanes=1)
    failed = await asyncio.gather(merger.submit([1]), merger.submit([1]), return_exceptions=True)
    assert [type(one) for one in failed] == [Conflict, Conflict]
    assert await merger.submit([2]) == [2]


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(1, 10), st.integers(1, 120))
def test_pieces_keep_the_order_and_their_size(items: list[int], most: int, heaviest: int) -> None:
    sizes: Sizes[int] = Sizes(most=most, weigh=lambda item: item, heaviest=heaviest)
    pieces = sizes.pieces(items)
    assert [item for piece in pieces for item in piece] == items
    assert all(len(piece) <= most and (sum(piece) <= heaviest or len(piece) == 1) for piece in pieces)


@given(st.lists(st.sampled_from("abc"), max_size=20))
def test_rounds_never_repeat_a_key_and_keep_its_order(keys: list[str]) -> None:
    indexes = rounds(keys, lambda key: key)
    assert sorted(index for one in indexes for index in one) == list(range(len(keys)))
    for one in indexes:
        assert len({keys[index] for index in one}) == len(one)
    for key in "abc":
        order = [index for one in indexes for index in one if keys[index] == key]
        assert order == sorted(order)


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
    assert stream.room(65) == 2
    assert [one.id for one in await stream.next(0)] == ["a", "b"]
    assert await stream.next(0) == []


async def test_what_is_freed_during_a_look_stays_free() -> None:
    stream = LeaseStream("c", 100, buffer=2)
    stream.begin_look()
    stream.hold("a", None)
    stream.finish_look({"a": 50, "b": 60})
    assert stream.room(10) == 1


async def test_a_stream_that_was_ended_says_so() -> None:
    stream = LeaseStream("c", 100, buffer=2)
    stream.end(Conflict())
    with pytest.raises(Conflict):
        await stream.next(10)
    assert stream.room(0) == 0


def test_a_spike_is_seen_before_it_comes() -> None:
    assert forecast([10] * 60, rate=10) is None
    assert forecast([0] * 30 + [1000] + [0] * 30, rate=10) == PredictedOverload(30, 990)
    assert forecast([5] * 60, rate=0.0) == PredictedOverload(0, 300)


def test_a_rate_rises_at_once_and_falls_slowly() -> None:
    rates = Rates()
    rates.finished(1, 100)
    rates.tick(10)
    assert rates.of(1) == 10
    rates.tick(10)
    assert rates.of(1) == 10
    rates.finished(1, 10)
    rates.tick(10)
    assert 1 < rates.of(1) < 10


def test_a_histogram_takes_many_values_at_once_and_counts_upwards() -> None:
    lateness = BulkHistogram("late_seconds", "How late.", (0.01, 1))
    lateness.observe([0.0, 0.01, 0.5])
    lateness.observe([7.0])
    (family,) = lateness.collect()
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert found == {
        ("late_seconds_bucket", "0.01"): 2,
        ("late_seconds_bucket", "1.0"): 3,
        ("late_seconds_bucket", "+Inf"): 4,
        ("late_seconds_count", None): 4,
        ("late_seconds_sum", None): 7.51,
    }


@pytest.mark.parametrize(
    ("packed", "values"),
    [
        (texts, ["one", "size"]),
        (texts, ["äö", "abcd"]),
        (texts, ["same", "same"]),
        (byte_strings, [b"x" * 3000, b"", b"y"]),
        (byte_strings, [b"x" * 3000, b"y" * 3000]),
        (int8s, [1 << 40, -(1 << 40)]),
        (int8s, [1 << 40] * 3),
        (bools, [True, False, True]),
    ],
)
def test_arrays_are_packed_as_the_driver_packs_them(packed: Callable[[Any], Packed], values: list[Any]) -> None:
    assert packed(values).data == bytes(Transformer().get_dumper(values, PyFormat.BINARY).dump(values) or b"")
