"""What dispatchers spend on following `timer-request`, most of which is not theirs.

    python bench/timer_requests.py                                    3 dispatchers, 5,000 near requests a second for 20 s
    python bench/timer_requests.py --dispatchers 1 --rate 20000 --for 30

Every dispatcher reads every request. *Processor* is the share of a core that each takes while requests come in, for timers
that are not due yet, beside what it takes when there is nothing to do. *Passed over* is what one request costs that is
another dispatcher's: first all of it, fetching and unpacking by Kafka's client included, then the part of our own code.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from uuid import uuid4

from confluent_kafka import Producer
from rich.console import Console

from meantime.kafka.settings import Storage
from meantime.stack.model import Places
from meantime.stack.services.nodes import environment
from meantime.stack.services.postgres import last_report
from meantime.stack.session import running
from meantime.timers.dispatching.consumers import RequestConsumer, RequestFilter
from meantime.timers.future import encode
from meantime.timers.kafka_topics import admin_of, partitions_of
from meantime.timers.model import Future
from meantime.timers.topics import DUE, REQUEST

AHEAD_S = 75
IDLE_S = 10
console = Console(width=120)


@contextmanager
def dispatcher(places: Places, name: str) -> Iterator[int]:
    command = [sys.executable, "-m", "meantime", "dispatcher", "--name", name]
    env = {**os.environ, **environment(places)}
    with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process.pid
        finally:
            process.terminate()


def until_shared(places: Places, names: list[str], within: float = 90.0) -> None:
    deadline = time.monotonic() + within
    while True:
        reports = [last_report(places.postgres, "dispatcher", name, 0) for name in names]
        if all(report and report["shares"] for report in reports):
            return
        if time.monotonic() > deadline:
            raise TimeoutError("the dispatchers have not shared timer-due")
        time.sleep(0.2)


def used(pid: int) -> float:
    """Seconds of processor that a process has had."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def write(kafka: str, rate: int, for_s: float) -> int:
    """So many requests a second, for timers that do not fire meanwhile."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 5, "compression.type": "lz4"})
    value, mark, began, written = encode(Future("calls", "key", bytes(100))), uuid4().hex[:8], time.monotonic(), 0
    while (spent := time.monotonic() - began) < for_s:
        while written < rate * spent:
            second = int(time.time()) + AHEAD_S
            producer.produce(REQUEST, value, str(second), headers=[("token", f"{mark}-{written}")])
            written += 1
        producer.poll(0.01)
    producer.flush()
    return written


def passed_over(kafka: str, count: int) -> tuple[float, float]:
    """Microseconds of processor for each request of others: all of it, and our own part."""
    storage = Storage("default", kafka)
    admin = admin_of(storage)
    nobodys = RequestFilter(partitions_of(admin, DUE), ())
    consumer, partitions = RequestConsumer(storage), partitions_of(admin, REQUEST)
    consumer.start(partitions, dict.fromkeys(range(partitions), 0), 0)
    taken, own, began = 0, 0.0, time.process_time()
    while taken < count:
        for messages in consumer.poll(10_000):
            start = time.thread_time()
            left = sum(1 for _ in nobodys.records(messages, int(time.time()) + 2 * AHEAD_S))
            own += time.thread_time() - start
            taken += len(messages)
            assert left == 0
    whole = time.process_time() - began
    consumer.close()
    return whole / taken * 1e6, own / taken * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dispatchers", type=int, default=3)
    parser.add_argument("--rate", type=int, default=5000)
    parser.add_argument("--for", dest="for_s", type=float, default=20.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder, ExitStack() as opened:
        places = opened.enter_context(running(Path(folder) / "data", nodes=1))
        names = [f"dispatcher-{number}" for number in range(asked.dispatchers)]
        pids = [opened.enter_context(dispatcher(places, name)) for name in names]
        until_shared(places, names)
        before = list(map(used, pids))
        time.sleep(IDLE_S)
        idle = [(used(pid) - then) / IDLE_S for pid, then in zip(pids, before, strict=True)]
        before, began = list(map(used, pids)), time.monotonic()
        count = write(places.kafka[0], asked.rate, asked.for_s)
        spent = time.monotonic() - began
        busy = [(used(pid) - then) / spent for pid, then in zip(pids, before, strict=True)]
        console.print(f"{count / spent:,.0f} requests a second for {spent:.0f} s, {asked.dispatchers} dispatchers")
        console.print("processor, idle:", ", ".join(f"{share:.1%}" for share in idle))
        console.print("processor, with requests:", ", ".join(f"{share:.1%}" for share in busy))
        whole, own = passed_over(places.kafka[0], count)
        console.print(f"passed over: {whole:.2f} µs each, {own:.2f} µs of it our own")


if __name__ == "__main__":
    main()
