"""`timer-request` for the Spark job: where it begins and ends, and ranges of it as packs."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from meantime.errors import StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.pipelines.event_types.kafka_reader import consumer_of, read_runs
from meantime.pipelines.event_types.ranges import Range
from meantime.pipelines.timers.intake import FuturesOptions, Requests, taken_in, upcoming
from meantime.pipelines.timers.packing import BESIDE_VALUE, pack
from meantime.runtime import spare_collector
from meantime.timers.kafka_topics import admin_of, headers_of, partitions_of, timers_config
from meantime.timers.topics import REQUEST

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Table

ANSWER_WITHIN = 10.0
SAMPLED_AT, SAMPLED, SAMPLED_WITHIN = 4, 5, 1.0
"""At how many places of a range, how many requests, and for how many seconds these are waited for."""
LED_BY_ANOTHER = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)
"""While brokers hear of a new leader one after the other, they say so."""
_OLDEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_NEWEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def oldest(storage: Storage) -> dict[int, int]:
    """By partition, the first request that there is."""
    return _places(storage, _OLDEST)


def newest(storage: Storage) -> dict[int, int]:
    """By partition, where what has been committed ends."""
    return _places(storage, _NEWEST)


def _places(storage: Storage, which: OffsetSpec) -> dict[int, int]:
    admin, give_up_at = _admin(storage), time.monotonic() + ANSWER_WITHIN
    while True:
        try:
            asked = {TopicPartition(REQUEST, partition): which for partition in range(partitions_of(admin, REQUEST))}
            committed = IsolationLevel.READ_COMMITTED
            answers = admin.list_offsets(asked, isolation_level=committed, request_timeout=ANSWER_WITHIN)
            return {place.partition: answer.result().offset for place, answer in answers.items()}
        except KafkaException as error:
            if error.args[0].code() not in LED_BY_ANOTHER or time.monotonic() > give_up_at:
                raise StorageUnavailable(f"Kafka does not say where {REQUEST} ends: {error.args[0].str()}") from error
        time.sleep(0.1)


@cache
def _admin(storage: Storage) -> AdminClient:
    """One for all batches. It cannot be sent to a task, so it belongs to no object that is."""
    return admin_of(storage)


def weight(storage: Storage, of: Range) -> int:
    """About how many bytes each of these requests takes, by a few of them here and there; 0 if none could be had."""
    consumer, sizes = _sampler(storage), list[int]()
    try:
        for part in range(SAMPLED_AT):
            consumer.assign([TopicPartition(of.topic, of.partition, of.first + of.count * part // SAMPLED_AT)])
            some = consumer.consume(SAMPLED, SAMPLED_WITHIN)
            sizes += [len(message) + BESIDE_VALUE for message in some if message.error() is None]
    finally:
        consumer.unassign()
    return sum(sizes) // len(sizes) if sizes else 0


@cache
def _sampler(storage: Storage) -> Consumer:
    """Fetches little, for little is wanted of it, and goes on to the next place at once where it would rest for a second."""
    little = {
        "queued.min.messages": SAMPLED,
        "queued.max.messages.kbytes": 1024,
        "fetch.message.max.bytes": 64 * 1024,
        "fetch.queue.backoff.ms": 0,
    }
    reading = {"group.id": "meantime-timers-samples", "enable.auto.commit": False, "isolation.level": "read_committed"}
    return Consumer(timers_config(storage, **little, **reading))


def packs(ranges: Sequence[Range], options: FuturesOptions) -> "Iterator[RecordBatch]":
    """What a task makes of its ranges."""
    _begin()
    return pack(_tables(ranges, options), options.shards)


@cache
def _begin() -> None:
    """Once for each process. It gets millions of messages which die young, and PySpark has it look for garbage after each
    task: to look through all that it has imported took as long as all the rest."""
    import pyarrow.compute  # noqa: F401 - so that it is there by now

    spare_collector(100_000, 10_000, 10_000)


def _tables(ranges: Sequence[Range], options: FuturesOptions) -> "Iterator[Table]":
    for runs in read_runs(options.storage, ranges, _kept):
        next_tick = upcoming(time.time(), options)
        for of, messages in runs:
            yield taken_in(_requests(of.partition, messages), next_tick, options)


@contextmanager
def _kept(storage: Storage) -> Iterator[Consumer]:
    """The same for all tasks of this process: its connections stand, and so does the memory that its threads have had. After
    anything out of the ordinary the next task begins with another one."""
    consumer = _reader(storage)
    try:
        yield consumer
    except BaseException:
        _reader.cache_clear()
        consumer.close()
        raise
    # A partition that was paused at the end of its range would stay so.
    consumer.resume(consumer.assignment())
    consumer.unassign()


@cache
def _reader(storage: Storage) -> Consumer:
    return consumer_of(storage)


def _requests(partition: int, messages: Sequence[Any]) -> Requests:
    message: Any = Message
    return Requests(
        partition,
        # Naming the method for each message would cost as much as calling it.
        list(map(message.offset, messages)),
        [time_ms for _, time_ms in map(message.timestamp, messages)],
        list(map(message.key, messages)),
        list(map(message.value, messages)),
        list(map(headers_of, messages)),
    )
