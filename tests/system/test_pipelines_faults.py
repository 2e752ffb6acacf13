"""Pipelines whose driver is killed and whose source changes its storage: everything arrives, once, byte for byte.

Here they are short. At full size, with as many kills as the full size deserves:

    MEANTIME_BUFFER_RECORDS=200000 MEANTIME_ARCHIVE_EVENTS=1000000 pytest -s tests/system/test_pipelines_faults.py
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pipelines_driver import Driver, Publishing, command
from pyarrow import parquet

from conftest import RunningStack
from meantime import Client
from meantime.pipelines.archive.journal import Journal
from meantime.pipelines.event_types import http_reader
from meantime.pipelines.event_types.layout import look_up
from meantime.pipelines.event_types.ranges import between
from meantime.pipelines.spark.broker import Broker
from meantime.pipelines.spark.meters import BufferLateness

RECORDS = int(os.environ.get("MEANTIME_BUFFER_RECORDS", "3000"))
EVENTS = int(os.environ.get("MEANTIME_ARCHIVE_EVENTS", "6000"))
FULL = 100_000
"""From so many on it is the full size."""
DELAY_MS = 20_000 if RECORDS >= FULL else 3_000
"""At full size longer than Spark needs to come back, as it would be in earnest."""

Start = Callable[..., Driver]

pytestmark = [pytest.mark.takes(seconds=150), pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def client(cluster: RunningStack) -> Iterator[Client]:
    with Client(cluster.urls) as client:
        yield client


@pytest.fixture
def start(cluster: RunningStack, folder: Path) -> Iterator[Start]:
    """Pipelines; what still runs at the end of a test is killed."""
    started: list[Driver] = []

    def start(*arguments: str) -> Driver:
        started.append(Driver(command(cluster, *arguments), folder / "log"))
        return started[-1]

    yield start
    for driver in started:
        driver.kill()


@pytest.fixture
def event_type(client: Client) -> str:
    name = f"faults-{uuid4().hex[:8]}"
    client.create_event_type(name, partitions=2)
    return name


def event(number: int) -> bytes:
    """JSON that would not survive being parsed and written again."""
    return f'{{ "n":{number}, "price": {number % 97}.50, "who":"ü\\u00fc {number % 7}" }}'.encode()


def number_of(text: bytes) -> int:
    return int(msgspec.json.decode(text)["n"])


class Arriving:
    """What comes to a topic of one partition, read as it comes: values with their times."""

    def __init__(self, kafka: str, topic: str) -> None:
        self._consumer = Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex, "isolation.level": "read_committed"})
        self._consumer.assign([TopicPartition(topic, 0, 0)])
        self.seen: list[tuple[bytes, int]] = []

    def count(self) -> int:
        for message in self._consumer.consume(10_000, 0.2):
            assert message.error() is None, message.error()
            self.seen.append((message.value() or b"", message.timestamp()[1]))
        return len(self.seen)

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def arriving(cluster: RunningStack) -> Iterator[tuple[str, Arriving]]:
    kafka, topic = cluster.places.kafka[0], f"later-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(topic, 1)])[topic].result(20)
    found = Arriving(kafka, topic)
    yield topic, found
    found.close()


def due_ms(client: Client, url: str, event_type: str) -> dict[bytes, int]:
    """When each event that was published may come out at the earliest."""
    layout = look_up(client, event_type)
    ranges = between(layout, layout.oldest, layout.newest)
    return {
        row[0].encode(): round(row[5].timestamp() * 1000) + DELAY_MS
        for row in http_reader.read(Broker(url), event_type, ranges)
    }


def test_a_buffer_of_an_event_type_loses_and_repeats_nothing_over_kills_and_a_switch(
    cluster: RunningStack, client: Client, event_type: str, arriving: tuple[str, Arriving], start: Start, folder: Path
) -> None:
    kills, lasting = (3, 100.0) if RECORDS >= FULL else (1, 15.0)
    target, arrived = arriving
    ends = ("--from", f"event-type:{event_type}", "--to", target, "--delay", f"{DELAY_MS}ms")
    buffer = ("buffer", *ends, "--checkpoint", str(folder / "checkpoint"))
    publishing = Publishing(cluster.urls[0], event_type, event, count=RECORDS, lasting=lasting, switches=1)
    driver = start(*buffer)
    publishing.start()
    for kill in range(1, kills + 1):
        driver.wait_for(lambda share=kill: arrived.count() > RECORDS * share // (kills + 2), 300)
        driver.kill()
        driver = start(*buffer)
    publishing.finish()
    driver.wait_for(lambda: arrived.count() >= RECORDS, 400)
    assert driver.stop() == 0
    arrived.count()
    assert len(client.timelines(event_type)) == 2
    assert sorted(number_of(value) for value, _ in arrived.seen) == list(range(RECORDS))
    due = due_ms(client, cluster.urls[0], event_type)
    late = BufferLateness()
    late.note(written_ms - due[value] for value, written_ms in arrived.seen)
    print(f"\nbuffer, {RECORDS:,} records, {kills} kills, 1 switch: {late.report()}")
    assert late.report()["early"] == 0


def rows_of(archive: Path) -> dict[str, list[Any]]:
    files = sorted(archive.glob("event_type=*/date=*/hour=*/*.parquet"))
    tables = [parquet.ParquetFile(file).read(columns=["event", "timeline"]) for file in files]
    return {name: [value for table in tables for value in table[name].to_pylist()] for name in ("event", "timeline")}


def test_an_archive_has_every_event_byte_for_byte_over_kills_and_switches(
    cluster: RunningStack, event_type: str, start: Start, folder: Path
) -> None:
    kills, lasting, batches = (2, 90.0, 20) if EVENTS >= FULL else (1, 10.0, 4)
    archive = folder / "archive"
    journal = Journal(archive, event_type)
    arguments = ("archive", event_type, "--to", str(archive), "--every", "500ms", "--max-rows", str(EVENTS // batches))
    publishing = Publishing(cluster.urls[0], event_type, event, count=EVENTS, lasting=lasting, switches=5)
    publishing.start()
    driver = start(*arguments)
    for kill in range(1, kills + 1):
        driver.wait_for(lambda share=kill: journal.rows() > EVENTS * share // (kills + 2), 300)
        driver.kill()
        driver = start(*arguments)
    publishing.finish()
    driver.wait_for(lambda: journal.rows() >= EVENTS, 400)
    assert driver.stop() == 0
    found = rows_of(archive)
    print(f"\narchive, {EVENTS:,} events, {kills} kills, 5 switches: {len(found['event']):,} rows")
    assert set(found["timeline"]) == set(range(1, 7))
    assert len(found["event"]) == EVENTS
    assert {text.encode() for text in found["event"]} == set(map(event, range(EVENTS)))
