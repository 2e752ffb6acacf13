"""Rows of the table about streams: publishing and reading against Kafka's own clients in one Python process."""

import json
import statistics
import time
from collections.abc import Callable
from uuid import uuid4

import httpx
import reading
import uvloop
from _edge_idle import NodeProcess
from _streams_load import hammer
from _table_model import Stage, Values
from streams import EVENTS, apart, bare_producer, declare, through_node

BUSINESS_FIELDS = 20
READ, READ_SHORT = 400_000, 100_000


def in_turns(turns: int, ours: Callable[[], float], theirs: Callable[[], float]) -> tuple[float, float, float]:
    """The medians of both sides, and that of the ratios: turn by turn, since the machine changes between turns."""
    pairs = [(theirs(), ours()) for _ in range(turns)]
    return (
        statistics.median(own for _, own in pairs),
        statistics.median(other for other, _ in pairs),
        statistics.median(own / other for other, own in pairs),
    )


def costing(stage: Stage, work: Callable[[], float], costs: list[float]) -> Callable[[], float]:
    """The same work, which returns events a second; `costs` gets the node's microseconds of processor for an event."""
    node = NodeProcess(stage.pids["node-1"])

    def measured() -> float:
        before = node.cpu_seconds()
        rate = work()
        costs.append((node.cpu_seconds() - before) * 1e6 / (rate * stage.seconds))
        return rate

    return measured


def publish(stage: Stage) -> Values:
    name, costs = declare(stage.url, 8), list[float]()
    topic = httpx.get(f"{stage.url}/event-types/{name}/timelines").json()[0]["topic"]
    ours, theirs, ratio = in_turns(
        stage.turns,
        costing(stage, lambda: through_node(stage.url, name, stage.seconds), costs),
        lambda: apart(bare_producer, stage.places.kafka[0], topic, 8, stage.seconds),  # type: ignore[arg-type, return-value]
    )
    return {"ratio": ratio, "events_per_s": ours, "peer_per_s": theirs, "node_us": statistics.median(costs)}


def business(stage: Stage) -> Values:
    """Events with a schema that is checked and metadata that is completed, against the same bytes that nobody looks at."""
    plain, name = declare(stage.url, 8), _declare_business(stage.url)
    body = json.dumps([_business_event(number) for number in range(EVENTS)]).encode()
    costs: tuple[list[float], list[float]] = [], []
    sides = [
        costing(stage, lambda one=one: apart(_hammer, stage.url, one, body, stage.seconds), spent)  # type: ignore[misc]
        for one, spent in zip((name, plain), costs, strict=True)
    ]
    ours, theirs, ratio = in_turns(stage.turns, *sides)
    spent, plainly = map(statistics.median, costs)
    return {"ratio": ratio, "events_per_s": ours, "undefined_per_s": theirs, "node_us": spent, "undefined_node_us": plainly}


def _hammer(url: str, name: str, body: bytes, seconds: float) -> float:
    path = f"/event-types/{name}/events"
    count, _ = uvloop.run(hammer(url, path, body, connections=16, seconds=seconds))
    return count * EVENTS / seconds


def _declare_business(url: str) -> str:
    name = f"bench.{uuid4().hex[:8]}"
    texts = {f"field_{number}": {"type": "string", "maxLength": 40} for number in range(BUSINESS_FIELDS - 4)}
    line = {"type": "object", "properties": {"sku": {"type": "string"}, "count": {"type": "integer", "minimum": 1}}}
    address = {"type": "object", "properties": {"city": {"type": "string"}, "zip": {"type": "string"}}, "required": ["city"]}
    schema = {
        "type": "object",
        "properties": {
            **texts,
            "order": {"type": "string"},
            "total": {"type": "number", "minimum": 0},
            "address": address,
            "lines": {"type": "array", "items": line | {"required": ["sku", "count"]}},
        },
        "required": ["order", "total", "lines"],
    }
    document = {
        "name": name,
        "owning_application": "bench",
        "category": "business",
        "enrichment_strategies": ["metadata_enrichment"],
        "schema": {"type": "json_schema", "schema": json.dumps(schema)},
        "default_statistic": {
            "read_parallelism": 8,
            "write_parallelism": 8,
            "messages_per_minute": 1,
            "message_size": 600,
        },
    }
    httpx.post(f"{url}/event-types", json=document, timeout=30).raise_for_status()
    return name


def _business_event(number: int) -> dict[str, object]:
    eid = f"{number:08x}-0000-4000-8000-000000000000"
    return {
        "metadata": {"eid": eid, "occurred_at": "2026-11-18T10:00:00Z"},
        **{f"field_{index}": f"value {index}" for index in range(BUSINESS_FIELDS - 4)},
        "order": f"o-{number}",
        "total": 12.5,
        "address": {"city": "Berlin", "zip": "10115"},
        "lines": [{"sku": "a-1", "count": 2}, {"sku": "b-2", "count": 1}],
    }


# Reading


def read(stage: Stage) -> Values:
    events, partitions = READ_SHORT if stage.short else READ, 4
    places, name, topic = _filled(stage, partitions, events)
    ours, theirs, ratio = in_turns(
        stage.turns,
        lambda: events / reading.read_all(places, name, partitions, events, 100),
        lambda: _bare(stage, topic, partitions, events),
    )
    return {"ratio": ratio, "events_per_s": ours, "peer_per_s": theirs}


def subscription(stage: Stage) -> Values:
    """Lines of 1,000 events are parsed, and the place is committed after each of them."""
    events, partitions = READ_SHORT if stage.short else READ // 2, 4
    places, name, topic = _filled(stage, partitions, events)
    ours, theirs, ratio = in_turns(
        stage.turns,
        lambda: apart(_subscribed, places.url, name, events),  # type: ignore[arg-type, return-value]
        lambda: _bare(stage, topic, partitions, events),
    )
    return {"ratio": ratio, "events_per_s": ours, "peer_per_s": theirs}


def _filled(stage: Stage, partitions: int, events: int) -> tuple[reading.Places, str, str]:
    places = reading.Places(stage.url, {"default": stage.places.kafka[0]})
    name = reading.event_type(places, partitions)
    reading.fill(places, name, partitions, events)
    return places, name, reading.active(places, name)["topic"]


def _bare(stage: Stage, topic: str, partitions: int, events: int) -> float:
    return events / reading.apart(reading.bare_consumer, stage.places.kafka[0], topic, partitions, events)


def _subscribed(url: str, name: str, events: int) -> float:
    document = {"owning_application": f"bench-{uuid4().hex[:8]}", "event_types": [name], "read_from": "begin"}
    id = httpx.post(f"{url}/subscriptions", json=document, timeout=30).raise_for_status().json()["id"]
    params = {"batch_limit": 1000, "max_uncommitted_events": 20_000, "stream_limit": events, "batch_flush_timeout": 1}
    began = time.perf_counter()
    with (
        httpx.Client(base_url=url, timeout=60, trust_env=False) as committer,
        httpx.stream("GET", f"{url}/subscriptions/{id}/events", params=params, timeout=60, trust_env=False) as response,
    ):
        headers = {"X-Nakadi-StreamId": response.headers["X-Nakadi-StreamId"]}
        for line in response.iter_lines():
            batch = json.loads(line)
            committer.post(f"/subscriptions/{id}/cursors", json={"items": [batch["cursor"]]}, headers=headers)
    return events / (time.perf_counter() - began)
