"""The topics of timers in Kafka: made where they are missing, and which topics there are for callbacks to go to."""

import asyncio
import time
from collections.abc import Iterable, Sequence
from operator import methodcaller
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message
from confluent_kafka.admin import AdminClient, NewTopic

from meantime.errors import StorageUnavailable
from meantime.kafka.settings import Storage, client_config
from meantime.timers.model import Record
from meantime.timers.topics import TimerTopic

ANSWER_WITHIN = 10.0
Headers = Sequence[tuple[str, bytes | None]]
UNREADABLE_HEADERS: Headers = (("token", b"\xff"),)
_headers = methodcaller("headers")


def timers_config(storage: Storage, **more: Any) -> dict[str, Any]:
    """What every client of timers starts from."""
    return {
        **client_config(storage, "meantime-timers"),
        "topic.metadata.refresh.interval.ms": 30_000,
        # When no broker answers, the client would forget them all and begin anew, in the middle of a transaction, too: its
        # calls then never return.
        "metadata.recovery.strategy": "none",
        **more,
    }


def admin_of(storage: Storage) -> AdminClient:
    try:
        return AdminClient(timers_config(storage))
    except (KafkaException, TypeError, ValueError) as error:
        raise StorageUnavailable(f"storage {storage.id!r} cannot be used: {error}", storage_id=storage.id) from error


def ensure_topics(admin: AdminClient, wanted: Iterable[TimerTopic]) -> None:
    """Create what is missing; blocks until Kafka has answered."""
    existing = existing_topics(admin)
    missing = [topic for topic in wanted if topic.name not in existing]
    new = [NewTopic(topic.name, topic.partitions, replication_factor=-1, config=dict(topic.settings)) for topic in missing]
    for name, future in (admin.create_topics(new) if new else {}).items():
        try:
            future.result(ANSWER_WITHIN)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise StorageUnavailable(f"cannot create the topic {name}: {error.args[0].str()}") from error
    _until_led(admin, {topic.name for topic in missing})


async def topics_ready(admin: AdminClient, wanted: Iterable[TimerTopic], retry_every: float = 1.0) -> None:
    """Wait for Kafka for as long as it takes."""
    while True:
        try:
            await asyncio.to_thread(ensure_topics, admin, list(wanted))
        except StorageUnavailable:
            await asyncio.sleep(retry_every)
        else:
            return


def partitions_of(admin: AdminClient, topic: str) -> int:
    return existing_topics(admin).get(topic, 0)


def existing_topics(admin: AdminClient) -> dict[str, int]:
    """Every topic with the number of its partitions. Asking for all never creates one."""
    try:
        found = admin.list_topics(timeout=ANSWER_WITHIN).topics
    except KafkaException as error:
        raise StorageUnavailable(f"Kafka does not answer: {error.args[0].str()}") from error
    return {name: len(metadata.partitions) for name, metadata in found.items() if metadata.error is None}


def _until_led(admin: AdminClient, names: set[str]) -> None:
    """A new topic can be used once each partition has a leader; no call waits for it."""
    deadline = time.monotonic() + ANSWER_WITHIN
    while names and time.monotonic() < deadline:
        topics = admin.list_topics(timeout=ANSWER_WITHIN).topics
        names = {name for name in names if name not in topics or not _is_led(topics[name])}
        time.sleep(0.02 if names else 0)


def _is_led(topic: Any) -> bool:
    return bool(topic.partitions) and all(partition.leader >= 0 for partition in topic.partitions.values())


def record_of(message: Message, headers: Headers | None = None) -> Record:
    """`headers` if they have been asked for: that must not be done twice."""
    # Naming the fields costs more than all the rest, and there are millions of records.
    return Record._make(
        (
            message.partition() or 0,
            message.offset() or 0,
            message.timestamp()[1],
            message.key(),
            message.value(),
            tuple(headers_of(message) if headers is None else headers),
        )
    )


def headers_of(message: Any) -> Headers:
    """Kafka's client cannot read names that are not UTF-8: it fails, and what it gives when it is asked again must not be
    touched. Such a record has a token that is none, so that it is refused. The method must not be called directly: when that
    has been done often, Python does not look any more whether it has failed."""
    try:
        return _headers(message) or ()
    except SystemError:
        return UNREADABLE_HEADERS
