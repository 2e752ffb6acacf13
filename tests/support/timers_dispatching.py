"""Dispatchers in a test's own process, and what comes of the timers that they get."""

import asyncio
import time
from contextlib import asynccontextmanager
from uuid import uuid4

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec
from timers_world import SHARES, Kafka, kafka_with_topics, new_database, token_of

from meantime.clock import Clock, SystemClock
from meantime.database.pool import open_database
from meantime.tasks import running
from meantime.timers.dispatching.background_work import BackgroundWork, PublishResult
from meantime.timers.dispatching.dispatcher_options import DispatcherOptions
from meantime.timers.dispatching.supervisor import DispatcherSetup, DispatcherSupervisor
from meantime.timers.future import encode
from meantime.timers.ledger.account import LedgerWriter
from meantime.timers.ledger.reader import LedgerOptions, LedgerReader
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.model import Future, TimerLimits
from meantime.timers.rules import share_of
from meantime.timers.topics import DUE

# Fixtures: a file that uses some names them as its own, `kafka = timers_dispatching.kafka`.


@pytest.fixture(scope="module")
def kafka(services):
    with kafka_with_topics(services.kafka[0]) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def calls(kafka):
    return kafka.new_topic()


@pytest.fixture
async def store(services):
    with new_database(services.postgres) as uri:
        async with open_database(uri, size=4) as database:
            yield LedgerStore(database)


@pytest.fixture
def mark() -> str:
    return uuid4().hex[:6]


class Events:
    """Event types whose publishing does as it is told; `sent` are the tokens that were written, `looked` those that were
    looked for."""

    def __init__(self, refuse: str | None = "no event types here", may_go_on: asyncio.Event | None = None) -> None:
        self.refuse = refuse
        self.may_go_on = may_go_on
        self.begun = asyncio.Event()
        self.sent: list[str] = []
        self.looked: list[str] = []

    async def publish(self, timers, require) -> PublishResult:
        self.begun.set()
        if self.may_go_on is not None:
            await self.may_go_on.wait()
        require()
        refused = (
            {} if self.refuse is None else {n: self.refuse for n, held in enumerate(timers) if "good" not in held.token}
        )
        self.sent += [held.token for number, held in enumerate(timers) if number not in refused]
        return PublishResult(refused)

    async def published(self, timers) -> set[int]:
        self.looked += [held.token for held in timers]
        return {number for number, held in enumerate(timers) if held.token in self.sent}


@asynccontextmanager
async def dispatcher(
    kafka: Kafka,
    store: LedgerStore,
    name: str = "one",
    events: Events | None = None,
    clock: Clock | None = None,
    **options,
):
    clock = clock or SystemClock()
    background = BackgroundWork(store, events or Events(), clock, remember_ms=86_400_000)
    setup = DispatcherSetup(name, kafka.storage, clock, DispatcherOptions(SHARES, **options))
    supervisor = DispatcherSupervisor(setup, background)
    reader = LedgerReader(kafka.storage, LedgerWriter(store), store, LedgerOptions(TimerLimits()))
    try:
        async with running(reader.run(), name="ledger"), running(supervisor.run(), name="dispatcher"):
            for _ in range(600):
                if supervisor._dispatcher is not None and supervisor._dispatcher.report.shares:
                    break
                await asyncio.sleep(0.05)
            yield supervisor
    finally:  # also after a test that has failed: the next one would find a dispatcher that has its share
        reader.close()
        for _ in range(3000):
            if not supervisor.running:
                break
            await asyncio.sleep(0.02)


def due(kafka: Kafka, second: int, topic: str, token: str, callback: bytes = b"hi", requested_ms: int | None = None) -> None:
    """As the Spark job puts it."""
    requested = str(requested_ms if requested_ms is not None else int(time.time() * 1000))
    value = encode(Future(topic, "k", callback))
    kafka.send(DUE, second, value, partition=share_of(token, SHARES), token=token, requested=requested)


def ends_of(kafka: Kafka, topic: str) -> dict[int, int]:
    """As far as a Spark job has come that has read everything."""
    wanted = {TopicPartition(topic, partition): OffsetSpec.latest() for partition in range(2)}
    return {place.partition: future.result().offset for place, future in kafka.admin.list_offsets(wanted).items()}


def soon(seconds: float = 2) -> int:
    return int(time.time() + seconds) + 1


async def read(tail, count: int, within: float = 60.0):
    return await asyncio.to_thread(tail.read, count, within)


async def refusals(tail, mark: str, count: int, within: float = 60.0) -> dict[str, str]:
    """Why timers of this test were rejected, by token. A new ledger rejects again what earlier tests asked for."""
    refused: dict[str, str] = {}
    deadline = time.monotonic() + within
    while len(refused) < count and time.monotonic() < deadline:
        for message in await read(tail, 1, within=1.0):
            headers = {name: value.decode() for name, value in message.headers()}
            if headers["token"].startswith(mark):
                refused[headers["token"]] = headers["reason"]
    return refused


async def all_fired(tail, count: int, within: float = 60.0) -> list[str]:
    """The tokens of the next `count`, and of those that should not be: they would come with them, in the same volley."""
    return [token_of(message) for message in (*await read(tail, count, within), *await read(tail, 1, within=1.5))]
