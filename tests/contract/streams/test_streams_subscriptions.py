"""Subscriptions over real services, on two nodes: their life, reading, commits and timeouts."""

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
import streams_world
from streams_subscribers import commit, committed, open_two_readers, streaming, subscribe, until_shared
from streams_world import Served, World

from meantime.streams.cursors import Cursor

world = streams_world.world


@pytest.fixture(scope="module")
async def nodes(services, world: World) -> AsyncIterator[list[Served]]:
    async with open_two_readers(services, world) as both:
        yield both


@pytest.fixture
async def client(nodes: list[Served]) -> AsyncIterator[httpx.AsyncClient]:
    async with nodes[0].client() as client:
        yield client


@pytest.fixture
async def other(nodes: list[Served]) -> AsyncIterator[httpx.AsyncClient]:
    """A client of the other node."""
    async with nodes[1].client() as client:
        yield client


# Life


async def test_a_subscription_is_made_once(world: World, client: httpx.AsyncClient) -> None:
    one, two = await world.event_type(), await world.event_type()
    document = {"owning_application": f"app-{uuid4().hex}", "event_types": [two.name, one.name], "read_from": "BEGIN"}
    first = await client.post("/subscriptions", json=document | {"id": None, "unknown": 1})
    again = await client.post("/subscriptions", json=document | {"event_types": [one.name, two.name], "read_from": "end"})
    another = await client.post("/subscriptions", json=document | {"consumer_group": "other"})
    assert [first.status_code, again.status_code, another.status_code] == [201, 200, 201]
    made = first.json()
    assert made == again.json()
    assert made["event_types"] == sorted([one.name, two.name])
    assert (made["consumer_group"], made["read_from"]) == ("default", "begin")
    assert made["created_at"].endswith("Z")
    assert first.headers["Location"] == f"/subscriptions/{made['id']}"
    assert (await client.get(f"/subscriptions/{made['id']}")).json() == made
    assert UUID(made["id"]) != UUID(another.json()["id"])


@pytest.mark.parametrize(
    "wrong",
    [
        {"event_types": []},
        {"event_types": ["nobody"]},
        {"event_types": ["no\x00body"]},
        {"event_types": None},
        {"owning_application": ""},
        {"owning_application": None},
        {"read_from": "middle"},
        {"read_from": "cursors"},
        {"consumer_group": ""},
    ],
)
async def test_nonsense_cannot_be_subscribed_to(world: World, client: httpx.AsyncClient, wrong: dict[str, Any]) -> None:
    orders = await world.event_type()
    document = {"owning_application": "app", "event_types": [orders.name]}
    refused = await client.post("/subscriptions", json=document | wrong)
    assert refused.status_code == 422, refused.text


async def test_what_is_no_json_object_is_malformed(client: httpx.AsyncClient) -> None:
    assert (await client.post("/subscriptions", content=b"{")).status_code == 400
    assert (await client.post("/subscriptions", json=[])).status_code == 400


async def test_unknown_subscriptions_are_not_found(client: httpx.AsyncClient) -> None:
    for id in (str(uuid4()), "nonsense"):
        headers = {"X-Nakadi-StreamId": str(uuid4())}
        answers = [
            await client.get(f"/subscriptions/{id}"),
            await client.delete(f"/subscriptions/{id}"),
            await client.get(f"/subscriptions/{id}/events"),
            await client.get(f"/subscriptions/{id}/cursors"),
            await client.post(f"/subscriptions/{id}/cursors", json={"items": []}, headers=headers),
            await client.patch(f"/subscriptions/{id}/cursors", json={"items": []}),
            await client.get(f"/subscriptions/{id}/stats"),
        ]
        assert [answer.status_code for answer in answers] == [404] * 7


async def test_subscriptions_are_listed_newest_first_page_by_page(world: World, client: httpx.AsyncClient) -> None:
    one, two = await world.event_type(), await world.event_type()
    ids = [await subscribe(client, one) for _ in range(3)]
    both = await subscribe(client, one, two)
    first = (await client.get("/subscriptions", params={"event_type": one.name, "limit": 2})).json()
    assert [item["id"] for item in first["items"]] == [both, ids[2]]
    assert "prev" not in first["_links"]
    second = (await client.get(first["_links"]["next"]["href"])).json()
    assert [item["id"] for item in second["items"]] == [ids[1], ids[0]]
    assert "next" not in second["_links"]
    assert (await client.get(second["_links"]["prev"]["href"])).json() == first
    filtered = (await client.get("/subscriptions", params={"event_type": [one.name, two.name]})).json()
    assert [item["id"] for item in filtered["items"]] == [both]
    for wrong in ({"limit": 0}, {"limit": 1001}, {"offset": -1}, {"limit": "x"}):
        assert (await client.get("/subscriptions", params=wrong)).status_code == 400


async def test_a_deleted_subscription_ends_its_streams(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    await orders.write(1)
    id = await subscribe(client, orders)
    async with streaming(client, id) as reader:
        await reader.numbers(1)
        assert (await other.delete(f"/subscriptions/{id}")).status_code == 204
        assert await reader.rest() == []
    assert (await client.get(f"/subscriptions/{id}")).status_code == 404
    assert (await client.delete(f"/subscriptions/{id}")).status_code == 404


async def test_only_the_authorization_of_a_subscription_can_change(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    id = await subscribe(client, orders)
    document = (await client.get(f"/subscriptions/{id}")).json()
    everybody = [{"data_type": "*", "value": "*"}]
    changed = document | {"authorization": {"admins": everybody, "readers": everybody}}
    assert (await client.put(f"/subscriptions/{id}", json=changed)).status_code == 204
    assert (await client.get(f"/subscriptions/{id}")).json()["authorization"] == changed["authorization"]
    assert (await client.put(f"/subscriptions/{id}", json=document | {"consumer_group": "x"})).status_code == 422


# Reading and committing


async def test_events_are_read_and_committed_once(world: World, client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(1, 2, 3)
    id = await subscribe(client, orders)
    assert (await client.get(f"/subscriptions/{id}/cursors")).json() == {"items": []}
    async with streaming(client, id, commit_timeout=10) as reader:
        first, second = await reader.batch(), await reader.batch()
        assert set(first["cursor"]) == {"partition", "offset", "event_type", "cursor_token"}
        assert first["cursor"]["event_type"] == orders.name
        UUID(first["cursor"]["cursor_token"])
        done = await commit(other, id, reader.stream_id, second["cursor"])
        assert (done.status_code, done.content) == (204, b"")
        late = await commit(client, id, reader.stream_id, first["cursor"], second["cursor"])
        assert late.status_code == 200
        assert [item["result"] for item in late.json()["items"]] == ["outdated", "outdated"]
        assert late.json()["items"][0]["cursor"] == first["cursor"]
    assert await committed(client, id) == {(orders.name, "0"): str(Cursor(1, 1))}
    async with streaming(other, id, commit_timeout=1) as reader:
        assert await reader.numbers(1) == [3]


async def test_a_stream_pauses_until_it_hears_of_a_commit_wherever_that_was_made(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    await orders.write(*range(30))
    id = await subscribe(client, orders)
    async with streaming(client, id, batch_flush_timeout=1) as reader:
        for start in (0, 10, 20):
            assert await reader.numbers(10) == list(range(start, start + 10))
            silent = await reader.line()
            assert "events" not in silent
            assert (await commit(other, id, reader.stream_id, silent["cursor"])).status_code == 204


async def test_batches_follow_the_limits(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(*range(25))
    id = await subscribe(client, orders)
    body = {"batch_limit": 10, "max_uncommitted_events": 100, "stream_limit": 23, "commit_timeout": 1}
    async with streaming(client, id, body) as reader:
        assert [len(line["events"]) for line in await reader.rest()] == [10, 10, 3]


async def test_a_commit_is_taken_after_a_disconnect_until_the_timeout(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    await orders.write(1, 2)
    id = await subscribe(client, orders)
    async with streaming(client, id, commit_timeout=10) as reader:
        cursor = (await reader.batch())["cursor"]
    assert (await commit(other, id, reader.stream_id, cursor)).status_code == 204
    async with streaming(other, id, commit_timeout=1) as reader:
        batch = await reader.batch()
        assert [event["n"] for event in batch["events"]] == [2]
    async with streaming(client, id, commit_timeout=1) as later:
        assert await later.numbers(1) == [2]
        assert (await commit(client, id, reader.stream_id, batch["cursor"])).status_code == 422
    assert await committed(client, id) == {(orders.name, "0"): str(Cursor(1, 0))}


async def test_a_stream_that_commits_nothing_is_ended_and_its_events_come_again(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    await orders.write(1, 2)
    id = await subscribe(client, orders)
    async with streaming(client, id, commit_timeout=1) as reader:
        assert await reader.numbers(2) == [1, 2]
        *_, last = await reader.rest()
    assert last["info"] == {"debug": "Commit timeout reached"}
    assert (last["cursor"]["event_type"], last["cursor"]["partition"]) == (orders.name, "0")
    assert "events" not in last
    async with streaming(other, id, commit_timeout=1) as reader:
        assert await reader.numbers(2) == [1, 2]


async def test_commits_need_a_stream_that_holds_the_partition(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(1)
    id = await subscribe(client, orders)
    async with streaming(client, id) as reader:
        cursor = (await reader.batch())["cursor"]
        missing = await client.post(f"/subscriptions/{id}/cursors", json={"items": [cursor]})
        assert missing.status_code == 400
        for stream_id in (str(uuid4()), "nonsense"):
            assert (await commit(client, id, stream_id, cursor)).status_code == 422
        for wrong in (
            {"offset": str(Cursor(1, 5))},
            {"offset": "x"},
            {"offset": "BEGIN"},
            {"partition": "7"},
            {"event_type": "nobody"},
            {"offset": str(Cursor(9, 0))},
        ):
            assert (await commit(client, id, reader.stream_id, cursor | wrong)).status_code == 422, wrong
        headers = {"X-Nakadi-StreamId": reader.stream_id}
        assert (await client.post(f"/subscriptions/{id}/cursors", json={}, headers=headers)).status_code == 422
        assert (await client.post(f"/subscriptions/{id}/cursors", content=b"{", headers=headers)).status_code == 400
        assert (await commit(client, id, reader.stream_id)).status_code == 204
        assert await committed(client, id) == {(orders.name, "0"): str(Cursor(1, -1))}
        assert (await commit(client, id, reader.stream_id, cursor)).status_code == 204


@pytest.mark.parametrize(
    ("params", "status"),
    [
        ({"batch_limit": 0}, 422),
        ({"max_uncommitted_events": 0}, 422),
        ({"commit_timeout": 61}, 422),
        ({"commit_timeout": -1}, 422),
        ({"batch_limit": 10, "stream_limit": 5}, 422),
        ({"batch_limit": "x"}, 400),
    ],
)
async def test_contradictory_limits_are_refused(
    world: World, client: httpx.AsyncClient, params: dict[str, Any], status: int
) -> None:
    id = await subscribe(client, await world.event_type())
    assert (await client.get(f"/subscriptions/{id}/events", params=params)).status_code == status
    assert (await client.post(f"/subscriptions/{id}/events", json=params)).status_code == status


async def test_a_subscription_begins_where_it_was_told_to(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(partitions=2)
    await orders.write(1, 2)
    await orders.write(11, partition=1)
    at_the_end = await subscribe(client, orders, read_from="end")
    cursors = [
        {"event_type": orders.name, "partition": "0", "offset": str(Cursor(1, 0))},
        {"event_type": orders.name, "partition": "1", "offset": "BEGIN"},
    ]
    somewhere = await subscribe(client, orders, read_from="CURSORS", initial_cursors=cursors)
    async with streaming(client, at_the_end) as reader:
        await until_shared(client, at_the_end, [2])
        await orders.write(3)
        assert await reader.numbers(1) == [3]
    async with streaming(client, somewhere) as reader:
        assert sorted(await reader.numbers(3)) == [2, 3, 11]
    document = {"owning_application": "app", "event_types": [orders.name], "read_from": "cursors"}
    for wrong in (cursors[:1], [*cursors, cursors[0]], [cursors[0], cursors[1] | {"offset": str(Cursor(1, 99))}]):
        refused = await client.post("/subscriptions", json=document | {"initial_cursors": wrong})
        assert refused.status_code == 422


async def test_a_subscription_goes_through_switches(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(0, 1)
    id = await subscribe(client, orders)
    async with streaming(client, id, max_uncommitted_events=100) as reader:
        assert await reader.numbers(2) == [0, 1]
        for number, storage in enumerate(("two", "one", "two"), start=2):
            await orders.switch(storage)
            await orders.write(number)
            batch = await reader.batch()
            assert batch["cursor"]["offset"] == str(Cursor(number, 0))
            assert (await commit(client, id, reader.stream_id, batch["cursor"])).status_code == 204
    assert await committed(client, id) == {(orders.name, "0"): str(Cursor(4, 0))}


async def test_a_subscription_follows_a_fake_timeline_into_its_first_switch(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(adopt=True)
    await orders.write(0, 1)
    id = await subscribe(client, orders)
    async with streaming(client, id) as reader:
        first = await reader.batch()
        assert first["cursor"]["offset"] == "000000000000000000"
        assert (await commit(client, id, reader.stream_id, first["cursor"])).status_code == 204
        assert await committed(client, id) == {(orders.name, "0"): "000000000000000000"}
        second = await reader.batch()
        await orders.switch("two")
        await orders.write(2)
        third = await reader.batch()
        assert third["cursor"]["offset"] == str(Cursor(2, 0))
        late = await commit(client, id, reader.stream_id, second["cursor"], first["cursor"])
        assert [item["result"] for item in late.json()["items"]] == ["committed", "outdated"]
        assert (await commit(client, id, reader.stream_id, third["cursor"])).status_code == 204
