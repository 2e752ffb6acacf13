"""One Kafka consumer for the partitions of a stream, read in whole chunks by a thread that may wait.

It joins no group, stores no offset and never jumps: a place that is not there any more is reported as lost. What it holds
is bounded by its settings, not by how much there is to read. Records become `Run`s here: the values of neighbouring
offsets of one partition, as the bytes that they are.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from meantime.errors import UNREADABLE, StorageUnavailable
from meantime.kafka.settings import Storage, client_config

log = structlog.get_logger(__name__)

ANSWER_WITHIN = 10.0
CHUNK = 1000
"""Most records that are taken at once."""

SETTINGS: dict[str, Any] = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "fetch.min.bytes": 1,
    # Brokers answer at once when there is something. A shorter wait lets other requests on the same connection through.
    "fetch.wait.max.ms": 100,
    "fetch.error.backoff.ms": 50,
    # With a small queue the default pause of a second after it was full would cost most of the throughput.
    "fetch.queue.backoff.ms": 2,
    "fetch.max.bytes": 4 << 20,
    "fetch.message.max.bytes": 1 << 20,
    "queued.max.messages.kbytes": 4 << 10,
    "topic.metadata.refresh.fast.interval.ms": 20,
}

_LOST = (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)

TopicPlace = tuple[str, int, int]
"""Topic, partition, and the offset to read next."""


class Mark(Enum):
    """What a consumer says of a partition between its records."""

    END = "end"
    """Everything that there is has been read."""
    LOST = "lost"
    """The next record is not there any more."""
    FAILED = "failed"
    """Something else is wrong; Kafka's client may get over it."""


@dataclass(frozen=True, slots=True)
class Run:
    """Records `first`, `first + 1` … of a partition. Without values it says that nothing is left before `first`, or what its
    mark says."""

    topic: str
    partition: int
    first: int
    values: list[bytes]
    mark: Mark | None = None

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.first + len(self.values)


class Stamped(bytes):
    """A value that knows when it was written, in Unix milliseconds; made only for readers who ask for it."""

    written_at_ms: int


def stamped(value: bytes, written_at_ms: int) -> Stamped:
    value = Stamped(value)
    value.written_at_ms = written_at_ms
    return value


class RunReader:
    """A consumer of one storage. Its calls may block and belong into threads; one `take` at a time."""

    def __init__(self, storage: Storage, *, timed: bool = False) -> None:
        self._storage_id = storage.id
        self._foreign: set[str] = set()
        self._timed = timed
        try:
            self._consumer = Consumer(client_config(storage) | SETTINGS | {"group.id": "meantime"})
        except KafkaException as error:
            raise StorageUnavailable(f"storage {storage.id!r} cannot be read: {error}", storage_id=storage.id) from error

    def add(self, places: Sequence[TopicPlace], foreign: Iterable[str] = ()) -> None:
        """Read on from these places too; `foreign` are topics that others have written."""
        self._foreign.update(foreign)
        self._consumer.incremental_assign([TopicPartition(*place) for place in places])

    def remove(self, places: Sequence[tuple[str, int]]) -> None:
        self._consumer.incremental_unassign([TopicPartition(*place) for place in places])

    def take(self, wait_for: float) -> list[Run]:
        """What there is, up to a chunk; waits so long for a first record."""
        messages = self._consumer.consume(CHUNK, 0)
        if not messages:
            first = self._consumer.poll(wait_for)
            if first is None:
                return []
            messages = [first, *self._consumer.consume(CHUNK - 1, 0)]
        return self._runs(messages)

    def close(self) -> None:
        self._consumer.close()

    def _runs(self, messages: list[Any]) -> list[Run]:
        runs: list[Run] = []
        topic, partition, following = "", -1, -1
        values: list[bytes] = []
        for message in messages:
            error = message.error()
            if error is not None:
                runs += self._mark(message, error)
                following = -1
                continue
            offset, value = message.offset(), message.value()
            if offset != following or message.partition() != partition or message.topic() != topic:
                topic, partition, values = message.topic(), message.partition(), []
                runs.append(Run(topic, partition, offset, values))
            following = offset + 1
            if value is None:
                runs.append(Run(topic, partition, following, []))
                following = -1
            else:
                values.append(stamped(value, message.timestamp()[1]) if self._timed else value)
        return [self._readable(run) for run in runs] if self._foreign else runs

    def _mark(self, message: Any, error: KafkaError) -> list[Run]:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if error.code() == KafkaError._PARTITION_EOF:
            return [Run(topic, partition, offset, [], Mark.END)]
        if error.code() in _LOST:
            return [Run(topic, partition, offset, [], Mark.LOST)]
        log.warning("reading_disturbed", storage=self._storage_id, topic=topic, partition=partition, error=error.str())
        return [] if topic is None else [Run(topic, partition, offset, [], Mark.FAILED)]

    def _readable(self, run: Run) -> Run:
        if run.topic not in self._foreign or not run.values:
            return run
        return Run(run.topic, run.partition, run.first, [_readable(value) for value in run.values])


def _readable(value: bytes) -> bytes:
    text = as_json(value)
    return stamped(text, value.written_at_ms) if isinstance(value, Stamped) else text


def written_at_ms(storage: Storage, places: Sequence[TopicPlace], wait_for: float = 2.0) -> dict[tuple[str, int], int]:
    """When the records at these places were written; those that do not come in time are left out."""
    found: dict[tuple[str, int], int] = {}
    reader = RunReader(storage)
    try:
        reader.add(places)
        deadline = time.monotonic() + wait_for
        while len(found) < len(places) and (left := deadline - time.monotonic()) > 0:
            message: Any = reader._consumer.poll(left)
            if message is not None and message.error() is None:
                found.setdefault((message.topic(), message.partition()), message.timestamp()[1])
    finally:
        reader.close()
    return found


def as_json(value: bytes) -> bytes:
    """A record that was not written by this system: JSON as it is, anything else as a JSON string."""
    try:
        msgspec.json.decode(value, type=msgspec.Raw)
    except UNREADABLE:
        return msgspec.json.encode(value.decode("utf-8", "replace"))
    return value


def values_since(storage: Storage, topic: str, partitions: int, since_ms: int) -> Iterator[bytes]:
    """All values up to the present ends of the partitions; blocks."""
    settings = {"group.id": "meantime-since", "enable.auto.commit": False, "enable.partition.eof": True}
    consumer = Consumer({**client_config(storage), **settings, "fetch.wait.max.ms": 10})
    try:
        wanted = [TopicPartition(topic, partition, since_ms) for partition in range(partitions)]
        places = consumer.offsets_for_times(wanted, ANSWER_WITHIN)
        consumer.assign(places)
        yield from _until_ends(consumer, {place.partition for place in places})
    except KafkaException as error:
        raise StorageUnavailable(f"storage {storage.id!r} does not answer: {error.args[0].str()}") from error
    finally:
        consumer.close()


def _until_ends(consumer: Consumer, left: set[int]) -> Iterator[bytes]:
    while left:
        message = consumer.poll(ANSWER_WITHIN)
        if message is None:
            raise StorageUnavailable("the storage does not let a topic be read to its end")
        error = message.error()
        if error is None:
            yield message.value() or b""
        elif error.code() == KafkaError._PARTITION_EOF:
            left.discard(message.partition() or 0)
        else:
            raise KafkaException(error)
