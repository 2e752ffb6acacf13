"""Nodes for tests of the write side: each with its own pool, listener, ZooKeeper session and HTTP server, in one process."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from uuid import uuid4

import httpx
from confluent_kafka import Consumer, TopicPartition
from http_server import open_http_server
from streams_world import PLAIN

from conftest import own_database
from meantime.clock import SystemClock
from meantime.coordination.session import Session, SessionOptions, open_session
from meantime.database.listener import open_listener
from meantime.database.pool import Database, open_database
from meantime.kafka.settings import configured_storages
from meantime.streams.streams import Streams, StreamsOptions, open_streams


@dataclass(frozen=True)
class Place:
    """Where a cluster of nodes lives: a database and a root of its own in shared services."""

    postgres: str
    zookeeper: str
    root: str
    kafka: list[str]


@dataclass(frozen=True)
class Node:
    id: str
    url: str
    streams: Streams
    session: Session
    database: Database

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=60.0, verify=PLAIN)


@asynccontextmanager
async def open_place(services: Any) -> AsyncIterator[Place]:
    with own_database(services.postgres) as uri:
        yield Place(uri, services.zookeeper, f"/test-{uuid4().hex[:10]}", services.kafka)


@asynccontextmanager
async def open_node(place: Place, id: str = "node-1", session_timeout: float = 6.0, **options: Any) -> AsyncIterator[Node]:
    async with AsyncExitStack() as opened:
        database = await opened.enter_async_context(open_database(place.postgres, size=8))
        listener = await opened.enter_async_context(open_listener(place.postgres))
        session = await opened.enter_async_context(
            open_session(SessionOptions(place.zookeeper, place.root, timeout=session_timeout))
        )
        wanted = replace(StreamsOptions(id, configured_storages(place.kafka, {}), min_retention_ms=1000), **options)
        streams = await opened.enter_async_context(open_streams(database, listener, session, SystemClock(), wanted))
        server = await opened.enter_async_context(open_http_server(streams=streams))
        await asyncio.wait_for(streams.barrier.wait_registered(), 60)
        await eventually(partial(_all_registered, streams, wanted))
        yield Node(id, server.url, streams, session, database)


async def _all_registered(streams: Streams, wanted: StreamsOptions) -> bool:
    return {storage.id for storage in wanted.storages} <= {storage.id for storage in await streams.storages.all()}


@asynccontextmanager
async def open_nodes(place: Place, count: int, **options: Any) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as opened:
        yield [
            await opened.enter_async_context(open_node(place, f"node-{number}", **options)) for number in range(1, count + 1)
        ]


async def eventually(look: Callable[[], Awaitable[object]], wait_for: float = 60.0) -> None:
    """Return when `look` gives something true."""
    async with asyncio.timeout(wait_for):
        while not await look():  # noqa: ASYNC110 - the services offer nothing to wait on
            await asyncio.sleep(0.05)


def declared(name: str | None = None, **fields: Any) -> dict[str, Any]:
    return {
        "name": name or f"orders.{uuid4().hex[:10]}",
        "owning_application": "tests",
        "category": "undefined",
        "schema": {"type": "json_schema", "schema": "{}"},
        **fields,
    }


async def new_event_type(client: httpx.AsyncClient, **fields: Any) -> str:
    document = declared(**fields)
    response = await client.post("/event-types", json=document)
    assert response.status_code == 201, response.text
    return str(document["name"])


def read_topic(servers: str, topic: str, partitions: int = 1) -> list[list[bytes]]:
    """All records of a topic by partition, read to its end by a client of its own."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": uuid4().hex, "enable.auto.commit": False})
    try:
        found: list[list[bytes]] = []
        for partition in range(partitions):
            low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), timeout=10)
            consumer.assign([TopicPartition(topic, partition, low)])
            values: list[bytes] = []
            while len(values) < high - low:
                values += [message.value() or b"" for message in consumer.consume(10_000, timeout=1.0)]
            found.append(values)
        return found
    finally:
        consumer.close()


async def numbers_of(place: Place, node: Node, name: str) -> list[list[int]]:
    """The field `n` of every event of an event type by partition, over all its timelines and up to their ends."""
    servers = {"default": place.kafka[0], "kafka-2": place.kafka[1]}
    found: list[list[int]] = []
    for timeline in await node.streams.catalog.timelines(name):
        values = await asyncio.to_thread(read_topic, servers[timeline.storage_id], timeline.topic, timeline.partitions)
        for partition, records in enumerate(values):
            end = len(records) if timeline.latest_offsets is None else timeline.latest_offsets[partition] + 1
            if len(found) <= partition:
                found.append([])
            found[partition] += [json.loads(record)["n"] for record in records[:end]]
    return found


def body(*events: Any) -> bytes:
    return json.dumps(events).encode()
