"""`timer-request` for the Spark job: where it begins and ends, and ranges of it as packs."""

import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from meantime.errors import StorageUnavailable
from meantime.pipelines.intake import FuturesOptions, Requests, taken_in, upcoming
from meantime.pipelines.kafka_ranges import read_runs
from meantime.pipelines.packing import pack
from meantime.pipelines.ranges import Range
from meantime.streams.model import Storage
from meantime.timers.kafka_topics import admin_of, partitions_of
from meantime.timers.topics import REQUEST

if TYPE_CHECKING:
    from pyarrow import RecordBatch, Table

ANSWER_WITHIN = 10.0
_OLDEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_NEWEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]


def oldest(kafka: str) -> dict[int, int]:
    """By partition, the first request that there is."""
    return _places(kafka, _OLDEST)


def newest(kafka: str) -> dict[int, int]:
    """By partition, where what has been committed ends."""
    return _places(kafka, _NEWEST)


def _places(kafka: str, which: OffsetSpec) -> dict[int, int]:
    admin = _admin(kafka)
    try:
        asked = {TopicPartition(REQUEST, partition): which for partition in range(partitions_of(admin, REQUEST))}
        answers = admin.list_offsets(asked, isolation_level=IsolationLevel.READ_COMMITTED, request_timeout=ANSWER_WITHIN)
        return {place.partition: answer.result().offset for place, answer in answers.items()}
    except KafkaException as error:
        raise StorageUnavailable(f"Kafka does not say where {REQUEST} ends: {error.args[0].str()}") from error


@cache
def _admin(kafka: str) -> AdminClient:
    """One for all batches. It cannot be sent to a task, so it belongs to no object that is."""
    return admin_of(kafka)


def packs(ranges: Sequence[Range], options: FuturesOptions) -> "Iterator[RecordBatch]":
    """What a task makes of its ranges."""
    return pack(_tables(ranges, options), options.shards)


def _tables(ranges: Sequence[Range], options: FuturesOptions) -> "Iterator[Table]":
    for runs in read_runs(Storage(REQUEST, options.kafka), ranges):
        next_tick = upcoming(time.time(), options)
        for of, messages in runs:
            yield taken_in(_requests(of.partition, messages), next_tick, options)


def _requests(partition: int, messages: Sequence[Any]) -> Requests:
    return Requests(
        partition,
        [message.offset() for message in messages],
        [message.timestamp()[1] for message in messages],
        [message.key() for message in messages],
        [message.value() for message in messages],
        [message.headers() for message in messages],
    )
