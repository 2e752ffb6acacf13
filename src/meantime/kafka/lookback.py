"""What was written to a topic since an instant: for whoever has to find out whether something of his own got there."""

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from meantime.errors import StorageUnavailable
from meantime.kafka.settings import Storage, client_config

ANSWER_WITHIN = 10.0


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
