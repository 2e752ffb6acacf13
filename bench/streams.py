"""Streams: the stall of a switch under load, and publishing against a bare producer, in one run on one stack.

    stall      3 nodes under load, 50 switches of one event type between two clusters; the distribution of the stall
    frozen     the same with one node of the three frozen before each of 30 switches
    publish    POST /event-types/{n}/events on one node against confluent-kafka in one Python process with the same settings
    timelines  publishing to an event type with 50 timelines and to one with 1

The two sides of a ratio take turns, and the middle of several turns counts.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from uuid import uuid4

import httpx
import uvloop
from _streams_load import Connection, batch, connect, hammer, percentile, request
from confluent_kafka import Producer

from meantime.stack.folder import Folder
from meantime.stack.model import Places
from meantime.stack.session import running

EVENTS, SIZE = 100, 200
WARM, COLD = 3.0, 3
"""Seconds of load before the first switch, and how many switches are told apart: the first that each node leads."""

TARGETS = {"stall p50": 100.0, "stall p99": 300.0, "frozen p50": 400.0, "frozen p99": 800.0, "publish": 0.4}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--switches", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=4.0, help="length of one turn")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--timelines", type=int, default=50)
    parser.add_argument("--frozen", type=int, default=30, help="switches with a frozen node")
    parser.add_argument("parts", nargs="*", default=["publish", "stall", "frozen", "timelines"])
    options = parser.parse_args()
    parts = {"publish": publish, "stall": stall, "frozen": frozen, "timelines": timelines}
    with (
        tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder,
        running(Path(folder) / "stack", nodes=3, kafka=2, port=None) as places,
    ):
        options.data = Path(folder) / "stack"
        for part in options.parts:
            print(f"\n{part}", flush=True)
            parts[part](places, options)
    return 0


def declare(url: str, partitions: int = 1) -> str:
    name = f"bench.{uuid4().hex[:8]}"
    statistic = {"read_parallelism": partitions, "write_parallelism": partitions}
    document = {"name": name, "category": "undefined", "default_statistic": statistic}
    httpx.post(f"{url}/event-types", json=document, timeout=30).raise_for_status()
    return name


def switch(url: str, name: str, storage_id: str) -> None:
    path = f"{url}/event-types/{name}/timelines"
    httpx.post(path, json={"storage_id": storage_id}, timeout=60).raise_for_status()


# Publishing


def publish(places: Places, options: argparse.Namespace) -> None:
    for partitions in (1, 8):
        name = declare(places.nodes[0].url, partitions)
        topic = httpx.get(f"{places.nodes[0].url}/event-types/{name}/timelines").json()[0]["topic"]
        in_turns(
            f"{EVENTS} x {SIZE} B, {partitions} partition{'s' * (partitions > 1)}",
            options.turns,
            node=lambda name=name: through_node(places.nodes[0].url, name, options.seconds),
            bare=lambda topic=topic, partitions=partitions: apart(
                bare_producer, places.kafka[0], topic, partitions, options.seconds
            ),
            target=TARGETS["publish"],
        )


def through_node(url: str, name: str, seconds: float, connections: int = 16) -> float:
    """Events per second that one node acknowledges."""
    path = f"/event-types/{name}/events"
    return apart(_hammer, url, path, connections, seconds)


def through_nodes(urls: list[str], name: str, seconds: float) -> float:
    """The same for several nodes, each with a client of its own."""
    path = f"/event-types/{name}/events"
    with multiprocessing.get_context("spawn").Pool(len(urls)) as pool:
        return sum(pool.starmap(_hammer, [(url, path, 16, seconds) for url in urls]))


def _hammer(url: str, path: str, connections: int, seconds: float) -> float:
    count, _ = uvloop.run(hammer(url, path, batch(EVENTS, SIZE), connections=connections, seconds=seconds))
    return count * EVENTS / seconds


def bare_producer(servers: str, topic: str, partitions: int, seconds: float) -> float:
    """Events per second that a plain producer gets acknowledged: one process, the node's settings, reports counted."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "acks": "all",
            "enable.idempotence": True,
            "linger.ms": 2,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 500_000,
        }
    )
    event, acknowledged = b'{"order":"' + b"x" * (SIZE - 12) + b'"}', 0

    def heard(error: object, _: object) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer.produce(topic, event, partition=0)
    producer.flush(10)
    started, number = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        for _ in range(EVENTS):
            try:
                producer.produce(topic, event, partition=number % partitions, on_delivery=heard)
            except BufferError:
                producer.poll(0.05)
            number += 1
        producer.poll(0)
    producer.flush(30)
    return acknowledged / (time.perf_counter() - started)


# Timelines


def timelines(places: Places, options: argparse.Namespace) -> None:
    """`reading.py` measures the other side: reading from 1 and from 50 timelines."""
    url = places.nodes[0].url
    few, many = declare(url), declare(url)
    for number in range(options.timelines - 1):
        switch(url, many, ("kafka-2", "default")[number % 2])
    switch(url, many, "default")
    in_turns(
        f"publish to an event type with {options.timelines} timelines against one with 1",
        options.turns,
        node=lambda: through_node(url, many, options.seconds),
        bare=lambda: through_node(url, few, options.seconds),
    )


# Stall


def stall(places: Places, options: argparse.Namespace) -> None:
    urls = [node.url for node in places.nodes]
    name = declare(urls[0], 4)
    pauses = apart(stall_under_load, urls, name, options.switches)[COLD:]
    measured = [one["stall_ms"] for one in httpx.get(f"{urls[0]}/event-types/{name}/switches").json()]
    cold, measured = measured[:COLD], measured[COLD:]
    print(f"  the first switches of a stack that has just started (ms): {', '.join(f'{one:.0f}' for one in cold)}")
    distribution("lock until all nodes go on (ms)", measured, TARGETS["stall p50"], TARGETS["stall p99"])
    distribution("longest publish of each switch (ms)", pauses, TARGETS["stall p50"], TARGETS["stall p99"])


def frozen(places: Places, options: argparse.Namespace) -> None:
    """The node that stands still has a session that lives: only the time limit tells that it will not answer."""
    *urls, _ = [node.url for node in places.nodes]
    (pid,) = [row.mark.pid for row in Folder(options.data).read().processes if row.name == "node-3" and row.mark]
    name = declare(urls[0], 4)
    pauses = apart(stall_under_load, urls, name, options.frozen, pid)[COLD:]
    switches = httpx.get(f"{urls[0]}/event-types/{name}/switches").json()[COLD:]
    print(f"  {sum('node-3' in one['overtaken'] for one in switches)} of {len(switches)} switches went on without it")
    distribution("lock until all others go on (ms)", [one["stall_ms"] for one in switches])
    distribution("longest publish of each switch (ms)", pauses, TARGETS["frozen p50"], TARGETS["frozen p99"])


def stall_under_load(urls: list[str], name: str, switches: int, frozen_pid: int | None = None) -> list[float]:
    return uvloop.run(_stall_under_load(urls, name, switches, frozen_pid))


async def _stall_under_load(urls: list[str], name: str, switches: int, frozen_pid: int | None) -> list[float]:
    prepared = request(f"/event-types/{name}/events", batch(20, SIZE))
    stop, slowest = asyncio.Event(), [0.0]

    async def publisher(url: str) -> None:
        connection = await connect(url)
        while not stop.is_set():
            started = time.monotonic()
            status = await connection.send(prepared)
            assert status == 200, status
            slowest[0] = max(slowest[0], time.monotonic() - started)
        connection.close()

    publishers = [asyncio.create_task(publisher(url)) for url in urls * 2]
    pauses: list[float] = []
    connections: list[Connection] = [await connect(url) for url in urls]
    await asyncio.sleep(WARM)
    for number in range(COLD + switches):
        body = json.dumps({"storage_id": ("kafka-2", "default")[number % 2]}).encode()
        await asyncio.sleep(0.2)
        slowest[0] = 0.0
        with standing_still(frozen_pid):
            status = await connections[number % len(urls)].send(request(f"/event-types/{name}/timelines", body))
        assert status == 201, status
        pauses.append(slowest[0] * 1000)
    stop.set()
    await asyncio.gather(*publishers)
    return pauses


@contextmanager
def standing_still(pid: int | None) -> Iterator[None]:
    if pid is None:
        yield
        return
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def distribution(title: str, values: list[float], p50: float | None = None, p99: float | None = None) -> None:
    print(f"  {title}, {len(values)} switches")
    edges = [0, 25, 50, 75, 100, 150, 200, 300, 500, 1000, float("inf")]
    for low, high in pairwise(edges):
        count = sum(low <= value < high for value in values)
        if count:
            print(f"    {low:>6.0f} – {high:<6.0f} {'█' * count} {count}")
    middle, late = percentile(values, 0.5), percentile(values, 0.99)
    print(f"    p50 {middle:.0f}{_judged(middle, p50)}   p99 {late:.0f}{_judged(late, p99)}   max {max(values):.0f}")


def _judged(value: float, most: float | None) -> str:
    return "" if most is None else f" (target ≤ {most:.0f}: {'met' if value <= most else 'MISSED'})"


# Turns


def in_turns(title: str, turns: int, *, node: object, bare: object, target: float | None = None) -> None:
    ours, theirs = [], []
    for _ in range(turns):
        theirs.append(bare())  # type: ignore[operator]
        ours.append(node())  # type: ignore[operator]
    one, other = statistics.median(ours), statistics.median(theirs)
    ratio = one / other if other else float("nan")
    judged = "" if target is None else f"  (target ≥ {target}: {'met' if ratio >= target else 'MISSED'})"
    print(f"  {title}\n    {one:>10,.0f}/s against {other:>10,.0f}/s   ratio {ratio:.2f}{judged}", flush=True)


def apart(work: object, *arguments: object) -> object:
    """In a process of its own, so that neither side disturbs the other."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, arguments)  # type: ignore[arg-type]


if __name__ == "__main__":
    sys.exit(main())
