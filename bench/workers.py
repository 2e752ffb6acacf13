"""Workers: sharing out many queues, the way from a published message to its job, and jobs against a bare consumer loop.

    python bench/workers.py                  everything
    python bench/workers.py --only start     parts: rebalance start reset throughput batches
    python bench/workers.py --data DIR       on a running stack instead of one of its own

Absolute numbers depend on the machine and on what else runs on it. The bare loop reads the same partitions from Kafka and
writes the same record to ZooKeeper, with the version, after every message, as the worker does.
"""

import argparse
import json
import os
import resource
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient
from rich.console import Console

from meantime import Client
from meantime.stack.folder import Folder
from meantime.stack.model import Places
from meantime.stack.session import running
from meantime.workers.model import QueueRecord, QueueSource, encode
from meantime.workers.rules import last_of

QUEUES, WORKERS, PROCESSES = 1000, 50, 5
console = Console(width=110)

JOBS = """
import os, time
from meantime import App

app = App({app!r})
file = os.open("records", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@app.job({event_type!r})
{kind} handle(message, context):
    os.write(file, b"%d %.6f\\n" % (message.event["n"], time.time()))
"""


BATCHES = """
import os, time
from meantime import App

app = App({app!r})
file = os.open("records", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

@app.job({event_type!r}, batch={batch}, checkpoint_every={every})
async def handle(messages, context):
    os.write(file, b"%d %.6f\\n" % (len(messages), time.time()))
"""
BATCH, CHECKPOINT_EVERY = 100, 1000


# Re-balancing


def rebalance(places: Places) -> None:
    """1,000 queues and 49 workers; one more joins, then ten are killed."""
    app = f"bench-{uuid4().hex[:8]}"
    hosts, _, root = places.zookeeper.partition("/")
    client = KazooClient(hosts)
    client.start()
    base = f"/{root}/apps/{app}"
    client.ensure_path(f"{base}/workers")
    for number in range(QUEUES):
        record = QueueRecord(event_type="bench", partition=str(number))
        client.create(f"{base}/queues/{QueueSource('bench', str(number)).queue}", encode(record), makepath=True)
    sizes = [10] * (PROCESSES - 1)
    with crews(places.zookeeper, app, [*sizes, WORKERS - 2 - sum(sizes)]) as processes:
        took = _until(lambda: _shared_out(client, base, WORKERS - 2), 120)
        console.print(f"start: {QUEUES} queues shared out to {WORKERS - 2} workers {took:.1f} s after the start")
        with crews(places.zookeeper, app, [1]):
            _until(lambda: len(client.get_children(f"{base}/workers")) == WORKERS - 1, 60)
            took = _until(lambda: _shared_out(client, base, WORKERS - 1), 60)
            console.print(
                f"join: one more worker; balanced {took:.2f} s after it joined, {took - 1.0:.2f} s after the settle window "
                "(target 2)"
            )
            requests = _requests_of_a_join(places.zookeeper, hosts, app, lambda: _shared_out(client, base, WORKERS))
            console.print(
                f"join: {requests:,} ZooKeeper requests in all, {requests / WORKERS:.0f} a worker; "
                f"{QUEUES // WORKERS} queues moved"
            )
            processes[0].kill()
            died = time.monotonic()
            _until(lambda: len(client.get_children(f"{base}/workers")) == WORKERS - 11, 60)
            expired = time.monotonic()
            _until(lambda: _shared_out(client, base, WORKERS - 11), 60)
            console.print(
                f"kill: the sessions of ten workers ended after {expired - died:.1f} s; their queues had owners "
                f"{time.monotonic() - expired:.2f} s later"
            )
    client.stop()


def _requests_of_a_join(zookeeper: str, hosts: str, app: str, shared_out: Callable[[], bool]) -> int:
    """Nobody looks meanwhile; what a pause of the same length costs is taken off."""
    pause = 6.0
    before = _packets(hosts)
    time.sleep(pause)
    idle = _packets(hosts) - before
    before = _packets(hosts)
    with crews(zookeeper, app, [1]):
        time.sleep(pause)
        requests = _packets(hosts) - before - idle
        assert shared_out(), "not balanced yet"
    return requests


def _shared_out(client: KazooClient, base: str, workers: int) -> bool:
    names = client.get_children(f"{base}/workers")
    answers = [client.get_async(f"{base}/workers/{name}") for name in names]
    try:
        held = [json.loads(answer.get()[0])["queues"] for answer in answers]
    except Exception:
        return False
    sizes = [len(queues) for queues in held]
    every = [queue for queues in held for queue in queues]
    return len(names) == workers and len(every) == len(set(every)) == QUEUES and max(sizes) - min(sizes) <= 1


def _packets(hosts: str) -> int:
    """Requests that ZooKeeper has received so far, of everybody."""
    host, _, port = hosts.partition(",")[0].partition(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.sendall(b"mntr")
        told = connection.makefile().read()
    return int(next(line.split()[1] for line in told.splitlines() if line.startswith("zk_packets_received")))


@contextmanager
def crews(zookeeper: str, app: str, sizes: list[int]) -> Iterator[list[subprocess.Popen[bytes]]]:
    program = Path(__file__).with_name("_workers_crew.py")
    processes = [
        subprocess.Popen([sys.executable, str(program), zookeeper, app, str(size)], stdin=subprocess.PIPE) for size in sizes
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.stdin.close()  # type: ignore[union-attr]
        for process in processes:
            process.wait(60)


def _until(condition: Callable[[], bool], within: float, every: float = 0.05) -> float:
    began = time.monotonic()
    while not condition():
        if time.monotonic() - began > within:
            raise SystemExit(f"not within {within} s")
        time.sleep(every)
    return time.monotonic() - began


# From a message to its job


@contextmanager
def worker(places: Places, event_type: str, kind: str, jobs: str = JOBS) -> Iterator[Path]:
    """A worker process, ready to take messages; its folder."""
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as name:
        folder = Path(name)
        app = f"bench-{folder.name}"
        given = {"app": app, "event_type": event_type, "kind": kind, "batch": BATCH, "every": CHECKPOINT_EVERY}
        (folder / "jobs.py").write_text(jobs.format(**given))
        urls = ",".join(node.url for node in places.nodes)
        environment = os.environ | {"MEANTIME_URL": urls, "MEANTIME_ZOOKEEPER": places.zookeeper}
        command = [sys.executable, "-m", "meantime", "worker", "run", "jobs:app", "--log-level", "warning"]
        process = subprocess.Popen(command, cwd=folder, env=environment)
        try:
            yield folder
        finally:
            process.terminate()
            process.wait(30)


def _records(folder: Path) -> list[tuple[int, float]]:
    path = folder / "records"
    lines = path.read_text().splitlines() if path.exists() else []
    return [(int(number), float(at)) for number, at in map(str.split, lines)]


def start(places: Places, count: int = 400) -> None:
    for kind in ("async def", "def"):
        event_type = f"bench.{uuid4().hex[:8]}"
        with Client([node.url for node in places.nodes]) as client:
            client.create_event_type(event_type, partitions=8)
            with worker(places, event_type, kind) as folder:
                client.publish(event_type, [{"n": -1}])
                _until(lambda folder=folder: bool(_records(folder)), 60)
                time.sleep(1)
                acknowledged = []
                for number in range(count):
                    client.publish(event_type, {"n": number})
                    acknowledged.append(time.time())
                    time.sleep(0.02 + (number % 7) * 0.005)
                _until(lambda folder=folder: len(_records(folder)) == count + 1, 30)
                started = {number: at for number, at in _records(folder) if number >= 0}
        delays = sorted((started[number] - acknowledged[number]) * 1000 for number in range(count))
        console.print(
            f"start, {kind}: an idle queue's job begins {delays[count // 2]:.1f} ms (p50), "
            f"{delays[int(count * 0.99)]:.1f} ms (p99) after the publish was acknowledged (target 50)"
        )


def reset(places: Places, times: int = 20) -> None:
    """From the request that sets a queue back until its owner, which has nothing else to do, begins there."""
    event_type, waited = f"bench.{uuid4().hex[:8]}", []
    with Client([node.url for node in places.nodes]) as client, httpx.Client(base_url=places.nodes[0].url) as http:
        client.create_event_type(event_type, partitions=1)
        client.publish(event_type, [{"n": number} for number in range(10)])
        with worker(places, event_type, "async def") as folder:
            for done in range(10, 10 * times + 1, 10):
                _until(lambda done=done: len(_records(folder)) == done, 60)
                time.sleep(0.2)
                queue = f"/apps/bench-{folder.name}/queues/{QueueSource(event_type, '0').queue}"
                asked_at = time.time()
                http.put(f"{queue}/last", json={"cursor": "BEGIN"}).raise_for_status()
                _until(lambda done=done: len(_records(folder)) > done, 60, every=0.01)
                waited.append((_records(folder)[done][1] - asked_at) * 1000)
    waited.sort()
    console.print(
        f"reset: the owner of an idle queue goes on from the new place {waited[times // 2]:.0f} ms (p50), "
        f"{waited[-1]:.0f} ms (max of {times}) after the request was sent"
    )


# Throughput


def bare_loop(places: Places, event_type: str, partitions: int, count: int) -> float:
    """Messages a second of a plain consumer that records every message as the worker does."""
    with Client([node.url for node in places.nodes]) as client:
        topic = client.timelines(event_type)[-1].topic
    hosts, _, root = places.zookeeper.partition("/")
    keeper = KazooClient(hosts)
    keeper.start()
    base = f"/{root}/bench-{uuid4().hex[:8]}"
    versions = {}
    for partition in range(partitions):
        keeper.create(f"{base}/{partition}", b"{}", makepath=True)
        versions[partition] = 0
    consumer = Consumer({"bootstrap.servers": places.kafka[0], "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    done, began = 0, 0.0
    while done < count:
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        began = began or time.perf_counter()
        json.loads(message.value())
        partition = message.partition()
        cursor = f"001-0001-{message.offset():018d}"
        record = QueueRecord(last_of(message.timestamp()[1]), event_type, str(partition), cursor)
        versions[partition] = keeper.set(f"{base}/{partition}", encode(record), versions[partition]).version
        done += 1
    took = time.perf_counter() - began
    consumer.close()
    keeper.stop()
    return count / took


def throughput(places: Places, count: int = 6000, partitions: int = 8) -> None:
    event_type = f"bench.{uuid4().hex[:8]}"
    with Client([node.url for node in places.nodes]) as client:
        client.create_event_type(event_type, partitions=partitions)
        for first in range(0, count, 500):
            client.publish(event_type, [{"n": number} for number in range(first, first + 500)])
    ours: dict[str, list[float]] = {"async def": [], "def": []}
    bare = []
    for _ in range(3):
        bare.append(bare_loop(places, event_type, partitions, count))
        for kind, rates in ours.items():
            with worker(places, event_type, kind) as folder:
                _until(lambda folder=folder: len(_records(folder)) >= count, 120, every=0.2)
                records = sorted(at for _, at in _records(folder))
            rates.append((count - 1) / (records[-1] - records[0]))
    plain = statistics.median(bare)
    console.print(f"throughput: bare loop, recording every message: {plain:,.0f} messages/s")
    for kind, rates in ours.items():
        rate = statistics.median(rates)
        console.print(f"throughput, {kind}: {rate:,.0f} messages/s in one worker, {rate / plain:.2f} of it (target 0.3)")


# Batches, recorded now and then


def bare_batches(places: Places, event_type: str, partitions: int, count: int) -> float:
    """Messages a second of a plain consumer that takes batches and records each partition as seldom as the worker does."""
    with Client([node.url for node in places.nodes]) as client:
        topic = client.timelines(event_type)[-1].topic
    hosts, _, root = places.zookeeper.partition("/")
    keeper = KazooClient(hosts)
    keeper.start()
    base = f"/{root}/bench-{uuid4().hex[:8]}"
    versions, since = dict.fromkeys(range(partitions), 0), dict.fromkeys(range(partitions), 0)
    for partition in versions:
        keeper.create(f"{base}/{partition}", b"{}", makepath=True)
    consumer = Consumer({"bootstrap.servers": places.kafka[0], "group.id": "bench", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    done, began = 0, 0.0
    while done < count:
        messages = [message for message in consumer.consume(BATCH, 1.0) if message.error() is None]
        began = began or time.perf_counter()
        for message in messages:
            json.loads(message.value())
            partition = message.partition()
            since[partition] += 1
            if since[partition] == CHECKPOINT_EVERY:
                cursor = f"001-0001-{message.offset():018d}"
                record = QueueRecord(last_of(message.timestamp()[1]), event_type, str(partition), cursor)
                versions[partition] = keeper.set(f"{base}/{partition}", encode(record), versions[partition]).version
                since[partition] = 0
        done += len(messages)
    took = time.perf_counter() - began
    consumer.close()
    keeper.stop()
    return count / took


def batches(places: Places, count: int = 200_000, partitions: int = 8, turns: int = 3) -> dict[str, float]:
    event_type, pad = f"bench.{uuid4().hex[:8]}", "x" * 150
    with Client([node.url for node in places.nodes]) as client:
        client.create_event_type(event_type, partitions=partitions)
        for first in range(0, count, 5000):
            client.publish(event_type, [{"n": number, "pad": pad} for number in range(first, first + 5000)])
    bare, ours, spent = [], [], list[tuple[float, float]]()
    for _ in range(turns):
        began = _cpu()
        bare.append(bare_batches(places, event_type, partitions, count))
        between = _cpu()
        with worker(places, event_type, "", BATCHES) as folder:
            _until(lambda folder=folder: sum(number for number, _ in _records(folder)) >= count, 300, every=0.2)
            records = _records(folder)
        ours.append((count - records[0][0]) / (records[-1][1] - records[0][1]))
        spent.append((between[0] - began[0], _cpu()[1] - between[1]))
    plain, rate = statistics.median(bare), statistics.median(ours)
    ratio = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
    bare_us, ours_us = (statistics.median(turn[side] for turn in spent) * 1e6 / count for side in (0, 1))
    console.print(
        f"batches of {BATCH}, recorded every {CHECKPOINT_EVERY:,}: bare loop {plain:,.0f} messages/s, one worker "
        f"{rate:,.0f}, {ratio:.2f} of it (target 0.5); processor for a message {bare_us:.1f} and {ours_us:.1f} µs, "
        "its start included"
    )
    return {"bare_per_s": plain, "ours_per_s": rate, "ratio": ratio, "bare_cpu_us": bare_us, "ours_cpu_us": ours_us}


def _cpu() -> tuple[float, float]:
    """Processor seconds of this process, and of those it has started that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return used[0].ru_utime + used[0].ru_stime, used[1].ru_utime + used[1].ru_stime


PARTS = {"rebalance": rebalance, "start": start, "reset": reset, "throughput": throughput, "batches": batches}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=PARTS, action="append")
    parser.add_argument("--data", type=Path, help="data directory of a running stack")
    arguments = parser.parse_args()
    if arguments.data:
        places = Folder(arguments.data).read().places
        assert places, "no running stack there"
        _run(places, arguments.only)
        return
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data", nodes=1, kafka=1) as places:
        _run(places, arguments.only)


def _run(places: Places, only: list[str] | None) -> None:
    for name in only or PARTS:
        PARTS[name](places)


if __name__ == "__main__":
    main()
