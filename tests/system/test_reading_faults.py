"""Readers on real nodes: switches that they do not notice, nodes that freeze or die under them."""

import asyncio
import json
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

import httpx
import pytest

from conftest import Breakable

pytestmark = pytest.mark.lane("streams")

PARTITIONS = 2


@pytest.fixture(scope="module")
def stack(breakable: Breakable) -> Breakable:
    return breakable


class Orders:
    """An event type of its own, and numbered events in it."""

    def __init__(self, client: httpx.AsyncClient, url: str) -> None:
        self.name = f"orders.{uuid4().hex[:8]}"
        self.acked: set[int] = set()
        self._client = client
        self._url = f"{url}/event-types"

    async def create(self) -> None:
        parallelism = {"read_parallelism": PARTITIONS, "write_parallelism": PARTITIONS}
        document = {
            "name": self.name,
            "owning_application": "tests",
            "category": "undefined",
            "schema": {"type": "json_schema", "schema": "{}"},
            "default_statistic": parallelism | {"messages_per_minute": 1, "message_size": 10},
        }
        assert (await self._client.post(self._url, json=document)).status_code == 201

    async def publish(self, first: int, count: int) -> None:
        numbers = range(first, first + count)
        published = await self._client.post(f"{self._url}/{self.name}/events", json=[{"n": n} for n in numbers])
        assert published.status_code == 200, published.text
        self.acked |= set(numbers)

    async def publish_until(self, stop: asyncio.Event) -> None:
        first = 0
        while not stop.is_set():
            await self.publish(first, 10)
            first += 10

    async def switch(self, storage_id: str) -> None:
        switched = await self._client.post(f"{self._url}/{self.name}/timelines", json={"storage_id": storage_id})
        assert switched.status_code == 201, switched.text


class Stream:
    """A client of a subscription that reads, and commits when it is told to."""

    def __init__(self, client: httpx.AsyncClient, id: str, response: httpx.Response) -> None:
        self.stream_id = response.headers["X-Nakadi-StreamId"]
        self._client = client
        self._path = f"/subscriptions/{id}/cursors"
        self._lines = response.aiter_lines()

    async def batch(self, wait_for: float = 60.0) -> dict[str, Any]:
        async with asyncio.timeout(wait_for):
            while "events" not in (line := json.loads(await anext(self._lines))):
                pass
        return line

    async def commit(self, url: str, cursor: dict[str, str]) -> int:
        headers = {"X-Nakadi-StreamId": self.stream_id}
        return (await self._client.post(url + self._path, json={"items": [cursor]}, headers=headers)).status_code

    async def ended(self, wait_for: float = 60.0) -> None:
        async with asyncio.timeout(wait_for):
            with suppress(httpx.HTTPError):
                async for _ in self._lines:
                    pass


@asynccontextmanager
async def streaming(client: httpx.AsyncClient, url: str, id: str, **params: Any) -> AsyncIterator[Stream]:
    path = f"{url}/subscriptions/{id}/events"
    async with client.stream("GET", path, params={"batch_flush_timeout": 1} | params) as response:
        assert response.status_code == 200, await response.aread()
        yield Stream(client, id, response)


async def subscribe(client: httpx.AsyncClient, url: str, orders: Orders) -> str:
    document = {"owning_application": uuid4().hex, "event_types": [orders.name], "read_from": "begin"}
    return (await client.post(f"{url}/subscriptions", json=document)).json()["id"]


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(timeout=60.0) as client:
        yield client


async def test_readers_do_not_notice_switches(stack: Breakable, client: httpx.AsyncClient) -> None:
    one, two, _ = stack.urls
    orders = Orders(client, one)
    await orders.create()
    id = await subscribe(client, two, orders)
    seen: list[tuple[str, int]] = []
    shared: list[int] = []
    stop = asyncio.Event()
    expected: list[int] = []

    async def follow() -> None:
        cursors = json.dumps([{"partition": str(p), "offset": "BEGIN"} for p in range(PARTITIONS)])
        path, params = f"{two}/event-types/{orders.name}/events", {"batch_limit": 20, "batch_flush_timeout": 1}
        async with client.stream("GET", path, params=params, headers={"X-Nakadi-Cursors": cursors}) as response:
            async for text in response.aiter_lines():
                line = json.loads(text)
                seen.extend((line["cursor"]["partition"], event["n"]) for event in line.get("events", ()))
                if expected and len(seen) >= expected[0]:
                    return

    async def share() -> None:
        async with streaming(client, one, id, batch_limit=20, max_uncommitted_events=200) as stream:
            while not expected or len(shared) < expected[0]:
                batch = await stream.batch()
                shared.extend(event["n"] for event in batch["events"])
                assert await stream.commit(two, batch["cursor"]) == 204

    readers = [asyncio.create_task(follow()), asyncio.create_task(share())]
    publishing = asyncio.create_task(orders.publish_until(stop))
    for storage_id in ("kafka-2", "default", "kafka-2"):
        await asyncio.sleep(0.5)
        await orders.switch(storage_id)
    stop.set()
    await publishing
    expected.append(len(orders.acked) + 2)
    await orders.publish(1_000_000, 2)
    async with asyncio.timeout(60):
        await asyncio.gather(*readers)
    assert sorted(number for _, number in seen) == sorted(orders.acked)
    assert sorted(shared) == sorted(orders.acked)
    for partition in range(PARTITIONS):
        mine = [number for where, number in seen if where == str(partition)]
        assert mine == sorted(mine)


async def test_a_frozen_node_loses_its_partitions_and_its_stream_cannot_commit_when_it_thaws(
    stack: Breakable, client: httpx.AsyncClient
) -> None:
    one, two, _ = stack.urls
    orders = Orders(client, one)
    await orders.create()
    await orders.publish(0, 20)
    id = await subscribe(client, one, orders)
    async with streaming(client, two, id, max_uncommitted_events=100) as frozen:
        seen = {batch["cursor"]["partition"]: batch["cursor"] for batch in [await frozen.batch() for _ in range(20)]}
        stack.send("node-2", signal.SIGSTOP)
        try:
            async with streaming(client, one, id, max_uncommitted_events=100) as next_one:
                again = [await next_one.batch() for _ in range(20)]
                assert {batch["events"][0]["n"] for batch in again} == orders.acked
                for cursor in seen.values():
                    assert await frozen.commit(one, cursor) == 422
                assert await next_one.commit(one, again[-1]["cursor"]) == 204
        finally:
            stack.send("node-2", signal.SIGCONT)
        await frozen.ended()
    assert await frozen.commit(two, next(iter(seen.values()))) == 422


async def test_what_a_killed_node_had_sent_can_be_committed_elsewhere_until_somebody_else_reads_it(
    stack: Breakable, client: httpx.AsyncClient
) -> None:
    one, two, _ = stack.urls
    orders = Orders(client, one)
    await orders.create()
    await orders.publish(0, 20)
    id = await subscribe(client, one, orders)
    async with streaming(client, two, id, max_uncommitted_events=100) as killed:
        batches = [await killed.batch() for _ in range(20)]
        stack.send("node-2")
        await killed.ended()
    committed = {batch["cursor"]["partition"]: batch["cursor"] for batch in batches[:10]}
    for cursor in committed.values():
        assert await killed.commit(one, cursor) == 204
    done = {batch["events"][0]["n"] for batch in batches if _is_before(batch["cursor"], committed)}
    async with streaming(client, one, id, max_uncommitted_events=100) as next_one:
        again = [(await next_one.batch())["events"][0]["n"] for _ in range(20 - len(done))]
    assert sorted(again) == sorted(orders.acked - done)


def _is_before(cursor: dict[str, str], committed: dict[str, dict[str, str]]) -> bool:
    last = committed.get(cursor["partition"])
    return last is not None and cursor["offset"] <= last["offset"]
