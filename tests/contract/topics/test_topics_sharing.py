"""Several nodes and consumers at one topic, on one real PostgreSQL: who gets what, and who hears of it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import httpx
import psycopg
import pytest
import pytest_asyncio
from topics_calls import claim, create, new_topic, operate, pull
from topics_consumer import push
from topics_nodes import TopicsNode, open_two_nodes

from conftest import Services
from meantime.errors import StorageUnavailable
from meantime.topics.model import NewMessage
from meantime.topics.storage.messages import FIRST_MS, LeaseDemand, MessageStore, Window
from meantime.topics.storage.notifications import Notifications


@pytest_asyncio.fixture(scope="module")
async def nodes(services: Services) -> AsyncIterator[list[TopicsNode]]:
    async with open_two_nodes(services.postgres) as both:
        yield both


@pytest.fixture
def http(nodes: list[TopicsNode]) -> httpx.AsyncClient:
    return nodes[0].http


@pytest.fixture
def elsewhere(nodes: list[TopicsNode]) -> httpx.AsyncClient:
    return nodes[1].http


@pytest_asyncio.fixture
async def topic(http: httpx.AsyncClient) -> str:
    return await new_topic(http)


@pytest.mark.parametrize("exclusive", [True, False])
async def test_two_who_reach_for_the_same_messages_never_lease_one_twice(
    nodes: list[TopicsNode], topic: str, exclusive: bool
) -> None:
    await create(nodes[0].http, topic, *[f"m{n:03}" for n in range(400)])
    now_ms = nodes[0].topics.clock.now_ms()
    found = await nodes[0].topics.catalog.get(topic)

    async def take_all(node: TopicsNode) -> list[str]:
        taken: list[str] = []
        for _ in range(60):
            window = Window(FIRST_MS, now_ms, None, exclusive)
            leases = await node.topics.messages.lease_due(found, [LeaseDemand("c", 60_000, 10)], [0] * 10, window, now_ms)
            assert all(lease.version == 2 for lease in leases)
            taken += [lease.id for lease in leases]
        return taken

    shares = await asyncio.gather(*(take_all(node) for node in nodes))
    assert sorted(shares[0] + shares[1]) == [f"m{n:03}" for n in range(400)]


async def test_what_turns_up_late_is_found_although_nobody_told_of_it(nodes: list[TopicsNode], topic: str) -> None:
    topics = nodes[0].topics
    async with push(nodes[0].http, topic, "c") as consumer:
        await create(nodes[0].http, topic, "first")
        await consumer.take(1)
        now_ms = topics.clock.now_ms()
        late = NewMessage("late", now_ms - 5000, 0, "owners", True, b"1")
        assert await topics.messages.insert(await topics.catalog.get(topic), [late], now_ms) == {"late"}
        # The whole past is scanned every second, or more seldom where a scan is slow, as on a busy machine.
        assert [lease["id"] for lease in await consumer.take(1)] == ["late"]


async def test_a_lease_freed_elsewhere_makes_room_after_another_node_has_extended_it(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient
) -> None:
    topic = await new_topic(http)
    await create(http, topic, "a", "b")
    async with push(http, topic, "c", buffer=1) as consumer:
        (first,) = await consumer.take(1)
        (extended,) = await operate(elsewhere, topic, "extend", claim(first, after_ms=60_000))
        await asyncio.sleep(0.3)
        assert await consumer.delete(extended, via=elsewhere) == ["ok"]
        assert [lease["id"] for lease in await consumer.take(1)] == ["b"]


@pytest.mark.parametrize("told", [True, False], ids=["told", "not told"])
async def test_what_becomes_of_leases_at_another_node_at_once_counts_where_the_stream_is(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch, told: bool
) -> None:
    """The other node has not heard of the stream yet, or no notification ever arrives."""
    if not told:
        monkeypatch.setattr(Notifications, "send", lambda *_: None)
    for action in ("extend", "release", "delete"):
        topic = await new_topic(http)
        await create(http, topic, *"abcdef")
        lease_ms = 1500 if action == "extend" else 3_600_000
        async with push(http, topic, "c", buffer=2, lease_ms=lease_ms) as consumer:
            first = await consumer.take(2)
            fields = {} if action == "delete" else {"after_ms": 3_600_000}
            changed = await operate(elsewhere, topic, action, *[claim(lease, **fields) for lease in first])
            assert [one["status"] for one in changed] == ["ok", "ok"]
            if action == "extend":
                await asyncio.sleep(4)
                assert consumer.leases == []
                assert await consumer.delete(*changed, via=elsewhere) == ["ok", "ok"]
            more = await consumer.take(2)
            assert len({lease["id"] for lease in [*first, *more]}) == 4
            await asyncio.sleep(0.3)
            assert consumer.leases == []


async def test_one_look_covers_all_topics_in_which_nothing_happens(
    nodes: list[TopicsNode], monkeypatch: pytest.MonkeyPatch
) -> None:
    http, elsewhere = nodes[0].http, nodes[1].http
    topics = [await new_topic(http) for _ in range(30)]
    looks, upcoming = 0, MessageStore.upcoming

    async def counted(*args: Any) -> Any:
        nonlocal looks
        looks += 1
        return await upcoming(*args)

    async with AsyncExitStack() as opened:
        consumers = [await opened.enter_async_context(push(http, topic, "c")) for topic in topics]
        await asyncio.sleep(2.5)
        monkeypatch.setattr(MessageStore, "upcoming", counted)
        await asyncio.sleep(4)
        assert looks < len(topics)
        for topic, way, after_ms in ((0, http, 0), (1, elsewhere, 0), (2, http, 1300), (3, elsewhere, 2600)):
            await create(way, topics[topic], "m", after_ms=after_ms)
        for consumer in consumers[:4]:
            assert [lease["id"] for lease in await consumer.take(1)] == ["m"]
        found = await nodes[0].topics.catalog.get(topics[4])
        now_ms = nodes[0].topics.clock.now_ms()
        late = NewMessage("late", now_ms - 5000, 0, "owners", True, b"1")
        await nodes[0].topics.messages.insert(found, [late], now_ms)  # and nobody is told
        assert [lease["id"] for lease in await consumers[4].take(1)] == ["late"]
        assert all(consumer.leases == [] for consumer in consumers)


async def test_a_stream_that_could_not_begin_leaves_no_claim_behind(nodes: list[TopicsNode], topic: str) -> None:
    consumers = nodes[0].topics.consumers

    def fail() -> None:
        raise StorageUnavailable("PostgreSQL went away just now")

    usual, consumers.on_change = consumers.on_change, fail
    async with push(nodes[0].http, topic, "c") as first:
        assert first.status == 503
    consumers.on_change = usual
    async with push(nodes[0].http, topic, "c") as second:
        assert second.status == 200


async def test_held_leases_count_against_the_buffer_wherever_they_are_freed(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient
) -> None:
    topic = await new_topic(http)
    await create(http, topic, *[f"m{n:02}" for n in range(20)])
    async with push(http, topic, "c", buffer=3) as consumer:
        first = await consumer.take(3)
        await asyncio.sleep(0.3)
        assert consumer.leases == []
        assert await consumer.delete(first[0]) == ["ok"]
        (fourth,) = await consumer.take(1)
        assert await consumer.delete(first[1], fourth, via=elsewhere) == ["ok", "ok"]
        await consumer.take(2)
        assert len(await pull(elsewhere, topic, "c", limit=2)) == 2
        await asyncio.sleep(0.3)
        assert await consumer.delete(first[2], via=elsewhere) == ["ok"]
        await asyncio.sleep(0.5)
        assert consumer.leases == []


async def test_a_returning_consumer_first_gets_what_it_still_holds(
    http: httpx.AsyncClient, elsewhere: httpx.AsyncClient
) -> None:
    topic = await new_topic(http)
    await create(http, topic, "a", "b", "c")
    async with push(http, topic, "c", buffer=2) as consumer:
        before = await consumer.take(2)
    await asyncio.sleep(0.3)
    async with push(elsewhere, topic, "c", buffer=3) as consumer:
        after = await consumer.take(3)
    assert after[:2] == before
    assert {lease["id"] for lease in after} == {"a", "b", "c"}
    assert after[2]["attempts"] == 1


async def test_a_consumer_has_one_stream_in_the_whole_cluster(http: httpx.AsyncClient, elsewhere: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    async with push(http, topic, "c"):
        for node in (http, elsewhere):
            async with push(node, topic, "c") as second:
                assert second.status == 409
        async with push(elsewhere, topic, "d") as other:
            assert other.status == 200
    for _ in range(300):
        async with push(elsewhere, topic, "c") as again:
            if again.status == 200:
                break
        await asyncio.sleep(0.1)
    assert again.status == 200


async def test_a_slow_consumer_delays_nobody(http: httpx.AsyncClient, elsewhere: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    async with push(http, topic, "slow", buffer=1), push(elsewhere, topic, "quick", buffer=50) as quick:
        await create(http, topic, *[f"m{n}" for n in range(30)])
        # The slow one has one at most, and does nothing with it.
        assert len(await quick.take(29)) == 29


async def test_a_stream_that_is_being_registered_is_not_taken_for_one_that_was_taken_over(
    nodes: list[TopicsNode], topic: str
) -> None:
    here = nodes[0].topics
    topic_id = (await here.catalog.get(topic)).topic_id
    row = "INSERT INTO topic_consumers VALUES (%s, 'c', 'push', 'node-3', 's', 1, 0)"
    async with AsyncExitStack() as opened:
        other = await opened.enter_async_context(await psycopg.AsyncConnection.connect(nodes[0].uri))
        await other.execute(row, (topic_id,))  # and not committed: who registers the same consumer has to wait
        opening = asyncio.create_task(opened.enter_async_context(push(nodes[0].http, topic, "c")))
        for _ in range(3000):
            if here.consumers.stream_here((topic_id, "c")):
                break
            await asyncio.sleep(0.01)
        await here.consumers.run_once()
        await other.rollback()
        consumer = await opening
        await create(nodes[0].http, topic, "m")
        assert [lease["id"] for lease in await consumer.take(1)] == ["m"]


HALVES = [[[0, 31]], [[32, 63]]]


async def test_consumers_are_listed_with_their_slices(http: httpx.AsyncClient, elsewhere: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    await create(http, topic, "a")
    async with push(http, topic, "c1", buffer=7) as consumer, push(elsewhere, topic, "c2"):
        for _ in range(300):
            reports = (await elsewhere.get(f"/topics/{topic}/consumers")).json()["consumers"]
            if [one["buckets"] for one in reports] == HALVES and sum(one["outstanding"] for one in reports):
                break
            await asyncio.sleep(0.1)
        await pull(elsewhere, topic, "c3")
        reports = (await elsewhere.get(f"/topics/{topic}/consumers")).json()["consumers"]
        assert [(one["consumer_id"], one["node_id"], one["mode"]) for one in reports] == [
            ("c1", "node-1", "push"),
            ("c2", "node-2", "push"),
            ("c3", "node-2", "pull"),
        ]
        assert [one["buckets"] for one in reports] == [*HALVES, []]
        assert [one["buffer"] for one in reports] == [7, 100, None]
        assert [one["outstanding"] for one in reports] in ([1, 0, 0], [0, 1, 0])
        if reports[0]["outstanding"]:
            assert [lease["id"] for lease in await consumer.take(1)] == ["a"]
