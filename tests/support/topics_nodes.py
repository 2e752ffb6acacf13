"""Nodes that serve nothing but topics, in this process, over real HTTP and a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from uuid import uuid4

import httpx
import psycopg
from http_server import open_http_server

from meantime.api.edge import Edge
from meantime.clock import Clock, SystemClock
from meantime.database.listener import open_listener
from meantime.database.migrate import migrate
from meantime.database.pool import open_database
from meantime.errors import Degraded
from meantime.schedules.forecast import ScheduleForecast
from meantime.topics.topics import Topics, TopicsOptions, open_topics

GROUP = {"X-Producer-Group": "owners"}


@dataclass
class SwitchableHealth:
    """Healthy until a test says otherwise."""

    healthy: bool = True

    def require_healthy(self) -> None:
        if not self.healthy:
            raise Degraded("this node is degraded: a test says so")


@dataclass
class TopicsNode:
    url: str
    uri: str
    topics: Topics
    health: SwitchableHealth
    http: httpx.AsyncClient
    edge: Edge = field(repr=False)


@asynccontextmanager
async def open_node(
    uri: str, node_id: str = "node-1", clock: Clock | None = None, options: TopicsOptions | None = None
) -> AsyncIterator[TopicsNode]:
    clock, health = clock or SystemClock(), SwitchableHealth()
    async with (
        open_listener(uri) as listener,
        open_topics(uri, listener, clock, health.require_healthy, node_id, options) as topics,
        open_database(uri, size=2) as database,
        open_http_server(
            clock=clock, topics=topics, schedules=SimpleNamespace(forecast=ScheduleForecast(database))
        ) as server,
        httpx.AsyncClient(base_url=server.url, timeout=70, verify=False) as http,
    ):
        yield TopicsNode(server.url, uri, topics, health, http, server.edge)


@asynccontextmanager
async def new_database(postgres: str) -> AsyncIterator[str]:
    """A database of its own with the schema in it, gone afterwards."""
    name = f"topics_{uuid4().hex[:12]}"
    async with await psycopg.AsyncConnection.connect(postgres, autocommit=True) as connection:
        await connection.execute(f'CREATE DATABASE "{name}"')
        parts = psycopg.conninfo.conninfo_to_dict(postgres)
        uri = _uri(parts | {"dbname": name})
        await asyncio.to_thread(migrate, uri)
        try:
            yield uri
        finally:
            await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _uri(parts: dict[str, object]) -> str:
    host = str(parts.get("host", ""))
    user = f"{parts.get('user', '')}:{parts.get('password', '')}@"
    if host.startswith("/"):
        return f"postgresql://{user}/{parts['dbname']}?host={host}"
    return f"postgresql://{user}{host}:{parts.get('port', 5432)}/{parts['dbname']}"


@asynccontextmanager
async def open_two_nodes(postgres: str) -> AsyncIterator[list[TopicsNode]]:
    """On a database of their own."""
    async with new_database(postgres) as uri, open_node(uri, "node-1") as one, open_node(uri, "node-2") as two:
        yield [one, two]
