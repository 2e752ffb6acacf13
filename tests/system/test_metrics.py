"""Metrics of a running node: made, measured, named by names, and gone with what they name."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from kazoo.client import KazooClient
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from conftest import RunningStack
from meantime.stack.model import Places
from meantime.workers.model import QueueSource

PRODUCER = {"X-Producer-Group": "tests"}


@pytest.fixture(scope="module")
def places(node_of: Callable[..., AbstractContextManager[Places]]) -> Iterator[Places]:
    with node_of() as opened:
        yield opened


@pytest.fixture(scope="module")
def http(places: Places) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=places.nodes[0].url, timeout=60, trust_env=False) as client:
        yield client


def families(http: httpx.Client) -> dict[str, Metric]:
    page = http.get("/metrics").raise_for_status().text
    return {family.name: family for family in text_string_to_metric_families(page)}


def series(http: httpx.Client, name: str, **labels: str) -> dict[tuple[str, ...], float]:
    """The values of a metric by its other labels, of those series that have these labels."""
    found = families(http).get(name.removesuffix("_total"))
    return {
        tuple(value for label, value in sorted(sample.labels.items()) if label not in labels): sample.value
        for sample in (found.samples if found else [])
        if sample.name == name and labels.items() <= sample.labels.items()
    }


def until(look: Callable[[], Any], expected: Any) -> None:
    deadline = time.monotonic() + 60
    while (found := look()) != expected:
        assert time.monotonic() < deadline, f"{found} instead of {expected}"
        time.sleep(0.5)


def test_a_topic_is_measured_by_status_and_forgotten_when_it_is_deleted(http: httpx.Client) -> None:
    topic, dead = f"mails-{uuid4().hex[:8]}", f"dead-{uuid4().hex[:8]}"
    http.put(f"/topics/{dead}", json={}).raise_for_status()
    http.put(f"/topics/{topic}", json={"max_attempts": 1, "dead_letter_topic": dead}).raise_for_status()
    messages = [{"id": f"late-{n}", "after_ms": 3_600_000, "body": n} for n in range(3)]
    messages += [{"id": f"due-{n}", "after_ms": 0, "body": n} for n in range(5)]
    http.post(f"/topics/{topic}/messages", json={"messages": messages}, headers=PRODUCER).raise_for_status()
    pulled = http.post(f"/topics/{topic}/leases", json={"consumer_id": "c", "limit": 3, "lease_ms": 600_000}).json()[
        "leases"
    ]
    first, second, _ = pulled
    done = {"consumer_id": "c", "leases": [{"id": first["id"], "version": first["version"]}]}
    http.post(f"/topics/{topic}/leases/delete", json=done).raise_for_status()
    back = {"consumer_id": "c", "leases": [{"id": second["id"], "version": second["version"], "after_ms": 10}]}
    http.post(f"/topics/{topic}/leases/release", json=back).raise_for_status()

    until(
        lambda: series(http, "meantime_topics_messages", topic=topic),
        {("waiting",): 3, ("processing",): 1, ("available",): 2, ("dead",): 0},
    )
    until(lambda: series(http, "meantime_topics_messages", topic=dead).get(("available",)), 1)
    assert series(http, "meantime_topics_created_total", topic=topic) == {(): 8}
    assert series(http, "meantime_topics_leased_total", topic=topic) == {("pull",): 3, ("push",): 0}
    assert series(http, "meantime_topics_deleted_total", topic=topic) == {(): 1}
    assert series(http, "meantime_topics_dead_total", topic=topic) == {(): 1}
    assert series(http, "meantime_topics_oldest_due_age_seconds", topic=topic)[()] > 0

    http.delete(f"/topics/{topic}").raise_for_status()
    until(lambda: topic in http.get("/metrics").text, False)
    assert series(http, "meantime_topics_messages", topic=dead)


def test_what_is_more_than_is_counted_is_estimated(http: httpx.Client) -> None:
    topics = [f"many-{uuid4().hex[:8]}" for _ in range(25)]
    for topic in topics:
        http.put(f"/topics/{topic}", json={}).raise_for_status()
    for _ in range(3):
        messages = [{"after_ms": 3_600_000, "body": n} for n in range(1000)]
        http.post(f"/topics/{topics[0]}/messages", json={"messages": messages}, headers=PRODUCER).raise_for_status()

    until(lambda: series(http, "meantime_topics_messages", topic=topics[0]).get(("waiting",)), 3000)
    for topic in topics:
        http.delete(f"/topics/{topic}")


def test_subscriptions_and_queues_lag_by_their_names(http: httpx.Client, places: Places) -> None:
    name, app = f"orders.{uuid4().hex[:8]}", f"shop-{uuid4().hex[:8]}"
    http.post("/event-types", json={"name": name, "owning_application": "tests"}).raise_for_status()
    wanted = {"owning_application": app, "consumer_group": "mail", "event_types": [name], "read_from": "begin"}
    subscription = http.post("/subscriptions", json=wanted).raise_for_status().json()["id"]
    http.post(f"/event-types/{name}/events", json=[{"n": n} for n in range(7)]).raise_for_status()
    until(lambda: series(http, "meantime_subscription_lag_events", owning_application=app), {("mail", name): 7})
    with http.stream("GET", f"/subscriptions/{subscription}/events", params={"batch_limit": 2}) as stream:
        batch = json.loads(next(stream.iter_lines()))
        headers = {"X-Nakadi-StreamId": stream.headers["X-Nakadi-StreamId"]}
        http.post(f"/subscriptions/{subscription}/cursors", json={"items": [batch["cursor"]]}, headers=headers)
    path = f"/apps/{app}/queues/{QueueSource(name, '0').queue}"
    zookeeper = KazooClient(places.zookeeper)
    zookeeper.start()
    record = {"last": "", "event_type": name, "partition": "0", "cursor": "001-0001-000000000000000002"}
    zookeeper.create(path, json.dumps(record).encode(), makepath=True)
    zookeeper.stop()
    zookeeper.close()

    until(lambda: series(http, "meantime_subscription_lag_events", owning_application=app), {("mail", name): 5})
    until(lambda: series(http, "meantime_app_queue_lag_events", app=app), {(name, "0"): 4})
    assert series(http, "meantime_app_workers", app=app) == {(): 0}
    assert series(http, "meantime_app_unowned_queues", app=app) == {(): 1}
    assert series(http, "meantime_events_published_total", event_type=name) == {(): 7}

    http.delete(f"/subscriptions/{subscription}").raise_for_status()
    http.delete(f"/apps/{app}").raise_for_status()
    until(lambda: app in http.get("/metrics").text, False)
    http.delete(f"/event-types/{name}").raise_for_status()
    until(lambda: name in http.get("/metrics").text, False)


def test_a_node_tells_its_state_its_release_and_what_it_refused(http: httpx.Client) -> None:
    for _ in range(3):
        assert http.get("/topics/nobody-made-it").status_code == 404
    http.post("/event-types", json={"name": "refusing", "category": "business"}).raise_for_status()
    assert http.post("/event-types/refusing/events", json=[{"n": 1}]).status_code == 422

    assert series(http, "meantime_node_state") == {("healthy",): 1, ("degraded",): 0, ("inactive",): 0}
    assert list(series(http, "meantime_build_info").values()) == [1]
    refused = series(http, "meantime_http_refusals_total")
    assert refused["not_found", "GET", "/topics/{topic}"] == 3
    assert refused["invalid", "POST", "/event-types/{name}/events"] == 1


def test_refused_requests_are_in_the_log_of_the_node(cluster: RunningStack) -> None:
    name = f"nobody.{uuid4().hex[:8]}"
    with httpx.Client(base_url=cluster.urls[0], timeout=60, trust_env=False) as http:
        for _ in range(4):
            assert http.post(f"/event-types/{name}/shifted-cursors", json=[]).status_code == 404
    log = next(Path(process.log) for process in cluster.status().processes if process.name == "node-1")

    def told() -> list[dict[str, Any]]:
        return [json.loads(line) for line in log.read_text("utf-8").splitlines() if "requests_refused" in line]

    until(lambda: any(name in line["detail"] for line in told()), True)
    line = next(line for line in told() if name in line["detail"])
    assert (line["method"], line["route"]) == ("POST", "/event-types/{name}/shifted-cursors")
    assert (line["code"], line["status"]) == ("not_found", 404)
    assert line["count"] >= 4
