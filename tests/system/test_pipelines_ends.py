"""A time buffer between every two kinds of ends, started as a user would, in a process of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pipelines_driver import Driver, command

from conftest import RunningStack
from meantime import Client
from meantime.pipelines.event_types import http_reader
from meantime.pipelines.event_types.layout import look_up
from meantime.pipelines.event_types.ranges import between
from meantime.pipelines.spark.broker import Broker

EVENT = b'{ "n": 1.50 }'

pytestmark = [pytest.mark.takes(seconds=100), pytest.mark.timeout(600)]


class Topic:
    """A topic of one partition, for clients of Kafka."""

    def __init__(self, stack: RunningStack) -> None:
        self._kafka = stack.places.kafka[0]
        self.end = f"ends-{uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self._kafka})
        admin.create_topics([NewTopic(self.end, 1)])[self.end].result(20)

    def put(self) -> None:
        producer = Producer({"bootstrap.servers": self._kafka})
        producer.produce(self.end, EVENT)
        assert producer.flush(20) == 0

    def values(self) -> list[bytes]:
        options = {"bootstrap.servers": self._kafka, "group.id": uuid4().hex, "isolation.level": "read_committed"}
        consumer = Consumer(options)
        try:
            consumer.assign([TopicPartition(self.end, 0, 0)])
            return [message.value() or b"" for message in consumer.consume(10, 2.0) if message.error() is None]
        finally:
            consumer.close()


class EventType:
    """An event type, for clients of the API."""

    def __init__(self, stack: RunningStack) -> None:
        self._url = stack.urls[0]
        self._name = f"ends-{uuid4().hex[:8]}"
        self.end = f"event-type:{self._name}"
        with Client(self._url) as client:
            client.create_event_type(self._name)

    def put(self) -> None:
        with Client(self._url) as client:
            client.publish_encoded(self._name, b"[%b]" % EVENT)

    def values(self) -> list[bytes]:
        with Client(self._url) as client:
            layout = look_up(client, self._name)
        rows = http_reader.read(Broker(self._url), self._name, between(layout, layout.oldest, layout.newest))
        return [row[0].encode() for row in rows]


Kind = Callable[[RunningStack], Topic | EventType]
ENDS: dict[str, Kind] = {"topic": Topic, "event type": EventType}


@pytest.fixture
def start(cluster: RunningStack, folder: Path) -> Iterator[Callable[..., Driver]]:
    started: list[Driver] = []

    def start(*arguments: str) -> Driver:
        started.append(Driver(command(cluster, *arguments), folder / "log"))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


@pytest.mark.parametrize("target", ENDS)
@pytest.mark.parametrize("source", ENDS)
def test_a_buffer_runs_between_any_two_ends(
    cluster: RunningStack, start: Callable[..., Driver], folder: Path, source: str, target: str
) -> None:
    left, right = ENDS[source](cluster), ENDS[target](cluster)
    left.put()
    checkpoint = str(folder / "checkpoint")
    driver = start("buffer", "--from", left.end, "--to", right.end, "--delay", "1s", "--checkpoint", checkpoint)
    driver.wait_for(lambda: bool(right.values()), 400)
    assert driver.stop() == 0
    assert [msgspec.json.decode(value) for value in right.values()] == [msgspec.json.decode(EVENT)]
