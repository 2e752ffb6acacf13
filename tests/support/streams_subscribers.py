"""Calls of subscribers, for tests of subscriptions."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from streams_world import Orders, Reader, Served, World, open_reader

from conftest import Services


@asynccontextmanager
async def open_two_readers(services: Services, world: World) -> AsyncIterator[list[Served]]:
    async with (
        open_reader(world, zookeeper=services.zookeeper, node_id="node-1") as one,
        open_reader(world, zookeeper=services.zookeeper, node_id="node-2") as two,
    ):
        yield [one, two]


async def subscribe(client: httpx.AsyncClient, *orders: Orders, read_from: str = "begin", **more: Any) -> str:
    document = {"owning_application": f"app-{uuid4().hex[:8]}", "event_types": [one.name for one in orders]}
    made = await client.post("/subscriptions", json=document | {"read_from": read_from} | more)
    assert made.status_code == 201, made.text
    return made.json()["id"]


class SubscriptionReader(Reader):
    @property
    def stream_id(self) -> str:
        return self.response.headers["X-Nakadi-StreamId"]


@asynccontextmanager
async def streaming(
    client: httpx.AsyncClient, id: str, body: dict[str, Any] | None = None, **params: Any
) -> AsyncIterator[SubscriptionReader]:
    method = "GET" if body is None else "POST"
    async with client.stream(method, f"/subscriptions/{id}/events", params=params, json=body) as response:
        assert response.status_code == 200, await response.aread()
        yield SubscriptionReader(response)


async def commit(client: httpx.AsyncClient, id: str, stream_id: str, *cursors: dict[str, str]) -> httpx.Response:
    headers = {"X-Nakadi-StreamId": stream_id}
    return await client.post(f"/subscriptions/{id}/cursors", json={"items": list(cursors)}, headers=headers)


async def committed(client: httpx.AsyncClient, id: str) -> dict[tuple[str, str], str]:
    items = (await client.get(f"/subscriptions/{id}/cursors")).json()["items"]
    return {(item["event_type"], item["partition"]): item["offset"] for item in items}


async def assigned(client: httpx.AsyncClient, id: str) -> dict[str, str]:
    """The stream of each partition that is settled with one."""
    [stats] = (await client.get(f"/subscriptions/{id}/stats")).json()["items"]
    return {one["partition"]: one["stream_id"] for one in stats["partitions"] if one["state"] == "assigned"}


async def until_shared(client: httpx.AsyncClient, id: str, shares: list[int], wait_for: float = 60.0) -> dict[str, str]:
    async with asyncio.timeout(wait_for):
        while True:
            found = await assigned(client, id)
            if sorted(list(found.values()).count(stream) for stream in set(found.values())) == sorted(shares):
                return found
            await asyncio.sleep(0.05)
