"""Pipelines on a real Kafka: exact ranges out of it, batches with their ledger into it."""

import time
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from conftest import Services
from meantime.errors import BadCursor, Conflict, NotFound
from meantime.kafka.settings import Storage
from meantime.pipelines.buffer.kafka_target import KafkaTarget
from meantime.pipelines.buffer.model import BufferedRecord, Header
from meantime.pipelines.event_types.kafka_reader import read, written_between
from meantime.pipelines.event_types.ranges import Range

MakeTopic = Callable[[], str]


@pytest.fixture
def storage(services: Services) -> Storage:
    return Storage("east", services.kafka[0])


@pytest.fixture
def make_topic(storage: Storage) -> MakeTopic:
    admin = AdminClient({"bootstrap.servers": storage.bootstrap_servers})

    def make() -> str:
        name = f"pipelines-{uuid4().hex[:8]}"
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(20)
        return name

    return make


def write(storage: Storage, topic: str, values: list[bytes | None], timestamps: list[int] | None = None) -> None:
    write_openly(storage, topic, values, timestamps).commit_transaction(20)


def write_openly(storage: Storage, topic: str, values: list[bytes | None], timestamps: list[int] | None = None) -> Producer:
    """Written in a transaction that is still open."""
    producer = Producer({"bootstrap.servers": storage.bootstrap_servers, "transactional.id": uuid4().hex})
    producer.init_transactions(20)
    producer.begin_transaction()
    for index, value in enumerate(values):
        producer.produce(topic, value=value, timestamp=timestamps[index] if timestamps else 0)
    assert producer.flush(20) == 0
    return producer


def rows(storage: Storage, *ranges: Range) -> list[dict[str, Any]]:
    return [row for batch in read(storage, ranges) for row in batch.to_pylist()]


def of(topic: str, first: int, end: int, order: int = 2) -> Range:
    return Range("east", topic, order, 0, first, end)


def test_ranges_of_many_topics_are_read_at_once_and_exactly(storage: Storage, make_topic: MakeTopic) -> None:
    topics = [make_topic() for _ in range(5)]
    for order, topic in enumerate(topics):
        write(storage, topic, [b'{"n":%d}' % n for n in range(order * 100, order * 100 + 100)])
    wanted = [of(topic, order, 50 + order, order) for order, topic in enumerate(topics)]
    found = rows(storage, *wanted)
    expected = {f'{{"n":{order * 100 + offset}}}' for order in range(5) for offset in range(order, 50 + order)}
    assert len(found) == 250
    assert {row["event"] for row in found} == expected
    assert {row["timeline"] for row in found} == set(range(5))
    for order in range(5):
        assert [row["offset"] for row in found if row["timeline"] == order] == list(range(order, 50 + order))


def test_a_range_is_read_exactly(storage: Storage, make_topic: MakeTopic) -> None:
    topic = make_topic()
    write(storage, topic, [b'{"n":%d}' % n for n in range(100)])
    found = rows(storage, of(topic, 10, 20), of(topic, 95, 97))
    assert [row["offset"] for row in found] == [*range(10, 20), 95, 96]
    assert (found[0]["event"], found[0]["cursor"]) == ('{"n":10}', "001-0002-000000000000000010")
    assert (found[0]["partition"], found[0]["timeline"]) == ("0", 2)


def test_ends_of_transactions_and_records_without_a_value_are_no_events(storage: Storage, make_topic: MakeTopic) -> None:
    topic = make_topic()
    write(storage, topic, [b"1", None, b"3"])
    write(storage, topic, [b"5"])
    found = rows(storage, of(topic, 0, 4), of(topic, 4, 6, order=0))
    assert [(row["offset"], row["event"]) for row in found] == [(0, "1"), (2, "3"), (4, "5")]
    assert found[-1]["cursor"] == "000000000000000004"


def test_what_is_no_text_is_shown_as_every_other_stream_shows_it(storage: Storage, make_topic: MakeTopic) -> None:
    topic = make_topic()
    write(storage, topic, [b"\xff", b'{"a":1}'])
    assert [row["event"] for row in rows(storage, of(topic, 0, 2))] == ['"\ufffd"', '{"a":1}']


def test_a_range_that_is_gone_is_an_error(storage: Storage, make_topic: MakeTopic) -> None:
    topic = make_topic()
    write(storage, topic, [b"1"])
    with pytest.raises(BadCursor, match="no longer available"):
        rows(storage, of(topic, 50, 60))


def test_what_was_written_before_an_instant_need_not_be_read(storage: Storage, make_topic: MakeTopic) -> None:
    topic = make_topic()
    now = time.time_ns() // 1_000_000  # records of long ago would be gone as soon as Kafka looks at its retention
    write(storage, topic, [b"1", b"2", b"3"], [now - 3000, now - 1000, now - 2000])
    assert written_between(storage, [of(topic, 0, 3)], now - 2000, None) == [of(topic, 1, 3)]
    assert written_between(storage, [of(topic, 0, 3)], now + 5000, None) == []


def test_what_is_being_committed_is_not_left_out(storage: Storage, make_topic: MakeTopic) -> None:
    topic, now = make_topic(), time.time_ns() // 1_000_000
    producer = write_openly(storage, topic, [b"1", b"2"], [now - 3000, now - 1000])
    assert written_between(storage, [of(topic, 0, 2)], now - 2000, None) == [of(topic, 1, 2)]
    producer.commit_transaction(20)


def test_what_lies_after_an_instant_need_not_be_read(storage: Storage, make_topic: MakeTopic) -> None:
    topics = [make_topic(), make_topic()]
    now = time.time_ns() // 1_000_000
    for topic in topics:
        write(storage, topic, [b"1", b"2", b"3"], [now - 3000, now - 2000, now - 1000])
    wanted = [of(topic, 0, 3) for topic in topics]
    assert written_between(storage, wanted, None, now - 2000) == [of(topic, 0, 1) for topic in topics]
    assert written_between(storage, wanted, now - 2500, now - 1500) == [of(topic, 1, 2) for topic in topics]
    assert written_between(storage, wanted, None, now + 5000) == wanted


def consumed(storage: Storage, topic: str) -> list[Any]:
    settings = {"group.id": uuid4().hex, "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": storage.bootstrap_servers, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None:
        if error := message.error():
            assert error.code() == KafkaError._PARTITION_EOF
            break
        found.append(message)
    consumer.close()
    return found


def test_records_and_their_ids_are_written_together(storage: Storage, make_topic: MakeTopic) -> None:
    topic, buffer = make_topic(), f"buffer-{uuid4().hex[:8]}"
    target = KafkaTarget(storage, topic, buffer)
    assert target.published() == set()
    target.publish(
        ["a", "b"], [BufferedRecord(b"k", b"v", [Header("h", b"1"), Header("h", None)]), BufferedRecord(None, None)]
    )
    target.publish(["c", "a"], [BufferedRecord(b"k", b"w")])
    assert KafkaTarget(storage, topic, buffer).published() == {"c", "a"}
    first, second, third = consumed(storage, topic)
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", [("h", b"1"), ("h", None)])
    assert (second.key(), second.value()) == (None, None)
    assert third.value() == b"w"


def test_whoever_was_taken_over_from_cannot_write(storage: Storage, make_topic: MakeTopic) -> None:
    topic, buffer = make_topic(), f"buffer-{uuid4().hex[:8]}"
    old, new = KafkaTarget(storage, topic, buffer), KafkaTarget(storage, topic, buffer)
    old.published()
    new.published()
    with pytest.raises(Conflict, match="taken"):
        old.publish(["a"], [BufferedRecord(b"k", b"old")])
    new.publish(["b"], [BufferedRecord(b"k", b"new")])
    assert [message.value() for message in consumed(storage, topic)] == [b"new"]


def test_a_target_that_does_not_exist_is_named(storage: Storage) -> None:
    with pytest.raises(NotFound, match="'nowhere-to-go'"):
        KafkaTarget(storage, "nowhere-to-go", "b")
