"""A small world for tests of reading: event types with timelines on two real clusters, served on a real socket.

Timelines are closed and opened here by hand, in the way a switch leaves them, so that a test can have any history it wants.
"""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import Producer
from http_server import open_http_server

from conftest import own_database
from meantime.clock import SystemClock
from meantime.coordination.session import SessionOptions, open_session
from meantime.database.listener import open_listener
from meantime.database.pool import Connection, open_database
from meantime.kafka.admin import Admins
from meantime.kafka.settings import Storage
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.store import Store, _declaration
from meantime.streams.model import EventType, Timeline
from meantime.streams.reading.reader import open_reading
from meantime.streams.subscriptions.subscriptions import Subscriptions, open_subscriptions

CLOCK = SystemClock()
PLAIN = False
"""For clients of plain HTTP, which need none of what is verified for TLS; to load that takes longer than a whole test."""


def numbered(*numbers: int) -> list[bytes]:
    return [b'{"n":%d}' % number for number in numbers]


@dataclass
class Served:
    """One node's worth of reading."""

    url: str
    catalog: Catalog
    subscriptions: Subscriptions | None = None

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=httpx.Timeout(60.0), verify=PLAIN)


@dataclass
class World:
    """PostgreSQL and the clusters `one` and `two`, to make histories in."""

    uri: str
    kafka: list[str]
    store: Store
    admins: Admins = field(default_factory=Admins)

    @property
    def name(self) -> str:
        return urlsplit(self.uri).path.strip("/")

    async def register_storages(self) -> None:
        for id, servers, default in zip(("one", "two"), self.kafka, (True, False), strict=True):
            await self.store.database.execute(
                "INSERT INTO storages (id, storage_type, bootstrap_servers, settings, is_default, created_at_ms)"
                " VALUES (%s, 'kafka', %s, '{}', %s, 0)",
                (id, servers, default),
            )

    def storage(self, id: str) -> Storage:
        return Storage(id, self.kafka[("one", "two").index(id)])

    async def event_type(self, partitions: int = 1, *, adopt: bool = False, retention_ms: int = 86_400_000) -> "Orders":
        name = f"orders.{uuid4().hex[:10]}"
        topic = f"{name}.adopted" if adopt else f"{name}.1"
        await self.admins.of(self.storage("one")).create(topic, partitions, {"retention.ms": str(retention_ms)})
        declared = EventType(
            name=name,
            category="undefined",
            partition_strategy="random",
            partition_key_fields=(),
            partitions=partitions,
            retention_ms=retention_ms,
            cleanup_policy="delete",
            adopt_topic=topic if adopt else None,
            document={"name": name, "partition_strategy": "random", "partition_key_fields": []},
            adopt_storage_id="one" if adopt else None,
            created_at_ms=CLOCK.now_ms(),
            updated_at_ms=CLOCK.now_ms(),
        )
        orders = Orders(self, name, partitions, declared)
        async with self.store.database.transaction() as connection:
            await connection.execute(self.store.queries["insert_event_type"], _declaration(declared))
            if not adopt:
                await orders.insert(connection, 1, "one", topic)
        return orders


@dataclass
class Orders:
    """An event type, and everything that can happen to it."""

    world: World
    name: str
    partitions: int
    declared: EventType

    async def timelines(self) -> tuple[Timeline, ...]:
        found = await self.world.store.event_type(self.name)
        assert found is not None
        return found[1]

    async def write(self, *numbers: int, partition: int = 0) -> None:
        await self.write_raw(numbered(*numbers), partition)

    async def write_raw(self, values: list[bytes], partition: int = 0) -> None:
        active = (await self.timelines())[-1]
        await asyncio.to_thread(self._produce, active, values, partition)

    def _produce(self, timeline: Timeline, values: list[bytes], partition: int) -> None:
        producer = Producer({"bootstrap.servers": self.world.storage(timeline.storage_id).bootstrap_servers, "linger.ms": 1})
        for value in values:
            while True:
                try:
                    producer.produce(timeline.topic, value, partition=partition)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(30) == 0

    async def switch(self, storage: str) -> None:
        """Close the active timeline where it ends and open the next, as a switch does."""
        timelines = await self.timelines()
        active, order = timelines[-1], max(timelines[-1].order, 1) + 1
        topic = f"{self.name}.{order}"
        await self.world.admins.of(self.world.storage(storage)).create(topic, self.partitions, {})
        old = self.world.admins.of(self.world.storage(active.storage_id))
        ends = await old.end_offsets(active.topic, self.partitions)
        store = self.world.store
        async with store.database.transaction() as connection:
            if active.fake:
                await self.insert(connection, 1, active.storage_id, active.topic)
            await connection.execute(
                "UPDATE timelines SET closed_at_ms = %s, latest_offsets = %s WHERE event_type = %s AND ord = %s",
                (CLOCK.now_ms(), [end - 1 for end in ends], self.name, max(active.order, 1)),
            )
            await self.insert(connection, order, storage, topic)
            await store.notify(connection, self.name)

    async def insert(self, connection: Connection, order: int, storage: str, topic: str) -> None:
        now_ms = CLOCK.now_ms()
        await connection.execute(
            "INSERT INTO timelines (id, event_type, ord, storage_id, topic, partitions, created_at_ms, switched_at_ms)"
            " VALUES (%s, %s, %s, %s, %s, %s, %s, %s)",
            (uuid4(), self.name, order, storage, topic, self.partitions, now_ms, now_ms),
        )

    async def clean_up(self, order: int) -> None:
        """What the retention duty does to a closed timeline."""
        timeline = next(timeline for timeline in await self.timelines() if timeline.order == order)
        async with self.world.store.database.transaction() as connection:
            await connection.execute(
                "UPDATE timelines SET deleted = true WHERE event_type = %s AND ord = %s", (self.name, order)
            )
            await self.world.store.notify(connection, self.name)
        await self.world.admins.of(self.world.storage(timeline.storage_id)).drop(timeline.topic)

    async def delete(self) -> None:
        async with self.world.store.database.transaction() as connection:
            await connection.execute("DELETE FROM event_types WHERE name = %s", (self.name,))
            await self.world.store.notify(connection, self.name)

    def events(self) -> str:
        return f"/event-types/{self.name}/events"


@asynccontextmanager
async def open_world(postgres: str, kafka: list[str]) -> AsyncIterator[World]:
    with own_database(postgres) as uri:
        async with open_database(uri, size=8) as database:
            world = World(uri, kafka, Store(database))
            await world.register_storages()
            yield world


@asynccontextmanager
async def open_reader(
    world: World,
    *,
    max_streams: int = 64,
    max_consumers: int = 64,
    zookeeper: str | None = None,
    node_id: str = "node-1",
) -> AsyncIterator[Served]:
    """A node that serves streams and cursors, and with ZooKeeper also subscriptions."""
    async with AsyncExitStack() as opened:
        database = await opened.enter_async_context(open_database(world.uri, size=4))
        listener = await opened.enter_async_context(open_listener(world.uri))
        catalog = Catalog(Store(database), listener)
        reading = await opened.enter_async_context(
            open_reading(catalog, Admins(), max_streams=max_streams, max_consumers=max_consumers)
        )
        served = SimpleNamespace(reading=reading, subscriptions=None)
        if zookeeper is not None:
            session = await opened.enter_async_context(open_session(SessionOptions(zookeeper, root=f"/{world.name}")))
            await session.wait_connected()
            served.subscriptions = await opened.enter_async_context(
                open_subscriptions(reading, database, session, listener, CLOCK, node_id=node_id)
            )
        server = await opened.enter_async_context(open_http_server(streams=served))
        yield Served(server.url, catalog, served.subscriptions)


# Fixtures: a file that uses some names them as its own, `world = streams_world.world`.


@pytest.fixture(scope="module")
async def world(services) -> AsyncIterator[World]:
    async with open_world(services.postgres, services.kafka) as world:
        yield world


@pytest.fixture(scope="module")
async def node(world: World) -> AsyncIterator[Served]:
    async with open_reader(world) as served:
        yield served


@pytest.fixture
async def client(node: Served) -> AsyncIterator[httpx.AsyncClient]:
    async with node.client() as client:
        yield client


class Reader:
    """A client of a stream: reads lines as they come."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self._lines = response.aiter_lines()

    async def line(self, wait_for: float = 60.0) -> dict[str, Any]:
        return json.loads(await asyncio.wait_for(anext(self._lines), wait_for))

    async def batch(self, wait_for: float = 60.0) -> dict[str, Any]:
        """The next line with events."""
        async with asyncio.timeout(wait_for):
            while "events" not in (line := await self.line(wait_for)):
                pass
        return line

    async def numbers(self, count: int, wait_for: float = 60.0) -> list[int]:
        found: list[int] = []
        while len(found) < count:
            found += [event["n"] for event in (await self.batch(wait_for))["events"]]
        return found

    async def rest(self, wait_for: float = 60.0) -> list[dict[str, Any]]:
        async with asyncio.timeout(wait_for):
            return [json.loads(line) async for line in self._lines]


@asynccontextmanager
async def reading(client: httpx.AsyncClient, path: str, cursors: list[dict[str, str]] | None = None, **params: Any) -> Any:
    headers = {} if cursors is None else {"X-Nakadi-Cursors": json.dumps(cursors)}
    async with client.stream("GET", path, params=params, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        yield Reader(response)


def begin(partitions: int = 1) -> list[dict[str, str]]:
    return [{"partition": str(partition), "offset": "BEGIN"} for partition in range(partitions)]
