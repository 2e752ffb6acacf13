"""What the tests of timers have in common: a Kafka with the topics of timers, records in, records out."""

import fcntl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import psycopg
from confluent_kafka import OFFSET_END, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from meantime.database.migrate import migrate
from meantime.kafka.settings import Storage
from meantime.timers.future import encode
from meantime.timers.kafka_topics import ensure_topics
from meantime.timers.model import Future, TimerLimits
from meantime.timers.topics import REQUEST, TimerTopic, topics

SHARES = 2
MIGRATED = "timers_migrated"


@dataclass(frozen=True, slots=True)
class Kafka:
    address: str
    admin: AdminClient
    producer: Producer

    @property
    def storage(self) -> Storage:
        return Storage("default", self.address)

    def send(self, topic: str, key: object, value: bytes | None, partition: int = -1, **headers: str) -> None:
        given = [(name, text.encode()) for name, text in headers.items()]
        self.producer.produce(topic, value, str(key), partition=partition, headers=given)

    def set(self, second: int, topic: str, token: str, callback: bytes = b"hi", key: str = "k") -> None:
        self.send(REQUEST, second, encode(Future(topic, key, callback)), token=token)

    def cancel(self, second: int, token: str) -> None:
        self.send(REQUEST, second, None, cancel=token)

    def flush(self) -> None:
        assert self.producer.flush(20) == 0

    def new_topic(self, **config: str) -> str:
        name = f"calls-{uuid4().hex[:8]}"
        self.admin.create_topics([NewTopic(name, 2, 1, config=config)])[name].result()
        return name

    def tail(self, *names: str) -> "Tail":
        return Tail(self.address, names)


class Tail:
    """Reads topics from where they end now, committed records only."""

    def _end(self, place: TopicPartition) -> int:
        """A new topic may be without its leader for a moment."""
        for _ in range(100):
            try:
                return int(self._consumer.get_watermark_offsets(place, 20)[1])
            except KafkaException:
                time.sleep(0.1)
        return int(self._consumer.get_watermark_offsets(place, 20)[1])

    def __init__(self, address: str, names: tuple[str, ...]) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": address,
                "group.id": uuid4().hex,
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
            }
        )
        places = [
            TopicPartition(name, partition, OFFSET_END)
            for name in names
            for partition in self._consumer.list_topics(name, timeout=20).topics[name].partitions
        ]
        ends = [self._end(place) for place in places]
        pairs = zip(places, ends, strict=True)
        self._consumer.assign([TopicPartition(place.topic, place.partition, end) for place, end in pairs])

    def read(self, count: int, within: float = 60.0) -> list[Message]:
        """The next `count` records; fewer when they do not come in time."""
        found: list[Message] = []
        deadline = time.monotonic() + within
        while len(found) < count and time.monotonic() < deadline:
            found += [message for message in self._consumer.consume(1000, 0.1) if message.error() is None]
        return found

    def close(self) -> None:
        self._consumer.close()


def token_of(message: Message) -> str:
    return dict(message.headers())["timer-token"].decode()


def lateness_of(message: Message) -> int:
    return message.timestamp()[1] - int(dict(message.headers())["timer-due"]) * 1000


def until(question: Callable[[], object], within: float = 60.0) -> object:
    """Ask until the answer is true."""
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        answer = question()
        if answer:
            return answer
        time.sleep(0.05)
    raise AssertionError("it did not happen in time")


@contextmanager
def kafka_with_topics(address: str) -> Iterator[Kafka]:
    """The names of these topics are fixed, so their tests take turns on a cluster, also with those of other lanes."""
    with (Path(tempfile.gettempdir()) / f"meantime-timers-{address.rpartition(':')[2]}.lock").open("a") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        yield _kafka_with_topics(address)


def timer_topics() -> tuple[TimerTopic, ...]:
    limits = TimerLimits()
    return topics(
        shares=SHARES, request_partitions=2, horizon_s=limits.horizon_s, max_request_bytes=limits.max_request_bytes
    )


def _kafka_with_topics(address: str) -> Kafka:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    ensure_topics(admin, timer_topics())
    return Kafka(address, admin, Producer({"bootstrap.servers": address, "linger.ms": 2, "log_level": 0}))


@contextmanager
def new_database(postgres: str) -> Iterator[str]:
    """With the schema in it: a copy of one that was migrated, which takes a fraction of the time."""
    name = f"timers_{uuid4().hex[:8]}"
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("SELECT pg_advisory_lock(hashtext(%s))", (MIGRATED,))  # a database that is in use cannot be copied
        if not admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (MIGRATED,)).fetchone():
            admin.execute(f"CREATE DATABASE {MIGRATED}")
            migrate(_uri(postgres, MIGRATED))
        admin.execute(f'CREATE DATABASE "{name}" TEMPLATE {MIGRATED}')
        admin.execute("SELECT pg_advisory_unlock_all()")
        yield _uri(postgres, name)
        admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _uri(postgres: str, name: str) -> str:
    return postgres.rpartition("/")[0] + f"/{name}"
