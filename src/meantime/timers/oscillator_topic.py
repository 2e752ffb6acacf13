"""The topic `oscillator` in Kafka: one partition, written in transactions under one name, so that
opening it fences every earlier writer.

Calls to Kafka's client block, so each runs in a thread; there are a few of them a second.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from meantime.errors import CoordinationLost, StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.timers.kafka_topics import timers_config
from meantime.timers.rules import SECOND
from meantime.timers.topics import OSCILLATOR

WRITER = "meantime-oscillator"
ANSWER_WITHIN = 15.0


@asynccontextmanager
async def open_oscillator_topic(storage: Storage) -> AsyncIterator["OscillatorTopic"]:
    topic = OscillatorTopic(storage)
    try:
        await asyncio.to_thread(topic.open)
        yield topic
    finally:
        await asyncio.to_thread(topic.close)


class OscillatorTopic:
    def __init__(self, storage: Storage) -> None:
        writing = {"transactional.id": WRITER, "transaction.timeout.ms": 10_000, "linger.ms": 0}
        self._producer = Producer(timers_config(storage, **writing))
        self._ticks = TickConsumer(storage)

    def open(self) -> None:
        with _translated():
            self._producer.init_transactions(ANSWER_WITHIN)

    def close(self) -> None:
        self._ticks.close()
        self._producer.purge()
        self._producer.flush(1.0)

    async def last(self, latest: int) -> int | None:
        return await asyncio.to_thread(self._ticks.newest, latest)

    async def write(self, seconds: range) -> None:
        await asyncio.to_thread(self._write, seconds)

    def _write(self, seconds: range) -> None:
        with _translated():
            self._producer.begin_transaction()
            for second in seconds:
                self._producer.produce(OSCILLATOR, b"1", str(second), partition=0)
            self._producer.commit_transaction(ANSWER_WITHIN)


class TickConsumer:
    """Finds the newest tick. Anybody may write into a topic: what is no second, or lies too far ahead, is none."""

    def __init__(self, storage: Storage) -> None:
        reading = {
            "group.id": WRITER,
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            # The end is told by an empty answer; do not wait long for it.
            "fetch.wait.max.ms": 10,
            "isolation.level": "read_committed",
        }
        self._consumer = Consumer(timers_config(storage, **reading))

    def close(self) -> None:
        self._consumer.close()

    def newest(self, latest: int) -> int | None:
        """The newest second that is not after `latest`. Looks back from the end, further and further: what a fenced writer
        began takes offsets and is not there."""
        place = TopicPartition(OSCILLATOR, 0)
        low, high = self._watermarks(place)
        back = 100
        while high > low:
            start = max(low, high - back)
            newest = self._newest(start, latest)
            if newest is not None or start == low:
                return newest
            back *= 10
        return None

    def _watermarks(self, place: TopicPartition) -> tuple[int, int]:
        with _translated():
            found = self._consumer.get_watermark_offsets(place, ANSWER_WITHIN)
        if found is None:
            raise StorageUnavailable("Kafka does not say where the topic oscillator ends")
        return found

    def _newest(self, start: int, latest: int) -> int | None:
        self._consumer.assign([TopicPartition(OSCILLATOR, 0, start)])
        newest: int | None = None
        while True:
            message = self._consumer.poll(ANSWER_WITHIN)
            if message is None:
                raise StorageUnavailable("the topic oscillator cannot be read")
            error = message.error()
            if error is None:
                second = int(key) if (key := message.key()) and SECOND.fullmatch(key) else None
                if second is not None and second <= latest:
                    newest = max(newest or 0, second)
            elif error.code() == KafkaError._PARTITION_EOF:
                self._consumer.unassign()
                return newest
            else:
                raise StorageUnavailable(f"the topic oscillator cannot be read: {error.str()}")


@contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except KafkaException as error:
        raise _refusal(error) from error


def _refusal(error: KafkaException) -> Exception:
    """Every failure ends this writer: the next one finds out what was written."""
    reason = error.args[0]
    if reason.code() in (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH):
        return CoordinationLost("another oscillator has opened the topic")
    return StorageUnavailable(f"the topic oscillator cannot be written: {reason.str()}")
