"""A Kafka topic as the target of a time buffer: records and the list of their ids in one Kafka transaction.

The list is a record of the topic `<buffer>.ledger`. Whoever takes the buffer over begins with `init_transactions`, which
ends what its predecessor left open and keeps it from writing anything more. Readers with `read_committed` see each
record once.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from meantime.errors import UNREADABLE, Conflict, NotFound, StorageUnavailable
from meantime.kafka.settings import Storage, client_config
from meantime.pipelines.buffer.model import BufferedRecord

WITHIN = 30.0
LEDGER_SETTINGS = {"cleanup.policy": "compact", "segment.ms": "600000", "max.message.bytes": "8388608"}

_FENCED = (KafkaError._FENCED, KafkaError.INVALID_PRODUCER_EPOCH, KafkaError.PRODUCER_FENCED)


class PublishedIds(msgspec.Struct, frozen=True):
    ids: list[str]


class KafkaTarget:
    def __init__(self, storage: Storage, topic: str, buffer: str) -> None:
        self._storage = storage
        self._topic = topic
        self._buffer = buffer
        self._ledger = f"{buffer}.ledger".replace(":", ".")
        self._producer: Producer | None = None
        _check_topics(storage, topic, self._ledger)

    def published(self) -> set[str]:
        """Also takes the buffer over: from here on nobody else can write for it."""
        self._producer = None
        self._opened()
        return set(_last_ledger(self._storage, self._ledger).ids)

    def publish(self, ids: Sequence[str], records: Sequence[BufferedRecord]) -> None:
        producer = self._opened()
        try:
            producer.begin_transaction()
            for record in records:
                self._produce(producer, record)
            ledger = msgspec.json.encode(PublishedIds(list(ids)))
            producer.produce(self._ledger, key=self._buffer.encode(), value=ledger, partition=0)
            producer.commit_transaction(WITHIN)
        except (KafkaException, BufferError) as error:
            # Whether the commit went through is in the ledger, which the next producer reads.
            self._producer = None
            if isinstance(error, KafkaException) and error.args[0].code() in _FENCED:
                raise Conflict(f"another process has taken {self._buffer!r} over") from error
            raise StorageUnavailable(
                f"it is not certain that the records were written to {self._topic!r}: {error}"
            ) from error

    def _produce(self, producer: Producer, record: BufferedRecord) -> None:
        headers: list[tuple[str, str | bytes | None]] = [(one.key, one.value) for one in record.headers]
        while True:
            try:
                producer.produce(self._topic, key=record.key, value=record.value, headers=headers)
                return
            except BufferError:
                producer.poll(0.1)

    def _opened(self) -> Producer:
        if self._producer is None:
            producer = Producer(client_config(self._storage) | _settings(self._buffer))
            try:
                producer.init_transactions(WITHIN)
            except KafkaException as error:
                raise StorageUnavailable(f"storage {self._storage.id!r} takes no transaction: {error}") from error
            self._producer = producer
        return self._producer


def _settings(buffer: str) -> dict[str, Any]:
    return {
        "transactional.id": f"meantime-{buffer}",
        # Forgetting all brokers when none answers would leave a transaction hanging.
        "metadata.recovery.strategy": "none",
        "acks": "all",
        "linger.ms": 2,
        "compression.type": "lz4",
        "partitioner": "murmur2_random",
        "message.max.bytes": 8 << 20,
        "transaction.timeout.ms": 60_000,
    }


def has_topic(storage: Storage, topic: str) -> bool:
    try:
        return topic in AdminClient(client_config(storage)).list_topics(timeout=WITHIN).topics
    except KafkaException as error:
        raise StorageUnavailable(f"storage {storage.id!r} does not answer: {error}", storage_id=storage.id) from error


def _check_topics(storage: Storage, topic: str, ledger: str) -> None:
    admin = AdminClient(client_config(storage))
    try:
        known = admin.list_topics(timeout=WITHIN).topics
        if topic not in known:
            raise NotFound(f"--to: storage {storage.id!r} has no topic {topic!r}")
        if ledger not in known:
            admin.create_topics([NewTopic(ledger, 1, replication_factor=-1, config=LEDGER_SETTINGS)])[ledger].result(WITHIN)
    except KafkaException as error:
        code = error.args[0].code() if error.args else None
        if code != KafkaError.TOPIC_ALREADY_EXISTS:
            raise StorageUnavailable(f"storage {storage.id!r} does not answer: {error}", storage_id=storage.id) from error


def _last_ledger(storage: Storage, topic: str) -> PublishedIds:
    """The newest record that was committed. Ends of transactions take offsets too, so it lies some places before the end."""
    settings = {"group.id": "meantime-buffer", "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer(client_config(storage) | settings | {"enable.auto.commit": False, "auto.offset.reset": "earliest"})
    try:
        low, high = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=WITHIN)
        back = 16
        while True:
            first = max(low, high - back)
            found = _newest(consumer, topic, first)
            if found is not None or first == low:
                return found or PublishedIds([])
            back *= 16
    except KafkaException as error:
        raise StorageUnavailable(f"storage {storage.id!r} does not answer: {error}", storage_id=storage.id) from error
    finally:
        consumer.close()


def _published(value: bytes | None) -> PublishedIds | None:
    try:
        return msgspec.json.decode(value or b"", type=PublishedIds)
    except UNREADABLE:
        return None


def _newest(consumer: Consumer, topic: str, first: int) -> PublishedIds | None:
    """Of those that can be read: anybody may write into a topic."""
    consumer.assign([TopicPartition(topic, 0, first)])
    newest: PublishedIds | None = None
    while True:
        message: Any = consumer.poll(WITHIN)
        if message is None:
            raise StorageUnavailable(f"the ledger {topic!r} cannot be read")
        if message.error() is None:
            newest = _published(message.value()) or newest
        elif message.error().code() == KafkaError._PARTITION_EOF:
            return newest
