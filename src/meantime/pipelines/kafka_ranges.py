"""What a task does for `meantime.events`: ranges of Kafka records into Arrow batches.

Values become text as they are; cursors are put together by Arrow, column by column. A range that Kafka no longer has is an
error, never a gap. Records that are no events (no value) are left out, as in every other stream.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from meantime.errors import BadCursor, StorageUnavailable
from meantime.pipelines.ranges import Range
from meantime.streams.cursors import Cursor
from meantime.streams.kafka_admin import client_config
from meantime.streams.kafka_consumer import as_json
from meantime.streams.model import Storage

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch

CHUNK = 10_000
SILENT_FOR = 30.0
"""Seconds without a record after which a storage is taken for dead."""

SETTINGS: dict[str, Any] = {
    "group.id": "meantime-pipelines",
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": False,
    "fetch.queue.backoff.ms": 2,
    "fetch.wait.max.ms": 50,
    "fetch.message.max.bytes": 4 << 20,
    "fetch.max.bytes": 16 << 20,
    "queued.min.messages": 50_000,
    "queued.max.messages.kbytes": 32 << 10,
}

_LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError.UNKNOWN_TOPIC_OR_PART)


def read(storage: Storage, ranges: Iterable[Range]) -> "Iterator[RecordBatch]":
    consumer = _consumer(storage)
    try:
        for wanted in ranges:
            for messages in _messages(consumer, wanted):
                if messages:
                    yield _batch(wanted, messages)
    finally:
        consumer.close()


def first_at(storage: Storage, ranges: Iterable[Range], written_at_ms: int) -> list[Range]:
    """The ranges without what was written before an instant. Kafka answers with the first record that is not older, so
    none that is wanted lies before it, even where times go back and forth."""
    consumer = _consumer(storage)
    found = []
    try:
        for one in ranges:
            (place,) = consumer.offsets_for_times([TopicPartition(one.topic, one.partition, written_at_ms)], timeout=10)
            first = one.end if place.offset < 0 else min(max(one.first, place.offset), one.end)
            if first < one.end:
                found.append(Range(one.storage_id, one.topic, one.order, one.partition, first, one.end))
    except KafkaException as error:
        raise StorageUnavailable(f"storage {storage.id!r} does not answer: {error}", storage_id=storage.id) from error
    finally:
        consumer.close()
    return found


def _consumer(storage: Storage) -> Consumer:
    try:
        return Consumer(client_config(storage) | SETTINGS)
    except (KafkaException, TypeError, ValueError) as error:
        raise StorageUnavailable(f"storage {storage.id!r} cannot be read: {error}", storage_id=storage.id) from error


def _messages(consumer: Consumer, wanted: Range) -> Iterator[list[Any]]:
    consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.first)])
    reached = wanted.first
    while reached < wanted.end:
        taken: list[Any] = consumer.consume(min(CHUNK, wanted.end - reached), 1.0)
        taken = taken or consumer.consume(1, SILENT_FOR)
        if not taken:
            raise StorageUnavailable(f"nothing came from {_named(wanted)} for {SILENT_FOR:.0f} s")
        marks = [message for message in taken if message.error() is not None]
        reached = max(reached, *(_reached(message, wanted) for message in (taken[-1], *marks)))
        records = [message for message in taken if message.error() is None and message.value() is not None]
        beyond = reached > wanted.end
        yield [message for message in records if int(message.offset() or 0) < wanted.end] if beyond else records


def _reached(message: Any, wanted: Range) -> int:
    """The offset before which nothing is left to come."""
    error = message.error()
    if error is None:
        return int(message.offset()) + 1
    if error.code() == KafkaError._PARTITION_EOF:
        return int(message.offset())
    if error.code() in _LOST:
        raise BadCursor("expired", f"{_named(wanted)} is no longer available from offset {wanted.first} on")
    if error.fatal() or not error.retriable():
        raise StorageUnavailable(f"{_named(wanted)} cannot be read: {error.str()}")
    return wanted.first


def _named(wanted: Range) -> str:
    return f"partition {wanted.partition} of topic {wanted.topic!r} in storage {wanted.storage_id!r}"


def _batch(wanted: Range, messages: list[Any]) -> "RecordBatch":
    import pyarrow as pa

    count = len(messages)
    offsets = pa.array([message.offset() for message in messages], pa.int64())
    times = pa.array([message.timestamp()[1] for message in messages], pa.int64())
    columns = {
        "event": _texts([message.value() for message in messages]),
        "partition": _repeated(str(wanted.partition), pa.string(), count),
        "offset": offsets,
        "cursor": _cursors(wanted.order, offsets),
        "timeline": _repeated(wanted.order, pa.int32(), count),
        "written_at": times.cast(pa.timestamp("ms", "UTC")).cast(pa.timestamp("us", "UTC")),
    }
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _repeated(value: object, kind: Any, count: int) -> "Array[Any]":
    import pyarrow as pa

    return pa.repeat(pa.scalar(value, kind), count)


def _texts(values: list[bytes]) -> "Array[Any]":
    import pyarrow as pa

    try:
        return pa.array(values, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        # Only in a topic that was written by somebody else: shown as every other reader shows it.
        return pa.array([as_json(value).decode() for value in values], pa.string())


def _cursors(order: int, offsets: "Array[Any]") -> "Array[Any]":
    import pyarrow as pa
    from pyarrow import compute

    digits = compute.utf8_lpad(offsets.cast(pa.string()), 18, "0")
    prefix = str(Cursor(order, 0))[:-18]
    return compute.binary_join_element_wise(prefix, digits, "") if prefix else digits
