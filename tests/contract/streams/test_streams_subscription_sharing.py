"""Subscriptions over real services, on two nodes: balancing, hand-over, resets, statistics."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import UUID

import httpx
import pytest
import streams_world
from streams_subscribers import assigned, commit, committed, open_two_readers, streaming, subscribe, until_shared
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


async def test_partitions_are_shared_by_streams_on_all_nodes(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=4)
    id = await subscribe(client, orders)
    async with streaming(client, id) as first:
        await until_shared(client, id, [4])
        async with streaming(other, id) as second:
            shared = await until_shared(client, id, [2, 2])
            assert set(shared.values()) == {first.stream_id, second.stream_id}
            for partition, stream_id in shared.items():
                await orders.write(int(partition), partition=int(partition))
                reader = first if stream_id == first.stream_id else second
                batch = await reader.batch()
                assert batch["cursor"]["partition"] == partition
                assert (await commit(client, id, stream_id, batch["cursor"])).status_code == 204
        await until_shared(other, id, [4])


async def test_a_partition_is_handed_over_when_it_is_committed(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=2)
    await orders.write(1)
    await orders.write(2, partition=1)
    id = await subscribe(client, orders)
    async with streaming(client, id) as first:
        batches = [await first.batch(), await first.batch()]
        async with streaming(other, id) as second:
            async with asyncio.timeout(60):
                while len(await assigned(client, id)) != 1:
                    pass
            stats = (await client.get(f"/subscriptions/{id}/stats")).json()["items"][0]["partitions"]
            assert sorted(one["state"] for one in stats) == ["assigned", "reassigning"]
            assert {one["stream_id"] for one in stats} == {first.stream_id}
            for batch in batches:
                assert (await commit(client, id, first.stream_id, batch["cursor"])).status_code == 204
            shared = await until_shared(client, id, [1, 1])
            moved = next(partition for partition, stream in shared.items() if stream == second.stream_id)
            await orders.write(3, partition=int(moved))
            assert await second.numbers(1) == [3]


async def test_a_partition_is_handed_over_uncommitted_after_the_timeout_and_goes_on_from_the_last_commit(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=2)
    await orders.write(1, 2)
    await orders.write(11, 12, partition=1)
    id = await subscribe(client, orders)
    async with streaming(client, id, commit_timeout=2) as first:
        seen = {batch["cursor"]["partition"]: batch for batch in [await first.batch() for _ in range(4)]}
        async with streaming(other, id) as second:
            batch = await second.batch()
            assert batch["events"][0]["n"] in (1, 11)
            late = await commit(client, id, first.stream_id, seen[batch["cursor"]["partition"]]["cursor"])
            assert late.status_code == 422


async def test_a_reader_that_goes_gives_its_partitions_back_at_once(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=2)
    await orders.write(1, 2)
    await orders.write(11, 12, partition=1)
    id = await subscribe(client, orders)
    async with AsyncExitStack() as opened:
        async with streaming(client, id, commit_timeout=60) as first:
            sent = [(await first.batch())["cursor"] for _ in range(4)]
            done = next(cursor for cursor in sent if cursor["offset"] == str(Cursor(1, 0)))
            assert (await commit(client, id, first.stream_id, done)).status_code == 204
            second = await opened.enter_async_context(streaming(other, id))
        async with asyncio.timeout(45):  # less than its time to commit
            got = sorted(await second.numbers(3))
        assert got == ([2, 11, 12] if done["partition"] == "0" else [1, 2, 12])
        assert {*(await until_shared(client, id, [2])).values()} == {second.stream_id}
        assert (await commit(client, id, first.stream_id, sent[-1])).status_code == 422


async def test_a_reader_that_has_read_to_its_limit_is_waited_for(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    await orders.write(1, 2)
    id = await subscribe(client, orders)
    async with streaming(client, id, stream_limit=1, commit_timeout=60) as first:
        (batch,) = await first.rest()
    async with streaming(other, id, batch_flush_timeout=1) as second:
        stats = (await client.get(f"/subscriptions/{id}/stats")).json()["items"][0]["partitions"]
        assert [one["stream_id"] for one in stats] == [first.stream_id]
        assert (await commit(other, id, first.stream_id, batch["cursor"])).status_code == 204
        assert await second.numbers(1) == [2]


async def test_there_are_no_more_slots_than_partitions(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=2)
    id = await subscribe(client, orders)
    async with streaming(client, id), streaming(other, id):
        for asked in (client, other):
            refused = await asked.get(f"/subscriptions/{id}/events")
            assert refused.status_code == 409
            assert refused.headers["Content-Type"] == "application/problem+json"
    async with asyncio.timeout(60):
        while (await client.get(f"/subscriptions/{id}/events", params={"stream_timeout": 1})).status_code == 409:
            pass


async def test_chosen_partitions_are_taken_from_others_and_kept(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=3)
    id = await subscribe(client, orders)
    chosen = {"partitions": [{"event_type": orders.name, "partition": "1"}]}
    async with streaming(client, id) as automatic:
        await until_shared(client, id, [3])
        async with streaming(other, id, chosen) as direct:
            shared = await until_shared(client, id, [1, 2])
            assert shared == {"0": automatic.stream_id, "1": direct.stream_id, "2": automatic.stream_id}
            stats = (await client.get(f"/subscriptions/{id}/stats")).json()["items"][0]["partitions"]
            assert [one["assignment_type"] for one in stats] == ["auto", "direct", "auto"]
            refused = await client.post(f"/subscriptions/{id}/events", json=chosen)
            assert refused.status_code == 409
    wrong = {"partitions": [{"event_type": orders.name, "partition": "3"}]}
    assert (await client.post(f"/subscriptions/{id}/events", json=wrong)).status_code == 422


async def test_several_event_types_are_read_in_one_stream(world: World, client: httpx.AsyncClient) -> None:
    one, two = await world.event_type(), await world.event_type()
    await one.write(1)
    await two.write(2)
    id = await subscribe(client, one, two)
    async with streaming(client, id) as reader:
        batches = [await reader.batch(), await reader.batch()]
        assert {batch["cursor"]["event_type"] for batch in batches} == {one.name, two.name}
        done = await commit(client, id, reader.stream_id, *[batch["cursor"] for batch in batches])
        assert done.status_code == 204


async def test_a_client_that_does_not_read_keeps_nothing(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    await orders.write_raw([b'{"n":%d,"filler":"%b"}' % (number, b"x" * 500_000) for number in range(40)])
    id = await subscribe(client, orders)
    async with streaming(client, id, max_uncommitted_events=100, commit_timeout=1):
        async with asyncio.timeout(60):
            while await assigned(other, id):
                pass
        async with streaming(other, id) as second:
            assert await second.numbers(2) == [0, 1]


# Resets and statistics


async def test_a_reset_ends_streams_and_moves_the_cursors(
    world: World, client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    await orders.write(1, 2, 3)
    id = await subscribe(client, orders)
    place = {"event_type": orders.name, "partition": "0"}
    async with streaming(client, id) as reader:
        assert await reader.numbers(3) == [1, 2, 3]
        reset = await other.patch(f"/subscriptions/{id}/cursors", json={"items": [place | {"offset": str(Cursor(1, 0))}]})
        assert reset.status_code == 204, reset.text
        assert await reader.rest() == []
    assert await committed(client, id) == {(orders.name, "0"): str(Cursor(1, 0))}
    async with streaming(client, id) as reader:
        assert await reader.numbers(2) == [2, 3]
        await client.patch(f"/subscriptions/{id}/cursors", json={"items": [place | {"offset": "BEGIN"}]})
    async with streaming(client, id) as reader:
        assert await reader.numbers(3) == [1, 2, 3]
    for offset in ("x", str(Cursor(1, 77)), str(Cursor(5, 0))):
        refused = await client.patch(f"/subscriptions/{id}/cursors", json={"items": [place | {"offset": offset}]})
        assert refused.status_code == 422
    assert (await client.patch(f"/subscriptions/{id}/cursors", json={})).status_code == 422


async def test_while_cursors_are_reset_nothing_else_begins(
    world: World, nodes: list[Served], client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type()
    id = await subscribe(client, orders)
    begin = {"items": [{"event_type": orders.name, "partition": "0", "offset": "BEGIN"}]}
    assert nodes[0].subscriptions is not None
    async with nodes[0].subscriptions.registry(UUID(id)).reset():
        assert (await other.get(f"/subscriptions/{id}/events")).status_code == 409
        assert (await other.patch(f"/subscriptions/{id}/cursors", json=begin)).status_code == 409
    assert (await other.patch(f"/subscriptions/{id}/cursors", json=begin)).status_code == 204


async def test_an_empty_reset_only_gives_the_cursors_their_first_place(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    id = await subscribe(client, orders, read_from="end")
    assert (await client.patch(f"/subscriptions/{id}/cursors", json={"items": []})).status_code == 204
    assert await committed(client, id) == {(orders.name, "0"): str(Cursor(1, -1))}


async def test_statistics_show_who_reads_what_and_how_far_behind(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type(partitions=2)
    await orders.write(1, 2, 3)
    id = await subscribe(client, orders)
    fresh = (await client.get(f"/subscriptions/{id}/stats")).json()
    assert fresh == {
        "items": [
            {
                "event_type": orders.name,
                "partitions": [{"partition": str(p), "state": "unassigned", "stream_id": ""} for p in range(2)],
            }
        ]
    }
    async with streaming(client, id) as reader:
        batch = await reader.batch()
        await commit(client, id, reader.stream_id, batch["cursor"])
        await until_shared(client, id, [2])
        [stats] = (await client.get(f"/subscriptions/{id}/stats", params={"show_time_lag": "true"})).json()["items"]
    first, second = stats["partitions"]
    assert (first["unconsumed_events"], second["unconsumed_events"]) == (2, 0)
    assert (first["stream_id"], first["assignment_type"]) == (reader.stream_id, "auto")
    assert 0 <= first["consumer_lag_seconds"] < 60
    assert second["consumer_lag_seconds"] == 0
    shown = (await client.get("/subscriptions", params={"event_type": orders.name, "show_status": "true"})).json()
    assert [one["partition"] for one in shown["items"][0]["status"][0]["partitions"]] == ["0", "1"]


async def test_what_expired_unread_is_stepped_over(world: World, client: httpx.AsyncClient) -> None:
    orders = await world.event_type()
    await orders.write(1, 2)
    id = await subscribe(client, orders)
    await client.patch(f"/subscriptions/{id}/cursors", json={"items": []})
    await orders.switch("two")
    await orders.write(3)
    await orders.clean_up(1)
    async with streaming(client, id) as reader:
        assert await reader.numbers(1) == [3]


@asynccontextmanager
async def failing_claims(world: World, id: str, partition: int, sqlstate: str) -> AsyncIterator[None]:
    """PostgreSQL refuses the claims of one partition, after ZooKeeper has granted them."""
    database = world.store.database
    await database.execute(
        f"""CREATE FUNCTION refuse_claim() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        IF NEW.claim > OLD.claim AND NEW.subscription_id = '{UUID(id)}' AND NEW.partition = {partition} THEN
            RAISE EXCEPTION 'refused' USING ERRCODE = '{sqlstate}';
        END IF;
        RETURN NEW; END $$"""
    )
    await database.execute(
        "CREATE TRIGGER refuse_claim BEFORE UPDATE ON subscription_cursors FOR EACH ROW EXECUTE FUNCTION refuse_claim()"
    )
    try:
        yield
    finally:
        await database.execute("DROP FUNCTION refuse_claim CASCADE")


async def test_a_claim_that_fails_in_the_middle_is_given_back_and_made_again(
    world: World, nodes: list[Served], client: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=3)
    id = await subscribe(client, orders)
    for partition in range(3):
        await orders.write(partition, partition=partition)
    subscriptions = nodes[0].subscriptions
    session_id = subscriptions.session.id
    async with AsyncExitStack() as opened:
        async with failing_claims(world, id, 1, sqlstate="57014"):
            stream = await opened.enter_async_context(streaming(client, id, batch_flush_timeout=1))
            assert sorted(await stream.numbers(2)) == [0, 2]
            for _ in range(2):
                await stream.line()
        assert await stream.numbers(1) == [1]
    assert subscriptions.session.id == session_id


async def test_a_stream_that_fails_gives_up_everything_it_has(
    world: World, nodes: list[Served], client: httpx.AsyncClient, other: httpx.AsyncClient
) -> None:
    orders = await world.event_type(partitions=3)
    id = await subscribe(client, orders)
    session_id = nodes[0].subscriptions.session.id
    async with failing_claims(world, id, 2, sqlstate="22012"), streaming(client, id, batch_flush_timeout=1) as stream:
        await stream.rest()
    async with streaming(other, id) as stream:
        assert set((await until_shared(other, id, [3])).values()) == {stream.stream_id}
    assert nodes[0].subscriptions.session.id == session_id
