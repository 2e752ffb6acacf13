"""Batches of many megabytes: all or nothing, in order, beside others, and their memory comes back."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
import pytest_asyncio
from streams_nodes import Node, Place, eventually, new_event_type, numbers_of, open_node, open_place

from meantime.metrics import REGISTRY

pytestmark = pytest.mark.takes(seconds=60)

COUNT = 120_000
PAD = "x" * 110
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n", "key"]}
DECLARED: dict[str, Any] = {
    "schema": {"type": "json_schema", "schema": json.dumps(SCHEMA)},
    "partition_strategy": "hash",
    "partition_key_fields": ["key"],
    "default_statistic": {"read_parallelism": 3, "write_parallelism": 3},
}


def huge(*more: dict[str, Any]) -> bytes:
    """Some 16 MiB."""
    events = [{"n": n, "key": n % 50, "pad": PAD} for n in range(COUNT)]
    return json.dumps([*events, *more]).encode()


async def bytes_held() -> float | None:
    return REGISTRY.get_sample_value("meantime_http_body_bytes")


async def nothing_is_held() -> bool:
    return await bytes_held() == 0


@pytest_asyncio.fixture(scope="module")
async def place(services: Any) -> AsyncIterator[Place]:
    async with open_place(services) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def node(place: Place) -> AsyncIterator[Node]:
    async with open_node(place) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def client(node: Node) -> AsyncIterator[httpx.AsyncClient]:
    async with node.client() as opened:
        yield opened


async def test_it_is_written_once_and_in_order_while_others_are_answered(
    client: httpx.AsyncClient, node: Node, place: Place
) -> None:
    name, other = await new_event_type(client, **DECLARED), await new_event_type(client)
    posting = asyncio.create_task(client.post(f"/event-types/{name}/events", content=huge(), timeout=300))
    beside = 0
    while not posting.done():
        answer = await client.post(f"/event-types/{other}/events", json=[{"n": beside}], timeout=300)
        assert answer.status_code == 200
        beside += 1
    assert (await posting).status_code == 200
    found = await numbers_of(place, node, name)
    assert sorted(n for partition in found for n in partition) == list(range(COUNT))
    assert all(partition == sorted(partition) for partition in found)
    assert await numbers_of(place, node, other) == [list(range(beside))]
    await eventually(nothing_is_held)


async def test_if_its_last_event_is_invalid_nothing_is_written(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    name = await new_event_type(client, **DECLARED)
    answer = await client.post(f"/event-types/{name}/events", content=huge({"n": "no number", "key": 1}), timeout=300)
    assert answer.status_code == 422
    items = answer.json()
    assert [item["publishing_status"] for item in items] == ["aborted"] * COUNT + ["failed"]
    assert {item["step"] for item in items} == {"validating"}
    assert await numbers_of(place, node, name) == [[], [], []]
    await eventually(nothing_is_held)


async def test_a_client_that_goes_in_the_middle_writes_nothing_and_holds_nothing(
    client: httpx.AsyncClient, node: Node, place: Place
) -> None:
    name, content, address = await new_event_type(client, **DECLARED), huge(), urlsplit(node.url)
    _, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"POST /event-types/{name}/events HTTP/1.1\r\nhost: x\r\ncontent-length: {len(content)}\r\n\r\n".encode())
    writer.write(content[: len(content) // 2])
    await writer.drain()
    await eventually(bytes_held)
    writer.transport.abort()
    await eventually(nothing_is_held)
    assert (await client.post(f"/event-types/{name}/events", json=[{"n": 1, "key": 1}])).status_code == 200
    assert sorted(await numbers_of(place, node, name)) == [[], [], [1]]
