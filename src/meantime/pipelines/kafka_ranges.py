"""What a task does for `meantime.events`: ranges of Kafka records into Arrow batches.

Values become text as they are; cursors are put together by Arrow, column by column. A range that Kafka no longer has is an
error, never a gap. Records that are no events (no value) are left out, as in every other stream. Rows of one partition come
in their order within a timeline, timelines in no order.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
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

Place = tuple[str, int]
"""A partition of a topic."""

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
    for together in rounds(ranges):
        yield from _read(storage, together)


def rounds(ranges: Iterable[Range]) -> list[dict[Place, Range]]:
    """Ranges that can be read at the same time; two of the same partition cannot."""
    found: list[dict[Place, Range]] = []
    for one in ranges:
        place = one.topic, one.partition
        home = next((together for together in found if place not in together), None)
        if home is None:
            found.append({place: one})
        else:
            home[place] = one
    return found


def _read(storage: Storage, left: dict[Place, Range]) -> "Iterator[RecordBatch]":
    """All at once, so that finding the leaders of many short timelines costs one waiting and not one each."""
    consumer = _consumer(storage)
    try:
        consumer.assign([TopicPartition(one.topic, one.partition, one.first) for one in left.values()])
        while left:
            if batches := _step(consumer, left):
                yield _joined(batches)
    finally:
        consumer.close()


def _step(consumer: Consumer, left: dict[Place, Range]) -> "list[RecordBatch]":
    """What comes next, by range. `left` is what is still to be read; ranges that are done leave it."""
    batches = []
    for place, taken in _by_place(_taken(consumer, left)).items():
        wanted = left.get(place)
        if wanted is None:
            _check(taken, left)
            continue
        reached = max(_reached(message, wanted) for message in _ends(taken))
        if records := _records(taken, wanted, reached):
            batches.append(_batch(wanted, records))
        if reached >= wanted.end:
            del left[place]
            consumer.pause([TopicPartition(*place)])
        elif reached > wanted.first:
            left[place] = replace(wanted, first=reached)
    return batches


def _taken(consumer: Consumer, left: Mapping[Place, Range]) -> list[Any]:
    most = min(CHUNK, sum(one.count for one in left.values()))
    taken: list[Any] = consumer.consume(most, 1.0) or consumer.consume(1, SILENT_FOR)
    if not taken:
        raise StorageUnavailable(f"nothing came from {_named(next(iter(left.values())))} for {SILENT_FOR:.0f} s")
    return taken


def _by_place(messages: list[Any]) -> dict[Place, list[Any]]:
    found: dict[Place, list[Any]] = {}
    for place, run in groupby(messages, key=lambda message: (message.topic(), message.partition())):
        found.setdefault(place, []).extend(run)
    return found


def _check(messages: list[Any], left: Mapping[Place, Range]) -> None:
    """Records of a range that is done came too late to matter; an error that belongs to no range concerns all of them."""
    for message in messages:
        if message.error() is not None and message.topic() is None:
            _reached(message, next(iter(left.values())))


def _ends(messages: list[Any]) -> list[Any]:
    """What tells how far it went: the last one, and all that are no records."""
    return [messages[-1], *(message for message in messages if message.error() is not None)]


def _records(messages: list[Any], wanted: Range, reached: int) -> list[Any]:
    records = [message for message in messages if message.error() is None and message.value() is not None]
    if reached <= wanted.end:
        return records
    return [message for message in records if int(message.offset() or 0) < wanted.end]


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


def _joined(batches: "list[RecordBatch]") -> "RecordBatch":
    import pyarrow as pa

    return pa.concat_batches(batches)


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
