"""Event types: declared, adopted, changed and deleted on one node, seen on the other."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterable
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from streams_nodes import Node, body, declared, eventually, new_event_type, open_nodes, open_place

from meantime.database.pool import Database
from meantime.errors import NotFound
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.store import Store


@pytest_asyncio.fixture(scope="module")
async def nodes(services: Any) -> AsyncIterator[list[Node]]:
    async with open_place(services) as place, open_nodes(place, 2) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def client(nodes: list[Node]) -> AsyncIterator[httpx.AsyncClient]:
    async with nodes[0].client() as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def other(nodes: list[Node]) -> AsyncIterator[httpx.AsyncClient]:
    async with nodes[1].client() as opened:
        yield opened


async def topics(node: Node, name: str = "") -> set[str]:
    """Those of one event type; other tests make others beside."""
    admin = node.streams.admins.of(node.streams.catalog.storage("default"))
    listed = await asyncio.to_thread(admin._client.list_topics, timeout=10)
    return {topic for topic in listed.topics if topic.startswith(name)}


async def gone(node: Node, topic: str) -> bool:
    return topic not in await topics(node)


async def test_a_new_event_type_has_a_timeline_on_the_default_storage(client: httpx.AsyncClient, nodes: list[Node]) -> None:
    name = await new_event_type(client, default_statistic={"read_parallelism": 1, "write_parallelism": 3})
    (timeline,) = (await client.get(f"/event-types/{name}/timelines")).json()
    assert (timeline["order"], timeline["storage_id"], timeline["event_type"]) == (1, "default", name)
    assert (timeline["latest_position"], timeline["cleaned_up_at"], timeline["deleted"]) == (None, None, False)
    assert timeline["topic"] in await topics(nodes[0])
    admin = nodes[0].streams.admins.of(nodes[0].streams.catalog.storage("default"))
    assert await admin.partitions(timeline["topic"]) == 3


async def test_what_was_declared_is_shown_with_its_defaults(client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    name = await new_event_type(client, category="business", audience="company-internal")
    shown = (await other.get(f"/event-types/{name}")).json()
    assert shown["category"] == "business"
    assert shown["options"] == {"retention_time": 172_800_000}
    assert shown["partition_strategy"] == "random"
    assert shown["audience"] == "company-internal"
    assert shown["schema"]["version"] == "1.0.0"
    assert shown["created_at"].endswith("Z")
    assert name in {item["name"] for item in (await other.get("/event-types")).json()}


async def test_the_same_name_again_is_a_conflict(client: httpx.AsyncClient, nodes: list[Node]) -> None:
    name = await new_event_type(client)
    before = await topics(nodes[0], name)
    assert (await client.post("/event-types", json=declared(name))).status_code == 409
    assert await topics(nodes[0], name) == before


async def test_of_two_at_the_same_moment_one_wins_and_no_topic_is_left(
    client: httpx.AsyncClient, other: httpx.AsyncClient, nodes: list[Node]
) -> None:
    document = declared()
    answers = await asyncio.gather(*(who.post("/event-types", json=document) for who in (client, other, client, other)))
    assert sorted(answer.status_code for answer in answers) == [201, 409, 409, 409]
    (timeline,) = await nodes[0].streams.catalog.timelines(document["name"])

    async def only_that_one_is_left() -> bool:
        return await topics(nodes[0], document["name"]) == {timeline.topic}

    await eventually(only_that_one_is_left)


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"", 400), (b"[]", 400), (b"{", 400), (b"{}", 422), (b'{"name": "1"}', 422), (b'{"name": "x", "category": "y"}', 422)],
)
async def test_a_bad_declaration_is_answered_with_a_problem(client: httpx.AsyncClient, content: bytes, status: int) -> None:
    answer = await client.post("/event-types", content=content)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status


async def test_a_compatible_schema_may_only_grow(client: httpx.AsyncClient) -> None:
    def schema(**properties: str) -> dict[str, str]:
        kinds = {key: {"type": kind} for key, kind in properties.items()}
        return {"type": "json_schema", "schema": json.dumps({"properties": kinds})}

    name = await new_event_type(client, compatibility_mode="compatible", schema=schema(id="string"))
    grown = await client.put(f"/event-types/{name}", json={"schema": schema(id="string", note="string")})
    assert grown.status_code == 200
    for change in ({"schema": schema(note="string")}, {"schema": schema(id="integer")}, {"compatibility_mode": "none"}):
        refused = await client.put(f"/event-types/{name}", json=change)
        assert refused.status_code == 422
        assert "compatib" in refused.json()["detail"]
    kept = (await client.get(f"/event-types/{name}")).json()
    assert (kept["schema"]["schema"], kept["schema"]["version"]) == (schema(id="string", note="string")["schema"], "1.1.0")


async def test_an_unknown_event_type_is_not_found_anywhere(client: httpx.AsyncClient) -> None:
    for path in ("", "/timelines", "/switches", f"/switches/{uuid4()}"):
        assert (await client.get(f"/event-types/nobody{path}")).status_code == 404
    assert (await client.put("/event-types/nobody", json=declared("nobody"))).status_code == 404
    assert (await client.delete("/event-types/nobody")).status_code == 404
    assert (await client.post("/event-types/nobody/events", content=body({}))).status_code == 404


async def test_a_change_on_one_node_counts_on_the_other_at_once(client: httpx.AsyncClient, other: httpx.AsyncClient) -> None:
    name = await new_event_type(client)
    events = f"/event-types/{name}/events"
    assert (await other.post(events, content=body({"n": "x"}))).status_code == 200
    schema = {"type": "json_schema", "schema": '{"properties": {"n": {"type": "integer"}}}'}
    changed = await client.put(f"/event-types/{name}", json=declared(name, schema=schema))
    assert changed.status_code == 200
    assert (await other.post(events, content=body({"n": "x"}))).status_code == 422
    assert (await other.get(f"/event-types/{name}")).json()["schema"]["version"] == "1.1.0"


async def test_name_and_category_cannot_be_changed(client: httpx.AsyncClient) -> None:
    name = await new_event_type(client)
    for change in (declared("other"), declared(name, category="business")):
        assert (await client.put(f"/event-types/{name}", json=change)).status_code == 422


async def test_a_new_retention_reaches_the_topic(client: httpx.AsyncClient, nodes: list[Node]) -> None:
    name = await new_event_type(client)
    await client.put(f"/event-types/{name}", json={"options": {"retention_time": 5000}})
    timeline = (await nodes[0].streams.catalog.timelines(name))[-1]
    kafka = nodes[0].streams.admins.of(nodes[0].streams.catalog.storage("default"))

    async def is_kept_for_five_seconds() -> bool:
        return (await kafka.topic_settings(timeline.topic))["retention.ms"][0] == "5000"

    await eventually(is_kept_for_five_seconds)


async def test_a_deleted_event_type_is_gone_with_its_topic_and_its_name_is_free(
    client: httpx.AsyncClient, other: httpx.AsyncClient, nodes: list[Node]
) -> None:
    name = await new_event_type(client)
    await other.post(f"/event-types/{name}/events", content=body({"n": 1}))
    (timeline,) = await nodes[1].streams.catalog.timelines(name)
    waiting = asyncio.create_task(nodes[1].streams.catalog.wait_for_change(name, (timeline,)))
    assert (await client.delete(f"/event-types/{name}")).status_code == 200
    await asyncio.wait_for(waiting, 60)
    with pytest.raises(NotFound):
        await nodes[1].streams.catalog.timelines(name)
    assert timeline.topic not in await topics(nodes[0])
    await new_event_type(client, name=name)
    assert (await other.post(f"/event-types/{name}/events", content=body({"n": 2}))).status_code == 200


# Adopted topics


async def adoptable(node: Node, partitions: int = 2, storage: str = "default") -> str:
    topic = f"adopted-{uuid4().hex[:8]}"
    await node.streams.admins.of(node.streams.catalog.storage(storage)).create(topic, partitions, {})
    return topic


async def test_an_adopted_topic_is_served_by_a_fake_timeline(client: httpx.AsyncClient, nodes: list[Node]) -> None:
    topic = await adoptable(nodes[0])
    name = await new_event_type(client, adopt_topic=topic)
    (timeline,) = (await client.get(f"/event-types/{name}/timelines")).json()
    assert (timeline["order"], timeline["id"], timeline["topic"]) == (0, None, topic)
    assert (await client.post(f"/event-types/{name}/events", content=body({"n": 1}, {"n": 2}))).status_code == 200
    admin = nodes[0].streams.admins.of(nodes[0].streams.catalog.storage("default"))
    assert sum(await admin.end_offsets(topic, 2)) == 2


async def test_an_adopted_topic_shows_its_storage_and_stays_there_when_another_becomes_the_default(
    client: httpx.AsyncClient, other: httpx.AsyncClient, nodes: list[Node]
) -> None:
    topic = await adoptable(nodes[0])
    name = await new_event_type(client, adopt_topic=topic)
    try:
        assert (await client.put("/storages/default/kafka-2")).status_code == 200
        for who in (client, other):
            shown = (await who.get(f"/event-types/{name}")).json()
            assert (shown["adopt_topic"], shown["adopt_storage_id"]) == (topic, "default")
            (timeline,) = (await who.get(f"/event-types/{name}/timelines")).json()
            assert (timeline["order"], timeline["storage_id"]) == (0, "default")
            assert (await who.post(f"/event-types/{name}/events", content=body({"n": 1}))).status_code == 200
        (listed,) = [one for one in (await client.get("/event-types")).json() if one["name"] == name]
        assert listed["adopt_storage_id"] == "default"
        changed = await client.put(f"/event-types/{name}", json=shown | {"adopt_storage_id": "kafka-2", "audience": "all"})
        assert changed.status_code == 200, changed.text
        assert (await client.get(f"/event-types/{name}")).json()["adopt_storage_id"] == "default"
        admin = nodes[0].streams.admins.of(nodes[0].streams.catalog.storage("default"))
        assert sum(await admin.end_offsets(topic, 2)) == 2
        switched = await client.post(f"/event-types/{name}/timelines", json={"storage_id": "kafka-2"})
        assert switched.status_code == 201, switched.text
        timelines = (await client.get(f"/event-types/{name}/timelines")).json()
        assert [timeline["storage_id"] for timeline in timelines] == ["default", "kafka-2"]
    finally:
        assert (await client.put("/storages/default/default")).status_code == 200


async def test_a_topic_is_adopted_from_the_storage_that_is_named(client: httpx.AsyncClient, nodes: list[Node]) -> None:
    topic = await adoptable(nodes[0], storage="kafka-2")
    answer = await client.post("/event-types", json=declared(adopt_topic=topic))
    assert answer.status_code == 422
    assert "'default'" in answer.json()["detail"]
    name = await new_event_type(client, adopt_topic=topic, adopt_storage_id="kafka-2")
    assert (await client.get(f"/event-types/{name}")).json()["adopt_storage_id"] == "kafka-2"
    (timeline,) = (await client.get(f"/event-types/{name}/timelines")).json()
    assert (timeline["storage_id"], timeline["topic"]) == ("kafka-2", topic)
    assert (await client.post(f"/event-types/{name}/events", content=body({"n": 1}))).status_code == 200
    for wrong in ({"adopt_topic": topic, "adopt_storage_id": "nowhere"}, {"adopt_storage_id": "kafka-2"}):
        assert (await client.post("/event-types", json=declared(**wrong))).status_code == 422


async def test_a_topic_that_is_not_there_cannot_be_adopted(client: httpx.AsyncClient) -> None:
    for topic in ("nothing-like-that", "not a topic!", ""):
        answer = await client.post("/event-types", json=declared(adopt_topic=topic))
        assert answer.status_code == 422, answer.text


async def test_deleting_leaves_a_topic_that_was_only_adopted(client: httpx.AsyncClient, nodes: list[Node]) -> None:
    topic = await adoptable(nodes[0])
    name = await new_event_type(client, adopt_topic=topic)
    assert (await client.delete(f"/event-types/{name}")).status_code == 200
    assert topic in await topics(nodes[0])


# Retention


async def test_closed_timelines_are_cleaned_up_after_the_retention_and_their_rows_stay(
    client: httpx.AsyncClient, nodes: list[Node]
) -> None:
    name = await new_event_type(client, options={"retention_time": 1000})
    await client.post(f"/event-types/{name}/events", content=body({"n": 1}))
    assert (await client.post(f"/event-types/{name}/timelines", json={"storage_id": "kafka-2"})).status_code == 201
    old = (await nodes[0].streams.catalog.timelines(name))[0]
    known = await nodes[0].streams.catalog.timelines(name)
    await asyncio.wait_for(nodes[0].streams.catalog.wait_for_change(name, known), 60)
    timelines = (await client.get(f"/event-types/{name}/timelines")).json()
    await eventually(lambda: gone(nodes[0], old.topic))
    assert [timeline["deleted"] for timeline in timelines] == [True, False]
    assert timelines[0]["latest_position"] == {"offsets": [0]}


async def test_changing_the_retention_moves_the_planned_dates(client: httpx.AsyncClient) -> None:
    name = await new_event_type(client)
    await client.post(f"/event-types/{name}/timelines", json={"storage_id": "default"})
    before = (await client.get(f"/event-types/{name}/timelines")).json()
    await client.put(f"/event-types/{name}", json={"options": {"retention_time": 86_400_000}})
    after = (await client.get(f"/event-types/{name}/timelines")).json()
    assert before[0]["cleaned_up_at"] > after[0]["cleaned_up_at"] > after[0]["created_at"]
    assert after[1]["cleaned_up_at"] is None


class CountedStore(Store):
    """Counts what is asked for."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.whole = 0
        self.versions = 0

    async def event_type(self, name: str) -> Any:
        self.whole += 1
        return await super().event_type(name)

    async def row_versions(self, names: Iterable[str]) -> dict[str, str]:
        self.versions += 1
        return await super().row_versions(names)


class Told:
    """Notifications of which none ever comes, over a connection that seems to be fine."""

    connected = True

    def subscribe(self, channel: str, subscriber: object) -> None:
        pass


async def test_what_has_expired_is_asked_for_together_and_only_what_was_changed_is_read_again(
    client: httpx.AsyncClient, nodes: list[Node]
) -> None:
    store = CountedStore(nodes[0].database)
    catalog = Catalog(store, Told(), keep_for=0.5)
    names = [await new_event_type(client) for _ in range(20)]
    for name in names:
        await catalog.entry(name)
    await asyncio.sleep(0.6)
    store.whole = store.versions = 0
    entries = [await catalog.entry(name) for name in names]

    assert (store.whole, store.versions) == (0, 1)
    assert [entry.event_type.name for entry in entries] == names

    await client.put(f"/event-types/{names[3]}", json={"audience": "company-internal"})
    await client.delete(f"/event-types/{names[4]}")
    known = await catalog.timelines(names[5])
    assert (await client.post(f"/event-types/{names[5]}/timelines", json={"storage_id": "kafka-2"})).status_code == 201
    await asyncio.wait_for(catalog.wait_for_change(names[5], known), 60)
    await asyncio.sleep(0.6)
    store.whole = 0
    entries = [await catalog.entry(name) for name in names if name != names[4]]

    assert entries[3].event_type.document["audience"] == "company-internal"
    assert store.whole <= 2
    with pytest.raises(NotFound):
        await catalog.entry(names[4])
