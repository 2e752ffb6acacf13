"""Publishing over HTTP into real Kafka: what is answered, and what is written."""

import asyncio
import gzip
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from confluent_kafka import Producer
from streams_nodes import Node, Place, body, eventually, new_event_type, numbers_of, open_node, open_place, read_topic

from meantime import metrics
from meantime.clock import SystemClock
from meantime.coordination.session import SessionOptions, open_session
from meantime.database.listener import open_listener
from meantime.database.pool import open_database
from meantime.kafka.batch import RecordBatch, Records
from meantime.kafka.producer import Producers
from meantime.kafka.sealing import Sealer
from meantime.streams.model import Timeline
from meantime.streams.publishing.opening import OpenPublisher, open_publisher
from meantime.streams.publishing.publisher import RESENT
from meantime.streams.switching.switches import SwitchRequest

pytestmark = pytest.mark.takes(seconds=50)

METADATA = {"eid": str(uuid4()), "occurred_at": "2026-11-15T12:00:00Z"}


@pytest_asyncio.fixture(scope="module")
async def place(services: Any) -> AsyncIterator[Place]:
    async with open_place(services) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def node(place: Place) -> AsyncIterator[Node]:
    async with open_node(place, publish_wait_for=5.0) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def client(node: Node) -> AsyncIterator[httpx.AsyncClient]:
    async with node.client() as opened:
        yield opened


async def topic_of(node: Node, name: str) -> str:
    return (await node.streams.catalog.timelines(name))[-1].topic


async def written(place: Place, node: Node, name: str, partitions: int = 1) -> list[list[Any]]:
    topic = await topic_of(node, name)
    found = await asyncio.to_thread(read_topic, place.kafka[0], topic, partitions)
    return [[json.loads(value) for value in values] for values in found]


async def test_what_is_acknowledged_is_in_kafka_in_order(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    name = await new_event_type(client)
    for start in range(0, 300, 100):
        answer = await client.post(f"/event-types/{name}/events", content=body(*({"n": start + n} for n in range(100))))
        assert (answer.status_code, answer.content) == (200, b"")
    assert await numbers_of(place, node, name) == [list(range(300))]


async def test_what_many_publish_at_once_is_written_once_each(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    name, partitions = await new_event_type(client, default_statistic={"read_parallelism": 3, "write_parallelism": 3}), 3

    async def publish_some(first: int) -> None:
        for n in range(first, first + 10):
            answer = await client.post(f"/event-types/{name}/events", content=body({"n": n}))
            assert (answer.status_code, answer.content) == (200, b"")

    await asyncio.gather(*(publish_some(first) for first in range(0, 400, 10)))
    found = await written(place, node, name, partitions)
    assert sorted(event["n"] for events in found for event in events) == list(range(400))


async def test_what_is_let_go_before_it_was_sent_is_never_sent(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    name = await new_event_type(client)
    topic, producers = await topic_of(node, name), Producers()
    producer = producers.of(node.streams.catalog.storage("default"))
    records = Records.of([b'{"n":1}'], [0])
    let_go, sent = producer.begin(records), producer.begin(Records.of([b'{"n":2}'], [0]))
    producer.hand_over(topic, records, let_go)
    producer.hand_over(topic, Records.of([b'{"n":2}'], [0]), sent)
    let_go.abandon()
    await asyncio.wait_for(sent.done, 60)
    assert (let_go.clean, sent.clean) == (False, True)
    assert await numbers_of(place, node, name) == [[2]]
    await producers.close()


async def test_an_empty_batch_is_fine(client: httpx.AsyncClient) -> None:
    name = await new_event_type(client)
    assert (await client.post(f"/event-types/{name}/events", content=b"[]")).status_code == 200


async def test_packed_bodies_are_read(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    name = await new_event_type(client)
    headers = {"Content-Encoding": "gzip"}
    events = f"/event-types/{name}/events"
    assert (await client.post(events, content=gzip.compress(body({"n": 1})), headers=headers)).status_code == 200
    assert (await client.post(events, content=b"no gzip", headers=headers)).status_code == 400
    assert await numbers_of(place, node, name) == [[1]]


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"[{}", b'[{"a": "\xff"}]', b"null"])
async def test_a_malformed_body_is_a_bad_request_and_writes_nothing(
    client: httpx.AsyncClient, node: Node, place: Place, content: bytes
) -> None:
    name = await new_event_type(client)
    answer = await client.post(f"/event-types/{name}/events", content=content)
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert await numbers_of(place, node, name) == [[]]


async def test_one_bad_event_keeps_the_whole_batch_out(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    schema = {"type": "json_schema", "schema": '{"properties": {"n": {"type": "integer"}}}'}
    name = await new_event_type(client, schema=schema)
    events = body({"n": 1}, {"n": "x", "metadata": {"eid": "e2"}}, {"n": 3})
    answer = await client.post(f"/event-types/{name}/events", content=events)
    assert answer.status_code == 422
    items = answer.json()
    assert [item["publishing_status"] for item in items] == ["aborted", "failed", "aborted"]
    assert (items[1]["eid"], items[1]["step"]) == ("e2", "validating")
    assert "integer" in items[1]["detail"]
    assert await numbers_of(place, node, name) == [[]]


async def test_events_at_the_limit_are_written_and_larger_ones_refused(
    client: httpx.AsyncClient, node: Node, place: Place
) -> None:
    name = await new_event_type(client, category="business")
    frame = len(json.dumps({"x": "", "metadata": METADATA}))
    at_limit = {"x": "a" * (999_000 - frame), "metadata": METADATA}
    assert (await client.post(f"/event-types/{name}/events", content=body(at_limit))).status_code == 200
    over = {"x": at_limit["x"] + "a", "metadata": METADATA}
    answer = await client.post(f"/event-types/{name}/events", content=body(over))
    assert (answer.status_code, answer.json()[0]["step"]) == (422, "validating")
    ((event,),) = await written(place, node, name)
    assert event["x"] == at_limit["x"]


async def test_business_events_are_enriched(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    name = await new_event_type(client, category="business")
    events = f"/event-types/{name}/events"
    answer = await client.post(events, content=body({"n": 1, "metadata": METADATA}), headers={"X-Flow-Id": "flow-7"})
    assert answer.status_code == 200
    ((event,),) = await written(place, node, name)
    assert event["metadata"] | {"received_at": ""} == METADATA | {
        "received_at": "",
        "event_type": name,
        "partition": "0",
        "flow_id": "flow-7",
        "version": "1.0.0",
    }
    wrong = await client.post(events, content=body({"metadata": METADATA | {"event_type": "other"}}))
    assert wrong.status_code == 422


async def test_hashed_events_of_one_key_stay_together(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    statistic = {"read_parallelism": 4, "write_parallelism": 4}
    name = await new_event_type(client, partition_strategy="hash", partition_key_fields=["key"], default_statistic=statistic)
    await client.post(f"/event-types/{name}/events", content=body(*({"key": n % 10, "n": n} for n in range(200))))
    found = await written(place, node, name, 4)
    places = [{event["key"] for event in events} for events in found]
    assert sum(map(len, places)) == 10
    for events in found:
        for key in {event["key"] for event in events}:
            numbers = [event["n"] for event in events if event["key"] == key]
            assert numbers == sorted(numbers)
    missing = await client.post(f"/event-types/{name}/events", content=body({"n": 1}))
    assert (missing.status_code, missing.json()[0]["step"]) == (422, "partitioning")


async def test_user_defined_events_go_where_they_say(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    statistic = {"read_parallelism": 3, "write_parallelism": 1}
    name = await new_event_type(client, category="business", partition_strategy="user_defined", default_statistic=statistic)
    events = f"/event-types/{name}/events"
    assert (await client.post(events, content=body({"metadata": METADATA | {"partition": "2"}}))).status_code == 200
    assert [len(found) for found in await written(place, node, name, 3)] == [0, 0, 1]
    unknown = await client.post(events, content=body({"metadata": METADATA | {"partition": "3"}}))
    assert (unknown.status_code, unknown.json()[0]["step"]) == (422, "partitioning")


async def test_what_the_storage_refuses_is_named_and_the_rest_is_written(
    client: httpx.AsyncClient, node: Node, place: Place
) -> None:
    topic = f"small-{uuid4().hex[:8]}"
    admin = node.streams.admins.of(node.streams.catalog.storage("default"))
    await admin.create(topic, 1, {"max.message.bytes": "2000"})
    name = await new_event_type(client, adopt_topic=topic)
    answer = await client.post(f"/event-types/{name}/events", content=body({"n": 1}, {"n": 2, "x": "a" * 5000}, {"n": 3}))
    assert answer.status_code == 207
    assert [item["publishing_status"] for item in answer.json()] == ["submitted", "failed", "submitted"]
    assert answer.json()[1]["step"] == "publishing"
    assert await numbers_of(place, node, name) == [[1, 3]]


async def test_compacted_event_types_take_events(client: httpx.AsyncClient, node: Node, place: Place) -> None:
    name = await new_event_type(client, category="business", cleanup_policy="compact")
    event = {"n": 1, "metadata": METADATA | {"partition_compaction_key": "k"}}
    assert (await client.post(f"/event-types/{name}/events", content=body(event))).status_code == 200
    assert await numbers_of(place, node, name) == [[1]]


# Locks of other clients of the protocol


async def until_closed(node: Node, name: str) -> None:
    async def closed() -> bool:
        return node.streams.publisher._gate.is_closed(name)

    await eventually(closed)


async def test_a_foreign_lock_makes_publishers_wait_and_then_try_again_later(client: httpx.AsyncClient, node: Node) -> None:
    name = await new_event_type(client)
    other = await new_event_type(client)
    lock = node.session.layout.locked_event_type(name)
    await node.session.create(lock, b"somebody", ephemeral=True)
    await until_closed(node, name)
    try:
        answer = await client.post(f"/event-types/{name}/events", content=body({"n": 1}))
        assert answer.status_code == 503
        assert int(answer.headers["Retry-After"]) >= 1
        assert answer.json()["retryable"]
        assert (await client.post(f"/event-types/{other}/events", content=body({"n": 1}))).status_code == 200
        assert (await client.post(f"/event-types/{name}/timelines", json={"storage_id": "kafka-2"})).status_code == 409
    finally:
        await node.session.delete(lock)


async def test_publishers_go_on_when_a_foreign_lock_vanishes_without_a_new_version(
    client: httpx.AsyncClient, node: Node, place: Place
) -> None:
    name = await new_event_type(client)
    lock = node.session.layout.locked_event_type(name)
    version = (await node.session.get(node.session.layout.version)).data
    await node.session.create(lock, b"somebody")
    await until_closed(node, name)
    waiting = asyncio.create_task(client.post(f"/event-types/{name}/events", content=body({"n": 1})))
    await asyncio.sleep(0.3)
    assert not waiting.done()
    await node.session.delete(lock)
    assert (await asyncio.wait_for(waiting, 60)).status_code == 200
    assert await numbers_of(place, node, name) == [[1]]
    assert (await node.session.get(node.session.layout.version)).data == version


# Sealed topics


async def test_a_node_that_missed_a_switch_is_led_to_the_new_topic_by_the_seal(
    client: httpx.AsyncClient, node: Node, place: Place
) -> None:
    name = await new_event_type(client)
    events = f"/event-types/{name}/events"
    await client.post(events, content=body(*({"n": n} for n in range(5))))
    stale = await node.streams.catalog.entry(name)
    assert (await client.post(f"/event-types/{name}/timelines", json={"storage_id": "kafka-2"})).status_code == 201
    node.streams.catalog._entries[name] = stale
    assert (await client.post(events, content=body(*({"n": n} for n in range(5, 10))))).status_code == 200
    assert await numbers_of(place, node, name) == [list(range(10))]


async def test_a_topic_left_sealed_by_a_lost_initiator_is_opened_by_its_first_publisher(
    client: httpx.AsyncClient, node: Node, place: Place
) -> None:
    name = await new_event_type(client)
    admin = node.streams.admins.of(node.streams.catalog.storage("default"))
    await Sealer(admin).seal(await topic_of(node, name))
    assert (await client.post(f"/event-types/{name}/events", content=body({"n": 1}))).status_code == 200
    assert await numbers_of(place, node, name) == [[1]]


async def test_a_probe_never_takes_an_offset_and_tells_sealed_from_open(node: Node, client: httpx.AsyncClient) -> None:
    name = await new_event_type(client, default_statistic={"read_parallelism": 3, "write_parallelism": 1})
    topic = await topic_of(node, name)
    admin = node.streams.admins.of(node.streams.catalog.storage("default"))
    sealer = Sealer(admin)
    surveyed = await sealer.survey(topic)
    await sealer.rehearse(topic, 3)
    await sealer.seal(topic)
    await sealer.prove(topic, 3)
    assert await sealer.end(topic, 3, await sealer.ends(topic, 3)) == (-1, -1, -1)
    await sealer.open_again(topic, surveyed)
    assert (await client.post(f"/event-types/{name}/events", content=body({"n": 1}))).status_code == 200


async def test_a_topic_by_append_time_is_sealed_without_storing_a_probe(node: Node, place: Place) -> None:
    topic = f"append-{uuid4().hex[:8]}"
    admin = node.streams.admins.of(node.streams.catalog.storage("default"))
    await admin.create(topic, 1, {"message.timestamp.type": "LogAppendTime", "max.message.bytes": "5000"})
    sealer = Sealer(admin)
    surveyed = await sealer.survey(topic)
    await sealer.make_probeable(topic)
    await sealer.rehearse(topic, 1)
    await sealer.seal_surveyed(topic, surveyed)
    await sealer.prove(topic, 1)
    assert await sealer.end(topic, 1, await sealer.ends(topic, 1)) == (-1,)
    assert (await sealer.survey(topic))["max.message.bytes"] is None, "a seal is nothing to be put back"
    await sealer.open_again(topic, surveyed)
    settings = await admin.topic_settings(topic)
    assert settings["max.message.bytes"] == ("5000", True)
    assert settings["message.timestamp.type"] == ("LogAppendTime", True)
    producer = Producer({"bootstrap.servers": place.kafka[0]})
    producer.produce(topic, b"{}")
    assert await asyncio.to_thread(producer.flush, 10) == 0


@pytest_asyncio.fixture
async def outsider(place: Place, node: Node) -> AsyncIterator[OpenPublisher]:
    """A publisher in a process that is no node."""
    async with (
        open_database(place.postgres, size=2) as database,
        open_listener(place.postgres) as listener,
        open_session(SessionOptions(place.zookeeper, place.root)) as session,
        open_publisher(database, listener, session, SystemClock(), "outsider") as opened,
    ):
        await session.wait_connected()
        yield opened


async def test_a_publisher_that_is_no_node_honours_locks_and_no_switch_waits_for_it(
    client: httpx.AsyncClient, node: Node, outsider: OpenPublisher
) -> None:
    name = await new_event_type(client)
    path = await node.session.create(node.session.layout.locked_event_type(name), ephemeral=True)
    await _until(lambda: name in outsider.barrier.locked)
    publishing = asyncio.create_task(outsider.publisher.publish(name, body({"n": 1}), "flow"))
    await asyncio.sleep(0.3)
    assert not publishing.done()
    assert set(await node.streams.barrier.acknowledgements()) == {node.id}
    await node.session.delete(path)
    assert await asyncio.wait_for(publishing, 10) is None


async def test_what_a_publisher_that_is_no_node_has_published_survives_switches(
    client: httpx.AsyncClient, node: Node, place: Place, outsider: OpenPublisher
) -> None:
    name = await new_event_type(client)
    over = asyncio.Event()

    async def publish() -> int:
        count = 0
        while not over.is_set():
            assert await outsider.publisher.publish(name, body({"n": count}), "flow") is None
            count += 1
        return count

    publishing = asyncio.create_task(publish())
    for storage in ("kafka-2", "default"):
        await asyncio.sleep(0.2)
        response = await client.post(f"/event-types/{name}/timelines", json={"storage_id": storage})
        assert response.status_code == 201, response.text
    await asyncio.sleep(0.2)
    over.set()
    count = await asyncio.wait_for(publishing, 30)
    assert await numbers_of(place, node, name) == [list(range(count))]


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


# What changes while a publish waits or is under way


async def test_a_publish_that_waited_for_room_goes_to_the_timeline_that_is_active_then(
    client: httpx.AsyncClient, node: Node, place: Place
) -> None:
    name = await new_event_type(client)
    producer = node.streams.publisher._parts.producers.of(node.streams.catalog.storage("default"))
    producer._in_flight += producer._limit
    sent_on = RESENT._value.get()
    publishing = asyncio.create_task(client.post(f"/event-types/{name}/events", content=body({"n": 1})))
    await eventually(lambda: _is_true(bool(producer._waiters)))
    assert (await client.post(f"/event-types/{name}/timelines", json={"storage_id": "kafka-2"})).status_code == 201
    producer._in_flight -= producer._limit
    producer._waiters.popleft().set_result(None)
    assert (await publishing).status_code == 200
    assert RESENT._value.get() == sent_on, "it was sent to the timeline that had been left"
    assert await numbers_of(place, node, name) == [[1]]


async def test_a_publish_during_which_the_session_was_not_proven_is_answered_for(
    client: httpx.AsyncClient, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Initiators may not have waited for it, also when the session is proven again by its end."""
    name = await new_event_type(client)
    parts = node.streams.publisher._parts
    producer = parts.producers.of(node.streams.catalog.storage("default"))
    begin, acknowledge = producer.begin, parts.switches.acknowledge
    answered_for: list[str] = []

    def begin_in_a_gap(records: Records) -> RecordBatch:
        parts.liveness.renewed.beat()
        return begin(records)

    async def noted(timeline: Timeline, offsets: Mapping[int, int]) -> bool:
        answered_for.append(timeline.event_type)
        return await acknowledge(timeline, offsets)

    monkeypatch.setattr(parts.switches, "acknowledge", noted)
    await eventually(lambda: _is_true(parts.liveness.proven))
    events = f"/event-types/{name}/events"
    assert (await client.post(events, content=body({"n": 1}))).status_code == 200
    assert answered_for == []
    monkeypatch.setattr(producer, "begin", begin_in_a_gap)
    assert (await client.post(events, content=body({"n": 2}))).status_code == 200
    assert answered_for == [name]


async def test_an_event_type_that_changes_while_its_storages_are_read_is_read_again(
    client: httpx.AsyncClient, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await new_event_type(client)
    catalog = node.streams.catalog
    reload_storages, read = catalog.reload_storages, catalog._store.event_type
    reads: list[str] = []

    async def overtaken() -> Any:
        if len(reads) == 1:
            catalog.forget(name)
        return await reload_storages()

    async def counted(name: str) -> Any:
        reads.append(name)
        return await read(name)

    monkeypatch.setattr(catalog, "reload_storages", overtaken)
    monkeypatch.setattr(catalog._store, "event_type", counted)
    catalog._storages_stale = True
    await catalog.reload(name)
    assert reads == [name, name]


async def test_however_many_publishers_are_refused_few_questions_are_asked(
    client: httpx.AsyncClient, node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = await new_event_type(client)
    entry = await node.streams.catalog.entry(name)
    tools = node.streams.switches._tools
    switch = node.streams.switches._new(SwitchRequest(name, "kafka-2"), entry)
    node.streams.switches._mine.add(switch.id)
    await tools.store.begin(switch)
    await Sealer(node.streams.admins.of(node.streams.catalog.storage("default"))).seal(entry.active.topic)
    asked = 0
    running = tools.store.running

    async def counted(name: str) -> Any:
        nonlocal asked
        asked += 1
        return await running(name)

    monkeypatch.setattr(node.streams.publisher._parts.switches, "running", counted)
    publishing = [client.post(f"/event-types/{name}/events", content=body({"n": n})) for n in range(50)]
    answers = await asyncio.gather(*publishing)
    node.streams.switches._mine.discard(switch.id)
    assert {answer.status_code for answer in answers} == {503}
    assert 0 < asked < 2 * len(answers)


async def _is_true(value: bool) -> bool:
    return value


async def test_counters_of_a_deleted_event_type_are_gone(client: httpx.AsyncClient) -> None:
    name = await new_event_type(client)
    assert (await client.post(f"/event-types/{name}/events", content=body({"n": 1}))).status_code == 200
    assert name in metrics.render().decode()
    assert (await client.delete(f"/event-types/{name}")).status_code == 200
    await eventually(lambda: _is_true(name not in metrics.render().decode()))
