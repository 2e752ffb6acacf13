"""Reads ranges of Kafka records into Arrow batches, in the tasks of `meantime.events`.

Values become text as they are; cursors are put together by Arrow, column by column. A range that Kafka no longer has is an
error, never a gap. Records that are no events (no value) are left out, as in every other stream. Rows of one partition come
in their order within a timeline, timelines in no order.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from itertools import groupby
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from meantime.errors import BadCursor, StorageUnavailable
from meantime.kafka.consumer import as_json
from meantime.kafka.settings import Storage, client_config
from meantime.pipelines.event_types.ranges import Range
from meantime.streams.cursors import Cursor

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch

Place = tuple[str, int]
"""A partition of a topic."""
Run = tuple[Range, list[Any]]
"""Records of a range, in their order."""
Opened = Callable[[Storage], AbstractContextManager[Consumer]]

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
    for runs in read_runs(storage, ranges):
        events = [(of, [message for message in messages if message.value() is not None]) for of, messages in runs]
        if events := [run for run in events if run[1]]:
            yield _batch(events)


def read_runs(storage: Storage, ranges: Iterable[Range], opened: Opened | None = None) -> Iterator[list[Run]]:
    """All records of the ranges, as they come; read with a consumer of their own unless it is `opened` in another way."""
    for together in rounds(ranges):
        with (opened or _opened)(storage) as consumer:
            yield from _read(consumer, together)


@contextmanager
def _opened(storage: Storage) -> Iterator[Consumer]:
    consumer = consumer_of(storage)
    try:
        yield consumer
    finally:
        consumer.close()


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


def _read(consumer: Consumer, left: dict[Place, Range]) -> Iterator[list[Run]]:
    """All ranges at once, so that many short timelines wait for their leaders together, not one after the other."""
    only = next(iter(left)) if len(left) == 1 else None
    consumer.assign([TopicPartition(one.topic, one.partition, one.first) for one in left.values()])
    while left:
        if runs := _step(consumer, left, only):
            yield runs


def _step(consumer: Consumer, left: dict[Place, Range], only: Place | None) -> list[Run]:
    """What comes next, by range. `left` is what is still to be read; ranges that are done leave it. Where there is `only`
    one partition, records need not be grouped."""
    runs = []
    messages = _taken(consumer, left)
    for place, taken in (_by_place(messages) if only is None else {only: messages}).items():
        wanted = left.get(place)
        if wanted is None:
            _check(taken, left)
            continue
        others = [message for message in taken if message.error() is not None]
        # The last one tells how far it went, and so do all that are no records.
        reached = max(_reached(message, wanted) for message in (taken[-1], *others))
        if records := _records(taken, others, wanted, reached):
            runs.append((wanted, records))
        if reached >= wanted.end:
            del left[place]
            consumer.pause([TopicPartition(*place)])
        elif reached > wanted.first:
            left[place] = replace(wanted, first=reached)
    return runs


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


def _records(messages: list[Any], others: list[Any], wanted: Range, reached: int) -> list[Any]:
    records = [message for message in messages if message.error() is None] if others else messages
    if reached <= wanted.end:
        return records
    return [message for message in records if int(message.offset() or 0) < wanted.end]


def written_between(storage: Storage, ranges: Sequence[Range], from_ms: int | None, until_ms: int | None) -> list[Range]:
    """The ranges without what was written before the one instant, or lies after the first record of the other. Kafka answers
    with the first record that is not older, so nothing of `from_ms` lies before it, even where times go back and forth. Open
    transactions count: what is being committed would look as if it were not there, and its range would be left out."""
    consumer = consumer_of(storage, {"isolation.level": "read_uncommitted"})
    try:
        firsts = _offsets_at(consumer, ranges, from_ms) if from_ms is not None else [one.first for one in ranges]
        ends = _offsets_at(consumer, ranges, until_ms) if until_ms is not None else [one.end for one in ranges]
    except KafkaException as error:
        raise StorageUnavailable(f"storage {storage.id!r} does not answer: {error}", storage_id=storage.id) from error
    finally:
        consumer.close()
    cut = [
        replace(one, first=max(one.first, first), end=min(one.end, end))
        for one, first, end in zip(ranges, firsts, ends, strict=True)
    ]
    return [one for one in cut if one.first < one.end]


def _offsets_at(consumer: Consumer, ranges: Sequence[Range], at_ms: int) -> list[int]:
    """The first record of each range's partition that is not older; the range's end where there is none."""
    asked = [TopicPartition(one.topic, one.partition, at_ms) for one in ranges]
    found = consumer.offsets_for_times(asked, timeout=10) if asked else []
    for place in found:
        if place.error is not None:
            raise KafkaException(place.error)
    offsets = {(place.topic, place.partition): int(place.offset) for place in found}
    places = [offsets[one.topic, one.partition] for one in ranges]
    return [one.end if place < 0 else place for one, place in zip(ranges, places, strict=True)]


def consumer_of(storage: Storage, settings: Mapping[str, Any] = MappingProxyType({})) -> Consumer:
    try:
        return Consumer({**client_config(storage), **SETTINGS, **settings})
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


def _batch(runs: Sequence[Run]) -> "RecordBatch":
    """One batch for all runs: many short timelines do not become many small batches."""
    import pyarrow as pa

    offsets = [pa.array([message.offset() for message in messages], pa.int64()) for _, messages in runs]
    times = pa.array([message.timestamp()[1] for _, messages in runs for message in messages], pa.int64())
    columns = {
        "event": _texts([message.value() for _, messages in runs for message in messages]),
        "partition": pa.concat_arrays([_repeated(str(of.partition), pa.string(), len(messages)) for of, messages in runs]),
        "offset": pa.concat_arrays(offsets),
        "cursor": pa.concat_arrays([_cursors(of.order, some) for (of, _), some in zip(runs, offsets, strict=True)]),
        "timeline": pa.concat_arrays([_repeated(of.order, pa.int32(), len(messages)) for of, messages in runs]),
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
