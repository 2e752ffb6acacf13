"""Clean-up that waits for an archive, on real nodes and storages."""

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import httpx
import pytest_asyncio
from streams_nodes import Node, body, eventually, new_event_type, open_node, open_place

from meantime import Client
from meantime.pipelines.archive.hold import ArchiveHold
from meantime.streams.catalog.archive_hold import ARCHIVED_TIMELINE


@pytest_asyncio.fixture(scope="module")
async def node(services: Any) -> AsyncIterator[Node]:
    async with open_place(services) as place, open_node(place) as opened:
        yield opened


@pytest_asyncio.fixture
async def http(node: Node) -> AsyncIterator[httpx.AsyncClient]:
    async with node.client() as opened:
        yield opened


async def filled(http: httpx.AsyncClient, **fields: Any) -> str:
    """An event type with events, whose timelines are kept for a second after they are closed."""
    name = await new_event_type(http, options={"retention_time": 1000}, **fields)
    await http.post(f"/event-types/{name}/events", content=body({"n": 1}, {"n": 2}))
    return name


async def switch(http: httpx.AsyncClient, name: str) -> None:
    assert (await http.post(f"/event-types/{name}/timelines", json={"storage_id": "kafka-2"})).status_code == 201


async def switched(http: httpx.AsyncClient, **fields: Any) -> str:
    """An event type with one closed timeline, whose time is over in a second."""
    name = await filled(http, **fields)
    await switch(http, name)
    return name


async def timelines(http: httpx.AsyncClient, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await http.get(f"/event-types/{name}/timelines")).json()
    return found


async def deleted(http: httpx.AsyncClient, name: str) -> bool:
    return bool((await timelines(http, name))[0]["deleted"])


async def retention_in_kafka(node: Node, topic: str) -> str:
    admin = node.streams.admins.of(node.streams.catalog.storage("default"))
    return str((await admin.topic_settings(topic))["retention.ms"][0])


async def test_a_closed_timeline_stays_until_the_archive_has_it(http: httpx.AsyncClient, node: Node) -> None:
    name = await filled(http, annotations={"team": "shop"})
    with Client(node.url) as client:
        mark = await asyncio.to_thread(ArchiveHold, client, name, "shelf")
        assert not mark.wanted
        await asyncio.to_thread(mark.advance, 0)
        await switch(http, name)
        (old, _) = await timelines(http, name)
        due_at = datetime.fromisoformat(old["cleaned_up_at"]).timestamp()
        await asyncio.sleep(max(0.0, due_at - time.time()) + 0.1)
        await node.streams.retention.run_once()
        assert not await deleted(http, name)
        assert await retention_in_kafka(node, old["topic"]) == "-1"

        await asyncio.to_thread(mark.advance, 1)
        await eventually(lambda: deleted(http, name))
        annotations = (await http.get(f"/event-types/{name}")).json()["annotations"]
        assert annotations == {"team": "shop", f"{ARCHIVED_TIMELINE}.shelf": "1"}


async def test_without_the_mark_nothing_waits_any_more(http: httpx.AsyncClient, node: Node) -> None:
    name = await switched(http, annotations={f"{ARCHIVED_TIMELINE}.shelf": "none yet"})
    await asyncio.sleep(1.2)
    await node.streams.retention.run_once()
    assert not await deleted(http, name), "a mark that is no number keeps everything"
    with Client(node.url) as client:
        await asyncio.to_thread(lambda: ArchiveHold(client, name, "shelf").remove())
    await eventually(lambda: deleted(http, name))


async def test_clean_up_waits_for_the_slowest_of_two_archives(http: httpx.AsyncClient, node: Node) -> None:
    name = await filled(http)
    with Client(node.url) as client:
        quick, slow = [await asyncio.to_thread(ArchiveHold, client, name, archive) for archive in ("quick", "slow")]
        await asyncio.to_thread(slow.advance, 0)
        await asyncio.to_thread(quick.advance, 1)
        await switch(http, name)
        await asyncio.sleep(1.2)
        await node.streams.retention.run_once()
        assert not await deleted(http, name)
        await asyncio.to_thread(slow.advance, 1)
        await eventually(lambda: deleted(http, name))


async def test_an_archive_puts_its_mark_right_when_another_has_undone_it(http: httpx.AsyncClient, node: Node) -> None:
    name = await switched(http)
    with Client(node.url) as client:
        mark = await asyncio.to_thread(ArchiveHold, client, name, "shelf")
        await asyncio.to_thread(mark.advance, 0)
        await http.put(f"/event-types/{name}", json={"annotations": {f"{ARCHIVED_TIMELINE}.other": "0"}})
        await asyncio.to_thread(mark.advance, 0)
    annotations = (await http.get(f"/event-types/{name}")).json()["annotations"]
    assert annotations == {f"{ARCHIVED_TIMELINE}.shelf": "0", f"{ARCHIVED_TIMELINE}.other": "0"}


async def test_annotations_that_are_no_marks_hold_nothing(http: httpx.AsyncClient, node: Node) -> None:
    strange: list[dict[str, Any]] = [{}, {"annotations": [ARCHIVED_TIMELINE]}, {"annotations": {"team": "shop"}}]
    names = [await switched(http, **fields) for fields in strange]
    await asyncio.sleep(1.2)
    await node.streams.retention.run_once()
    for name in names:
        await eventually(lambda name=name: deleted(http, name))


async def test_a_new_retention_does_not_reach_what_is_held(http: httpx.AsyncClient, node: Node) -> None:
    name = await switched(http, annotations={ARCHIVED_TIMELINE: "0"})
    old = (await timelines(http, name))[0]["topic"]
    await node.streams.retention.run_once()
    await http.put(f"/event-types/{name}", json={"options": {"retention_time": 5000}})
    assert await retention_in_kafka(node, old) == "-1"
