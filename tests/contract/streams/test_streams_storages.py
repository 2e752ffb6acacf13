"""Storages over HTTP, on real clusters."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from streams_nodes import Node, new_event_type, open_node, open_place

from meantime.kafka.settings import configured_storages


@pytest_asyncio.fixture(scope="module")
async def node(services: Any) -> AsyncIterator[Node]:
    needed = {"for-timers": "where timers live"}
    async with open_place(services) as place, open_node(place, needed_storages=needed) as opened:
        yield opened


@pytest_asyncio.fixture(scope="module")
async def client(node: Node) -> AsyncIterator[httpx.AsyncClient]:
    async with node.client() as opened:
        yield opened


def storage(servers: str, **settings: str) -> dict[str, Any]:
    return {
        "id": f"s-{uuid4().hex[:8]}",
        "storage_type": "kafka",
        "kafka_configuration": {"bootstrap_servers": servers, "settings": settings},
    }


async def test_configured_clusters_are_registered_and_the_first_is_the_default(
    client: httpx.AsyncClient, services: Any
) -> None:
    found = {item["id"]: item for item in (await client.get("/storages")).json()}
    assert found["default"]["default"]
    assert not found["kafka-2"]["default"]
    assert found["kafka-2"]["kafka_configuration"]["bootstrap_servers"] == services.kafka[1]


async def test_settings_of_a_configured_cluster_change_when_they_are_given_and_stay_when_not(
    node: Node, client: httpx.AsyncClient, services: Any
) -> None:
    async def shown_after(settings: dict[str, str]) -> dict[str, str]:
        await node.streams.storages.register_configured(configured_storages(services.kafka, settings))
        return (await client.get("/storages/default")).json()["kafka_configuration"]["settings"]

    assert await shown_after({"client.id": "first"}) == {"client.id": "first"}
    assert await shown_after({}) == {"client.id": "first"}
    assert await shown_after({"client.id": "second"}) == {"client.id": "second"}


async def test_a_storage_is_registered_shown_and_deleted(client: httpx.AsyncClient, services: Any) -> None:
    document = storage(services.kafka[1], **{"client.id": "me"})
    created = await client.post("/storages", json=document)
    assert created.status_code == 201
    assert created.json() == {**document, "default": False}
    assert (await client.post("/storages", json=document)).status_code == 409
    path = f"/storages/{document['id']}"
    assert (await client.get(path)).json() == created.json()
    assert (await client.delete(path)).status_code == 204
    assert (await client.delete(path)).status_code == 404
    assert (await client.get(path)).status_code == 404


async def test_the_clients_of_a_deleted_storage_are_closed(node: Node, client: httpx.AsyncClient, services: Any) -> None:
    async def until(condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():  # noqa: ASYNC110
                await asyncio.sleep(0.05)

    before = kafka_clients()
    document = storage(services.kafka[1])
    for _ in range(2):  # its name can be used again
        assert (await client.post("/storages", json=document)).status_code == 201
        await node.streams.admins.of(await node.streams.storages.get(document["id"])).reach()
        await until(lambda: kafka_clients() == before + 2)
        assert (await client.delete(f"/storages/{document['id']}")).status_code == 204
        await until(lambda: kafka_clients() == before)


def kafka_clients() -> int:
    """How many of librdkafka's clients this process has: each has one such thread."""
    found = 0
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has ended meanwhile
            found += path.read_text().strip() == "rdk:main"
    return found


async def test_a_storage_that_does_not_answer_is_refused(client: httpx.AsyncClient) -> None:
    answer = await client.post("/storages", json=storage("127.0.0.1:1"))
    assert answer.status_code == 422
    assert "reached" in answer.json()["detail"]


@pytest.mark.parametrize(
    "setting", [{"security.protocol": "nonsense"}, {"ssl.nonsense": "1"}, {"acks": "0"}, {"socket.timeout.ms": "soon"}]
)
async def test_settings_that_the_client_refuses_are_refused(
    client: httpx.AsyncClient, services: Any, setting: dict[str, str]
) -> None:
    assert (await client.post("/storages", json=storage(services.kafka[1], **setting))).status_code == 422


async def test_secrets_do_not_come_back(client: httpx.AsyncClient, services: Any) -> None:
    document = storage(services.kafka[1], **{"ssl.key.password": "s3cret", "client.id": "x"})
    created = await client.post("/storages", json=document)
    assert created.status_code == 201, created.text
    for answer in (created, await client.get(f"/storages/{document['id']}"), await client.get("/storages")):
        assert "s3cret" not in answer.text
    await client.delete(f"/storages/{document['id']}")


async def test_the_default_and_what_is_used_cannot_be_deleted(client: httpx.AsyncClient, services: Any) -> None:
    assert (await client.delete("/storages/default")).status_code == 403
    name = await new_event_type(client)
    document = storage(services.kafka[1])
    await client.post("/storages", json=document)
    switched = await client.post(f"/event-types/{name}/timelines", json={"storage_id": document["id"]})
    assert switched.status_code == 201
    assert (await client.delete(f"/storages/{document['id']}")).status_code == 403


async def test_a_storage_that_a_node_needs_cannot_be_deleted(client: httpx.AsyncClient, services: Any) -> None:
    document = {**storage(services.kafka[1]), "id": "for-timers"}
    assert (await client.post("/storages", json=document)).status_code == 201
    refused = await client.delete("/storages/for-timers")
    assert refused.status_code == 403
    assert refused.json()["detail"] == "storage 'for-timers' cannot be deleted: it is where timers live"
    assert (await client.get("/storages/for-timers")).status_code == 200


async def test_another_storage_becomes_the_default_of_new_event_types(client: httpx.AsyncClient) -> None:
    assert (await client.put("/storages/default/nothing")).status_code == 404
    try:
        assert (await client.put("/storages/default/kafka-2")).json()["default"]
        name = await new_event_type(client)
        (timeline,) = (await client.get(f"/event-types/{name}/timelines")).json()
        assert timeline["storage_id"] == "kafka-2"
        assert [item["id"] for item in (await client.get("/storages")).json() if item["default"]] == ["kafka-2"]
    finally:
        await client.put("/storages/default/default")
