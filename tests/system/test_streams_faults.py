"""Streams under faults, with real processes: a short form of `meantime chaos`, and leaving a dead storage."""

import asyncio
import json
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx
import pytest

from conftest import Breakable
from meantime.chaos.faults import FAULTS, FaultSite
from meantime.chaos.streams import ChaosPlan, play
from meantime.errors import StorageUnavailable

pytestmark = [pytest.mark.lane("streams"), pytest.mark.takes(seconds=110)]

SHORT = [
    fault
    for fault in FAULTS
    if fault.name
    in (
        "initiator killed after the commit",
        "a node frozen beyond its session",
        "initiator killed before the commit",
        "a node frozen for a moment",
        "ZooKeeper killed",
    )
]


@pytest.mark.timeout(400)
def test_nothing_is_lost_twice_or_out_of_order_whatever_dies(breakable: Breakable) -> None:
    plan = ChaosPlan(seed=3, switches=len(SHORT), event_types=2, faults=SHORT, session_timeout=2.0, pause=0.02)
    site = FaultSite(breakable.folder, breakable.fault_file, freeze_for=plan.session_timeout * 2.5)
    report = play(breakable.places, site, plan, print)
    assert report.good, "\n".join(report.lines())
    assert report.switched == len(SHORT)
    assert report.acknowledged > 100


@pytest.mark.timeout(300)
def test_a_switch_goes_on_without_a_frozen_node_which_then_loses_nothing(breakable: Breakable) -> None:
    """Its session outlives the switch: nobody but the sealed topic tells it that it was overtaken."""
    assert breakable.until_whole()
    one, two = (httpx.Client(base_url=url, timeout=60.0) for url in breakable.urls[:2])
    name = "overtaken"
    assert one.post("/event-types", json={"name": name, "category": "undefined"}).status_code == 201
    assert publish(one, name, 1).status_code == 200
    assert publish(two, name, 2).status_code == 200

    breakable.send("node-2", signal.SIGSTOP)
    try:
        with ThreadPoolExecutor() as beside:
            late = beside.submit(publish, two, name, 4)
            switched = one.post(f"/event-types/{name}/timelines", json={"storage_id": "kafka-2"})
            assert switched.status_code == 201, switched.text
            assert publish(one, name, 3).status_code == 200
            breakable.send("node-2", signal.SIGCONT)
            assert late.result().status_code == 200
    finally:
        breakable.send("node-2", signal.SIGCONT)
    (report,) = one.get(f"/event-types/{name}/switches").json()
    assert (report["state"], report["overtaken"]) == ("done", ["node-2"])
    assert publish(two, name, 5).status_code == 200
    assert one.get(f"/event-types/{name}/timelines").json()[0]["latest_position"] == {"offsets": [1]}
    for url in breakable.urls[:2]:
        assert read_all(url, name, at_least=5) == [1, 2, 3, 4, 5]


def publish(client: httpx.Client, name: str, *numbers: int, timeout: float = 30.0) -> httpx.Response:
    return client.post(f"/event-types/{name}/events", json=[{"n": number} for number in numbers], timeout=timeout)


def read_all(url: str, name: str, at_least: int) -> list[int]:
    """Every event, to the end: a line without events says that there is nothing more."""
    headers = {"X-Nakadi-Cursors": json.dumps([{"partition": "0", "offset": "BEGIN"}])}
    path = f"{url}/event-types/{name}/events?batch_limit=100&batch_flush_timeout=1&stream_timeout=60"
    found: list[int] = []
    with httpx.stream("GET", path, headers=headers, timeout=60.0) as answer:
        for line in answer.iter_lines():
            events = json.loads(line).get("events", ())
            found += [event["n"] for event in events]
            if not events and len(found) >= at_least:
                break
    return found


@pytest.mark.timeout(300)
def test_a_dead_storage_can_be_left_by_force_and_what_was_acknowledged_is_kept(breakable: Breakable) -> None:
    assert breakable.until_whole()
    one, two = (httpx.Client(base_url=url, timeout=60.0) for url in breakable.urls[:2])
    name = "orders"
    assert one.post("/event-types", json={"name": name, "category": "undefined"}).status_code == 201
    path = f"/event-types/{name}/timelines"
    assert one.post(path, json={"storage_id": "kafka-2"}).status_code == 201
    assert publish(one, name, 1, 2, 3).status_code == 200
    assert publish(two, name, 4).status_code == 200

    breakable.send("kafka-2", signal.SIGSTOP)
    try:
        refused = one.post(path, json={"storage_id": "default"})
        assert refused.status_code == 503, refused.text
        assert len(one.get(path).json()) == 2
        with ThreadPoolExecutor() as beside:
            stuck = beside.submit(publish, two, name, 99)
            time.sleep(0.5)
            forced = one.post(path, json={"storage_id": "default", "force": True})
            assert forced.status_code == 201, forced.text
            assert [item["publishing_status"] for item in stuck.result().json()] == ["failed"]
        assert forced.json()["order"] == 3
        closed = one.get(path).json()[1]
        assert closed["latest_position"] == {"offsets": [3]}
        assert publish(two, name, 5, 6).status_code == 200
    finally:
        breakable.send("kafka-2", signal.SIGCONT)
    asyncio.run(_until_sealed(breakable.places.kafka[1], closed["topic"]))
    assert read_all(breakable.urls[1], name, at_least=6) == [1, 2, 3, 4, 5, 6]


async def _until_sealed(servers: str, topic: str) -> None:
    """The topic that was left is sealed as soon as its storage is back."""
    from meantime.kafka.admin import Admin
    from meantime.kafka.settings import Storage

    admin, deadline = Admin(Storage("left", servers)), time.monotonic() + 60
    while time.monotonic() < deadline:
        with suppress(StorageUnavailable):  # it is still waking up
            if (await admin.topic_settings(topic))["max.message.bytes"][0] == "0":
                return
        await asyncio.sleep(0.5)
    raise AssertionError(f"{topic} was not sealed")
