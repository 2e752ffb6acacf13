"""Streaming reads against a bare consumer: same brokers, same consumer settings, same run; events of 200 bytes.

    python bench/reading.py                     everything, 400,000 events
    python bench/reading.py --events 2000000    more of them
    python bench/reading.py --only timelines    parts: throughput timelines latency tail subscription

Absolute numbers depend on the machine and on what else runs on it; the ratios are what to look at. The two sides take
turns, and medians are compared. The stream is read from a raw socket in a process of its own, as the bare consumer is.
"""

import argparse
import json
import multiprocessing
import socket
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
from confluent_kafka import Consumer, Producer, TopicPartition
from rich.console import Console
from rich.table import Table

from meantime.kafka.consumer import SETTINGS
from meantime.stack.session import running

EVENT = json.dumps({"order": "x" * 188}).encode()
ROUNDS = 5
console = Console(width=110)


@dataclass(frozen=True)
class Places:
    url: str
    kafka: dict[str, str]


# The two sides, each in a process of its own


def bare_consumer(servers: str, topic: str, partitions: int, events: int) -> float:
    """Seconds until a plain loop has every value in its hands."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "bench", **SETTINGS})
    began = time.perf_counter()
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    seen = size = 0
    while seen < events:
        for message in consumer.consume(1000, 0.1):
            if message.error() is None:
                size += len(message.value() or b"")
                seen += 1
    took = time.perf_counter() - began
    consumer.close()
    return took


def stream(url: str, path: str, headers: dict[str, str]) -> float:
    """Seconds until a stream that ends by its own limit has been received."""
    host, _, port = url.removeprefix("http://").partition(":")
    sent = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    began = time.perf_counter()
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(f"GET {path} HTTP/1.1\r\nhost: bench\r\n{sent}\r\n".encode())
        buffer, tail = bytearray(1 << 20), b""
        while not tail.endswith(b"0\r\n\r\n"):
            count = connection.recv_into(buffer)
            if count == 0:
                raise RuntimeError("the stream broke")
            tail = (tail + bytes(buffer[max(0, count - 5) : count]))[-5:]
    return time.perf_counter() - began


def _call(work: Callable[..., float], arguments: tuple[Any, ...], answer: Any) -> None:
    answer.put(work(*arguments))


def apart(work: Callable[..., float], *arguments: Any) -> float:
    context = multiprocessing.get_context("spawn")
    answer = context.Queue()
    process = context.Process(target=_call, args=(work, arguments, answer))
    process.start()
    took = answer.get(timeout=300)
    process.join()
    return took


# What is read


def event_type(places: Places, partitions: int = 1) -> str:
    name = f"bench.{uuid4().hex[:8]}"
    parallelism = {"read_parallelism": partitions, "write_parallelism": partitions}
    document = {
        "name": name,
        "owning_application": "bench",
        "category": "undefined",
        "schema": {"type": "json_schema", "schema": "{}"},
        "default_statistic": parallelism | {"messages_per_minute": 1, "message_size": 200},
    }
    httpx.post(f"{places.url}/event-types", json=document, timeout=30).raise_for_status()
    return name


def active(places: Places, name: str) -> dict[str, Any]:
    return httpx.get(f"{places.url}/event-types/{name}/timelines", timeout=30).json()[-1]


def fill(places: Places, name: str, partitions: int, events: int) -> None:
    """Straight into the topic of the active timeline: only reading is measured here."""
    timeline = active(places, name)
    producer = Producer({"bootstrap.servers": places.kafka[timeline["storage_id"]], "linger.ms": 20})
    for number in range(events):
        while True:
            try:
                producer.produce(timeline["topic"], EVENT, partition=number % partitions)
                break
            except BufferError:
                producer.poll(0.1)
    producer.flush()


def switch(places: Places, name: str, storage_id: str) -> None:
    body = {"storage_id": storage_id}
    httpx.post(f"{places.url}/event-types/{name}/timelines", json=body, timeout=60).raise_for_status()


def read_all(places: Places, name: str, partitions: int, events: int, batch_limit: int) -> float:
    cursors = [{"partition": str(partition), "offset": "BEGIN"} for partition in range(partitions)]
    path = f"/event-types/{name}/events?batch_limit={batch_limit}&stream_limit={events}&batch_flush_timeout=1"
    return apart(stream, places.url, path, {"X-Nakadi-Cursors": json.dumps(cursors)})


# What is measured


def throughput(places: Places, events: int) -> None:
    partitions, limits = 4, (1, 10, 100, 1000)
    name = event_type(places, partitions)
    fill(places, name, partitions, events)
    timeline = active(places, name)
    servers = places.kafka[timeline["storage_id"]]
    bare: list[float] = []
    streamed: dict[int, list[float]] = {limit: [] for limit in limits}
    for _ in range(ROUNDS):
        bare.append(events / apart(bare_consumer, servers, timeline["topic"], partitions, events))
        for limit in limits:
            streamed[limit].append(events / read_all(places, name, partitions, events, limit))
    table = Table(title=f"Streaming {events:,} events of {len(EVENT)} bytes; the target is 0.4 of a bare consumer")
    for column in ("side", "events a second", "of the bare consumer"):
        table.add_column(column, justify="left" if column == "side" else "right")
    table.add_row("bare confluent-kafka loop", f"{statistics.median(bare):,.0f}", "1.00")
    for limit, rates in streamed.items():
        ratio = statistics.median(rates) / statistics.median(bare)
        table.add_row(f"stream, batch_limit {limit}", f"{statistics.median(rates):,.0f}", f"{ratio:.2f}")
    console.print(table)


def timelines(places: Places, events: int) -> None:
    rates: dict[int, list[float]] = {1: [], 20: [], 50: []}
    names = {}
    for count in rates:
        names[count] = name = event_type(places)
        for index in range(count):
            if index:
                switch(places, name, list(places.kafka)[index % 2])
            fill(places, name, 1, events // count)
    for _ in range(ROUNDS):
        for count, name in names.items():
            read = events // count * count
            rates[count].append(read / read_all(places, name, 1, read, 100))
    one, *more = (statistics.median(found) for found in rates.values())
    console.print(f"Over 1 timeline {one:,.0f} events/s")
    for count, rate in zip(list(rates)[1:], more, strict=True):
        console.print(f"Over {count} timelines on two clusters {rate:,.0f} events/s: {rate / one:.2f} of one")


def latency(places: Places, events: int) -> None:
    del events
    name = event_type(places)
    timeline = active(places, name)
    producer = Producer({"bootstrap.servers": places.kafka[timeline["storage_id"]], "linger.ms": 0})
    delays = []
    with httpx.stream("GET", f"{places.url}/event-types/{name}/events", timeout=30) as response:
        lines = response.iter_lines()
        for number in range(200):
            time.sleep(0.01 + (number % 7) * 0.005)
            producer.produce(timeline["topic"], EVENT)
            producer.flush()
            written_at = time.perf_counter()
            next(lines)
            delays.append((time.perf_counter() - written_at) * 1000)
    delays.sort()
    console.print(f"An idle stream shows an event {delays[100]:.1f} ms (p50), {delays[197]:.1f} ms (p99) after Kafka has it")


def tail(places: Places, events: int) -> None:
    """Readers that wait at the end while events are written as fast as they can be."""
    for readers, count in ((1, events), (20, events // 10)):
        rates = []
        for _ in range(ROUNDS):
            name = event_type(places)
            path = f"/event-types/{name}/events?batch_limit=100&stream_limit={count}&batch_flush_timeout=1"
            with ThreadPoolExecutor(readers) as threads:
                reading = [threads.submit(stream, places.url, path, {}) for _ in range(readers)]
                time.sleep(2)
                began = time.perf_counter()
                fill(places, name, 1, count)
                for one in reading:
                    one.result()
                rates.append(count * readers / (time.perf_counter() - began))
        console.print(f"{readers} at the end of a busy event type: {statistics.median(rates):,.0f} events/s together")


def subscription(places: Places, events: int) -> None:
    partitions = 4
    name = event_type(places, partitions)
    fill(places, name, partitions, events)
    document = {"owning_application": "bench", "event_types": [name], "read_from": "begin"}
    id = httpx.post(f"{places.url}/subscriptions", json=document, timeout=30).json()["id"]
    params = {"batch_limit": 1000, "max_uncommitted_events": 20_000, "stream_limit": events, "batch_flush_timeout": 1}
    seen = commits = 0
    began = time.perf_counter()
    with (
        httpx.Client(base_url=places.url, timeout=30) as committer,
        httpx.stream("GET", f"{places.url}/subscriptions/{id}/events", params=params, timeout=60) as response,
    ):
        headers = {"X-Nakadi-StreamId": response.headers["X-Nakadi-StreamId"]}
        for line in response.iter_lines():
            batch = json.loads(line)
            seen += len(batch.get("events", ()))
            done = committer.post(f"/subscriptions/{id}/cursors", json={"items": [batch["cursor"]]}, headers=headers)
            commits += done.status_code == 204
    took = time.perf_counter() - began
    rate, committed = f"{seen / took:,.0f}", f"{commits / took:,.0f}"
    console.print(f"A subscription: {rate} events/s parsed and committed in batches of 1000, {committed} commits/s")


PARTS = {part.__name__: part for part in (throughput, timelines, latency, tail, subscription)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=400_000)
    parser.add_argument("--only", default=",".join(PARTS), help="parts, separated by commas")
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder,
        running(Path(folder) / "data", nodes=1, kafka=2, port=None) as stack,
    ):
        storages = httpx.get(f"{stack.nodes[0].url}/storages", timeout=30).json()
        kafka = {one["id"]: one["kafka_configuration"]["bootstrap_servers"] for one in storages}
        places = Places(stack.nodes[0].url, kafka)
        for part in arguments.only.split(","):
            PARTS[part](places, arguments.events)


if __name__ == "__main__":
    main()
