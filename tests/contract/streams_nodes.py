"""Nodes for tests of the write side: each with its own pool, listener, ZooKeeper session and HTTP server, in one process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4

import httpx
from streams_world import own_database, serve

from meantime.api import event_types, publishing, storages, timelines
from meantime.clock import SystemClock
from meantime.coordination.session import Session, SessionOptions, open_session
from meantime.database.listener import open_listener
from meantime.database.pool import Database, open_database
from meantime.streams.slice import Streams, StreamsOptions, open_streams

ROUTES = [*event_types.ROUTES, *publishing.ROUTES, *storages.ROUTES, *timelines.ROUTES]


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
        return httpx.AsyncClient(base_url=self.url, timeout=60.0)


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
        wanted = replace(StreamsOptions(id, place.kafka, min_retention_ms=1000), **options)
        streams = await opened.enter_async_context(open_streams(database, listener, session, SystemClock(), wanted))
        url = await opened.enter_async_context(serve(ROUTES, {"streams": streams}))
        async with asyncio.timeout(10):
            await streams.barrier.wait_registered()
            while not await streams.storages.all():
                await asyncio.sleep(0.05)
        yield Node(id, url, streams, session, database)


@asynccontextmanager
async def open_nodes(place: Place, count: int, **options: Any) -> AsyncIterator[list[Node]]:
    async with AsyncExitStack() as opened:
        yield [
            await opened.enter_async_context(open_node(place, f"node-{number}", **options)) for number in range(1, count + 1)
        ]


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


def body(*events: Any) -> bytes:
    return json.dumps(events).encode()
