"""Switching the storage of an event type between two real clusters, with two nodes, while others publish or die."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from confluent_kafka import KafkaError, Producer
from streams_nodes import (
    Node,
    Place,
    body,
    declared,
    eventually,
    new_event_type,
    numbers_of,
    open_node,
    open_nodes,
    open_place,
)

from meantime.coordination.session import SessionOptions, open_session
from meantime.kafka.sealing import Sealer
from meantime.streams.switching import conclusion as switch_conclusion
from meantime.streams.switching import initiator as switch_run
from meantime.streams.switching.acknowledged import StoragePartition
from meantime.streams.switching.model import SwitchState
from meantime.streams.switching.store import Superseded, SwitchStore

pytestmark = pytest.mark.takes(seconds=70)


@pytest_asyncio.fixture(scope="module")
async def place(services: Any) -> AsyncIterator[Place]:
    async with open_place(services) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def nodes(place: Place) -> AsyncIterator[list[Node]]:
    async with open_nodes(place, 2, barrier_for=3.0) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def client(nodes: list[Node]) -> AsyncIterator[httpx.AsyncClient]:
    async with nodes[0].client() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def other(nodes: list[Node]) -> AsyncIterator[httpx.AsyncClient]:
    async with nodes[1].client() as opened:
        yield opened


async def switch(client: httpx.AsyncClient, name: str, storage_id: str = "kafka-2", **more: Any) -> httpx.Response:
    headers = {"Idempotency-Key": more.pop("key")} if "key" in more else {}
    return await client.post(f"/event-types/{name}/timelines", json={"storage_id": storage_id, **more}, headers=headers)


async def version(node: Node) -> int:
    return int((await node.session.get(node.session.layout.version)).data)


async def nothing_is_left(node: Node, name: str) -> None:
    """No lock, no mark, no doomed topic; the active topic takes events."""
    assert name not in await node.session.children(node.session.layout.locked_event_types)
    assert await node.session.children(f"{node.session.root}/switches") == []
    assert await node.database.fetch_all("SELECT * FROM doomed_topics") == []


async def topics_like(node: Node, name: str) -> set[str]:
    found: set[str] = set()
    for storage in await node.streams.storages.all():
        listed = await asyncio.to_thread(node.streams.admins.of(storage)._client.list_topics, timeout=10)
        found |= {topic for topic in listed.topics if topic.startswith(name)}
    return found


async def test_a_switch_closes_the_old_timeline_and_opens_the_next(
    client: httpx.AsyncClient, other: httpx.AsyncClient, nodes: list[Node], place: Place
) -> None:
    name = await new_event_type(client, default_statistic={"read_parallelism": 2, "write_parallelism": 1})
    await client.post(f"/event-types/{name}/events", content=body(*({"n": n} for n in range(20))))
    before = await version(nodes[0])
    answer = await switch(client, name)
    assert answer.status_code == 201
    assert (answer.json()["order"], answer.json()["storage_id"], answer.json()["latest_position"]) == (2, "kafka-2", None)
    assert await version(nodes[0]) == before + 2
    old, new = (await other.get(f"/event-types/{name}/timelines")).json()
    assert new == answer.json()
    assert sum(offset + 1 for offset in old["latest_position"]["offsets"]) == 20
    assert old["cleaned_up_at"] > old["created_at"]
    for who in (client, other):
        assert (await who.post(f"/event-types/{name}/events", content=body({"n": 99}))).status_code == 200
    assert sum(map(len, await numbers_of(place, nodes[0], name))) == 22
    await nothing_is_left(nodes[0], name)
    (progress,) = (await client.get(f"/event-types/{name}/switches")).json()
    assert (progress["state"], progress["owner"], progress["error"]) == ("done", "node-1", None)
    assert progress["stall_ms"] > 0
    assert (await other.get(f"/event-types/{name}/switches/{progress['id']}")).json() == progress


async def test_a_partition_that_was_never_used_ends_at_minus_one(client: httpx.AsyncClient) -> None:
    name = await new_event_type(client, default_statistic={"read_parallelism": 2, "write_parallelism": 1})
    await switch(client, name)
    old, _ = (await client.get(f"/event-types/{name}/timelines")).json()
    assert old["latest_position"] == {"offsets": [-1, -1]}


async def test_a_closed_topic_stays_sealed_for_everybody(client: httpx.AsyncClient, place: Place) -> None:
    name = await new_event_type(client)
    await switch(client, name)
    old, _ = (await client.get(f"/event-types/{name}/timelines")).json()
    heard: list[int] = []
    producer = Producer({"bootstrap.servers": place.kafka[0], "acks": "all", "enable.idempotence": True})
    producer.produce(old["topic"], b"{}", on_delivery=lambda error, _: heard.append(error.code() if error else 0))
    await asyncio.to_thread(producer.flush, 10)
    assert heard == [KafkaError.MSG_SIZE_TOO_LARGE]


async def test_a_fake_timeline_is_made_real_by_its_first_switch(
    client: httpx.AsyncClient, nodes: list[Node], place: Place
) -> None:
    topic = f"adopted-{uuid4().hex[:8]}"
    await nodes[0].streams.admins.of(nodes[0].streams.catalog.storage("default")).create(topic, 1, {})
    producer = Producer({"bootstrap.servers": place.kafka[0]})
    for n in range(3):
        producer.produce(topic, b'{"n":%d}' % n)
    producer.flush(10)
    name = await new_event_type(client, adopt_topic=topic)
    await client.post(f"/event-types/{name}/events", content=body({"n": 3}))
    assert (await switch(client, name)).json()["order"] == 2
    await client.post(f"/event-types/{name}/events", content=body({"n": 4}))
    first, second = (await client.get(f"/event-types/{name}/timelines")).json()
    assert (first["order"], first["topic"], first["latest_position"]) == (1, topic, {"offsets": [3]})
    assert first["id"] not in (None, second["id"])
    assert await numbers_of(place, nodes[0], name) == [[0, 1, 2, 3, 4]]


# Who may switch


async def test_a_switch_that_makes_no_sense_is_refused(client: httpx.AsyncClient, nodes: list[Node]) -> None:
    name = await new_event_type(client)
    before = await version(nodes[0])
    path = f"/event-types/{name}/timelines"
    assert (await switch(client, "nobody")).status_code == 404
    assert (await switch(client, name, "nowhere")).status_code == 422
    for content, status in ((b"", 400), (b"[]", 400), (b"{}", 422), (b'{"storage_id": 5}', 422)):
        assert (await client.post(path, content=content)).status_code == status
    assert (await switch(client, name, force="yes")).status_code == 422
    compacted = await new_event_type(client, category="business", cleanup_policy="compact")
    assert (await switch(client, compacted)).status_code == 422
    assert await version(nodes[0]) == before
    assert (await client.get(f"/event-types/{name}/switches")).json() == []


async def test_of_many_at_once_one_switches_and_the_others_are_told(
    client: httpx.AsyncClient, other: httpx.AsyncClient, nodes: list[Node]
) -> None:
    name = await new_event_type(client)
    answers = await asyncio.gather(*(switch(who, name) for who in (client, other, client, other)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    assert len((await client.get(f"/event-types/{name}/timelines")).json()) == 2
    await nothing_is_left(nodes[0], name)


async def test_different_event_types_are_switched_at_the_same_time(
    client: httpx.AsyncClient, other: httpx.AsyncClient, nodes: list[Node]
) -> None:
    names = [await new_event_type(client) for _ in range(5)]
    before = await version(nodes[0])
    answers = await asyncio.gather(*(switch(who, name) for name, who in zip(names, [client, other] * 3, strict=False)))
    assert [answer.status_code for answer in answers] == [201] * 5
    assert await version(nodes[0]) == before + 10


async def test_the_same_key_gets_the_same_timeline(client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    name = await new_event_type(client)
    first, second = await asyncio.gather(switch(client, name, key="k1"), switch(other, name, key="k1"))
    statuses = {first.status_code, second.status_code}
    assert statuses in ({201, 200}, {201, 409})
    again = await switch(other, name, key="k1")
    assert again.status_code == 200
    assert again.json()["order"] == 2
    assert (await switch(client, name, "default", key="k1")).status_code == 422
    assert (await switch(client, name, "default", key="k2")).json()["order"] == 3
    assert (await switch(other, name, key="k1")).json()["id"] == again.json()["id"]


# Failures


@asynccontextmanager
async def ghost(place: Place) -> AsyncIterator[None]:
    """A node that is counted and never answers."""
    async with open_session(SessionOptions(place.zookeeper, place.root)) as session:
        await session.wait_connected()
        await session.create(session.layout.acknowledgement("ghost"), b"0", ephemeral=True)
        yield


@pytest.fixture
def unprovable(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that does not tell where its log ends."""

    async def unknown(sealer: Sealer, topic: str, ends: Sequence[int]) -> bool:
        return False

    monkeypatch.setattr(Sealer, "nothing_beyond", unknown)


async def test_a_node_that_does_not_answer_is_overtaken_and_named(
    client: httpx.AsyncClient, nodes: list[Node], place: Place
) -> None:
    name, before = await new_event_type(client), await version(nodes[0])
    assert (await client.post(f"/event-types/{name}/events", content=body({"n": 1}))).status_code == 200
    async with ghost(place):
        assert (await switch(client, name)).status_code == 201
    assert await version(nodes[0]) == before + 2
    closed, _ = (await client.get(f"/event-types/{name}/timelines")).json()
    assert closed["latest_position"] == {"offsets": [0]}
    (done,) = (await client.get(f"/event-types/{name}/switches")).json()
    assert (done["state"], done["overtaken"]) == ("done", ["ghost"])
    await nothing_is_left(nodes[0], name)
    assert (await switch(client, name, "default")).status_code == 201
    assert (await client.get(f"/event-types/{name}/switches")).json()[-1]["overtaken"] == []


async def test_that_nothing_lies_behind_an_end_is_proved_or_not(client: httpx.AsyncClient, nodes: list[Node]) -> None:
    name = await new_event_type(client, default_statistic={"read_parallelism": 2, "write_parallelism": 2})
    for _ in range(3):
        assert (await client.post(f"/event-types/{name}/events", content=body({"n": 1}))).status_code == 200
    active = (await nodes[0].streams.catalog.reload(name)).active
    sealer = Sealer(nodes[0].streams.admins.of(nodes[0].streams.catalog.storage(active.storage_id)))
    ends = [end - 1 for end in await sealer.ends(active.topic, 2)]
    assert sum(ends) == 1
    assert await sealer.nothing_beyond(active.topic, ends)
    longer = ends.index(max(ends))
    assert not await sealer.nothing_beyond(active.topic, [end - (place == longer) for place, end in enumerate(ends)])


async def test_where_the_end_cannot_be_proved_a_node_that_does_not_answer_is_named_and_nothing_has_changed(
    client: httpx.AsyncClient, nodes: list[Node], place: Place, unprovable: None
) -> None:
    name = await new_event_type(client)
    topics, before = await topics_like(nodes[0], name), await version(nodes[0])
    async with ghost(place):
        answer = await switch(client, name)
    assert answer.status_code == 503
    assert answer.json()["missing"] == ["ghost"]
    assert "ghost" in answer.json()["detail"]
    assert await version(nodes[0]) == before + 2
    assert len((await client.get(f"/event-types/{name}/timelines")).json()) == 1
    assert (await client.post(f"/event-types/{name}/events", content=body({"n": 1}))).status_code == 200
    await nothing_is_left(nodes[0], name)
    assert await topics_like(nodes[0], name) == topics
    (failed,) = (await client.get(f"/event-types/{name}/switches")).json()
    assert failed["state"] == "failed"
    assert "ghost" in failed["error"]
    assert (await switch(client, name)).status_code == 201


async def test_a_failed_switch_does_not_use_its_key_up(client: httpx.AsyncClient, place: Place, unprovable: None) -> None:
    name = await new_event_type(client)
    async with ghost(place):
        assert (await switch(client, name, key="k")).status_code == 503
    assert (await switch(client, name, key="k")).status_code == 201


async def test_a_switch_goes_on_when_its_client_goes_away(
    client: httpx.AsyncClient, nodes: list[Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await new_event_type(client)
    begun = asyncio.Event()
    with monkeypatch.context() as patched:
        patched.setattr(switch_run, "passing", lambda _: begun.set())
        async with nodes[0].client() as impatient:
            asking = asyncio.create_task(switch(impatient, name))
            await asyncio.wait_for(begun.wait(), 60)
            asking.cancel()
            await asyncio.wait({asking})
        assert asking.cancelled()

    async def switched() -> bool:
        return len((await client.get(f"/event-types/{name}/timelines")).json()) == 2

    await eventually(switched)


@pytest.mark.parametrize(
    ("point", "orders"), [("locked", [1]), ("sealed", [1]), ("committed", [1, 2]), ("unlocked", [1, 2])]
)
async def test_an_orphaned_switch_is_concluded_by_the_others(
    nodes: list[Node],
    client: httpx.AsyncClient,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    point: str,
    orders: list[int],
) -> None:
    """Before the commit it is rolled back, after it finished; publishers go on either way."""
    name = await new_event_type(client)
    await client.post(f"/event-types/{name}/events", content=body({"n": 1}))
    topics, before = await topics_like(nodes[0], name), await version(nodes[0])
    reached = asyncio.Event()

    def die(here: str) -> None:
        if here == point:
            reached.set()
            raise asyncio.CancelledError

    async with open_node(place, "node-3") as doomed, doomed.client() as asking:
        with monkeypatch.context() as patched:
            patched.setattr(switch_run, "passing", die)
            patched.setattr(switch_conclusion, "passing", die)
            doomed.streams.switches.conclude_orphans = _never  # type: ignore[method-assign]
            task = asyncio.create_task(switch(asking, name))
            await asyncio.wait_for(reached.wait(), 60)
        publishing = asyncio.create_task(client.post(f"/event-types/{name}/events", content=body({"n": 2})))
    await asyncio.gather(task, return_exceptions=True)
    assert (await asyncio.wait_for(publishing, 60)).status_code == 200

    async def concluded() -> bool:
        (only,) = await nodes[0].streams.switches.of(name)
        return not only.running

    await eventually(concluded)
    timelines = (await client.get(f"/event-types/{name}/timelines")).json()
    assert [timeline["order"] for timeline in timelines] == orders
    assert await version(nodes[0]) == before + 2
    assert await numbers_of(place, nodes[0], name) == [[1, 2]]
    await nothing_is_left(nodes[0], name)
    if orders == [1]:
        assert await topics_like(nodes[0], name) == topics


async def _never() -> None:
    return None


async def test_who_was_taken_over_can_do_nothing_any_more(nodes: list[Node], client: httpx.AsyncClient) -> None:
    """Both owners are alive and at work on it, so that no look for orphans comes in between."""
    name = await new_event_type(client)
    entry = await nodes[0].streams.catalog.reload(name)
    former, next_one = (node.streams.switches for node in nodes)
    store: SwitchStore = former._tools.store
    mine = former._new(switch_request(name), entry)
    former._mine.add(mine.id)
    next_one._mine.add(mine.id)
    await store.begin(mine)
    await former._tools.topics.make(nodes[0].streams.catalog.storage("kafka-2"), mine.new_topic, entry.event_type)
    locked = await store.advance(mine, SwitchState.LOCKED)
    taken = await store.take_over(locked, next_one._tools.me())
    assert taken is not None
    assert await store.take_over(locked, former._tools.me()) is None
    with pytest.raises(Superseded):
        await store.advance(locked, SwitchState.SEALED)
    with pytest.raises(Superseded):
        await store.commit(locked, entry.active, (-1,), 0)
    await asyncio.gather(former.conclude_orphans(), next_one.conclude_orphans())
    assert await store.get(mine.id) == taken
    await switch_conclusion.roll_back(next_one._tools, taken, "the test is over")
    assert len(await nodes[0].streams.catalog.timelines(name)) == 1
    former._mine.discard(mine.id)
    next_one._mine.discard(mine.id)


async def test_a_timeline_is_never_closed_before_what_was_acknowledged(nodes: list[Node], client: httpx.AsyncClient) -> None:
    """A replica that has just become the leader may show less for a moment."""
    name = await new_event_type(client)
    entry = await nodes[0].streams.catalog.reload(name)
    switches = nodes[0].streams.switches
    store: SwitchStore = switches._tools.store
    mine = switches._new(switch_request(name), entry)
    switches._mine.add(mine.id)
    await store.begin(mine)
    await switches._tools.topics.make(nodes[0].streams.catalog.storage("kafka-2"), mine.new_topic, entry.event_type)
    await store.raise_acknowledged({StoragePartition("default", entry.active.topic, 0): 7})
    sealed = await store.advance(mine, SwitchState.SEALED)
    committed = await store.commit(sealed, entry.active, (3,), 0)
    assert (await nodes[0].streams.catalog.reload(name)).timelines[0].latest_offsets == (7,)
    await switch_conclusion.finish(switches._tools, committed)
    switches._mine.discard(mine.id)


def switch_request(name: str) -> Any:
    from meantime.streams.switching.switches import SwitchRequest

    return SwitchRequest(name, "kafka-2")


# Under load


async def test_nobody_notices_switches_under_load(
    client: httpx.AsyncClient, other: httpx.AsyncClient, nodes: list[Node], place: Place
) -> None:
    """Two publishers through two nodes, ten switches between two clusters: nothing lost, nothing twice, order kept."""
    document = declared(partition_strategy="user_defined", default_statistic={"read_parallelism": 2, "write_parallelism": 2})
    assert (await client.post("/event-types", json=document)).status_code == 201
    name, stop = document["name"], asyncio.Event()
    acknowledged: list[list[int]] = [[], []]

    async def publish(who: httpx.AsyncClient, partition: int) -> None:
        n = 0
        while not stop.is_set():
            events = [{"n": n + i, "metadata": {"partition": str(partition)}} for i in range(20)]
            answer = await who.post(f"/event-types/{name}/events", content=body(*events))
            assert answer.status_code == 200, answer.text
            acknowledged[partition] += range(n, n + 20)
            n += 20

    publishers = [asyncio.create_task(publish(client, 0)), asyncio.create_task(publish(other, 1))]
    for number in range(10):
        answer = await switch((client, other)[number % 2], name, ("kafka-2", "default")[number % 2])
        assert answer.status_code == 201, answer.text
        await asyncio.sleep(0.05)
    stop.set()
    await asyncio.gather(*publishers)
    assert await numbers_of(place, nodes[0], name) == acknowledged
    assert min(map(len, acknowledged)) > 100
