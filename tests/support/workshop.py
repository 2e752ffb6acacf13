"""Applications for tests: jobs in real worker processes, which write down every message that they have done."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from meantime import Client
from meantime.errors import NotFound
from meantime.sdk.calls import call as calls

PREAMBLE = """
import asyncio, json, os, threading, time
from meantime import App, Retry, StopWorker

_file = os.open("records", os.O_WRONLY | os.O_APPEND | os.O_CREAT)

def note(message, **more):
    record = {"pid": os.getpid(), "at": time.time(), "event": message.event, "event_type": message.event_type,
              "partition": message.partition, "cursor": message.cursor, "attempt": message.attempt,
              "written_at": message.written_at.timestamp(), **more}
    os.write(_file, json.dumps(record).encode() + b"\\n")
"""


@dataclass
class Worker:
    process: subprocess.Popen
    log: Path

    @property
    def pid(self):
        return self.process.pid

    def send(self, number):
        self.process.send_signal(number)

    def stop(self, within=60):
        """SIGTERM, and what it exits with."""
        self.send(signal.SIGTERM)
        return self.process.wait(within)

    def kill(self):
        self.process.kill()
        self.process.wait()


@dataclass
class Workshop:
    """One application in a folder of its own, on a running stack. Names in the code get a suffix of their own: write
    `orders` in the code and `name("orders")` outside."""

    folder: Path
    urls: list
    zookeeper: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    workers: list = field(default_factory=list)
    key: str | None = None
    seen: list = field(default_factory=list)
    read_to: int = 0

    def __post_init__(self):
        self.client = Client(self.urls, producer_group=self.app, key=self.key)

    @property
    def app(self):
        return f"app-{self.id}"

    def name(self, event_type):
        return f"{event_type}-{self.id}"

    def write(self, code):
        text = textwrap.dedent(code).replace("$app", self.app).replace("$id", self.id)
        (self.folder / "jobs.py").write_text(PREAMBLE + text)

    def create(self, event_type, partitions=1):
        self.client.create_event_type(self.name(event_type), partitions=partitions)

    def publish(self, event_type, count, start=0):
        self.client.publish(self.name(event_type), [{"n": n} for n in range(start, start + count)])

    def start(self, *options, target="jobs:app", **variables):
        log = self.folder / f"worker-{len(self.workers)}.log"
        environment = os.environ | {"MEANTIME_URL": ",".join(self.urls), "MEANTIME_ZOOKEEPER": self.zookeeper}
        environment |= variables
        with log.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-m", "meantime", "worker", "run", target, *options],
                cwd=self.folder,
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                start_new_session=True,
            )
        worker = Worker(process, log)
        self.workers.append(worker)
        return worker

    def meantime(self, *arguments):
        """A command as a user gives it: exit code, what it printed, what it said."""
        ran = subprocess.run(
            [sys.executable, "-m", "meantime", *arguments],
            cwd=self.folder,
            env=os.environ | {"MEANTIME_URL": ",".join(self.urls)},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            start_new_session=True,
        )
        return ran.returncode, ran.stdout, ran.stderr

    def records(self):
        """Everything so far. Tests ask for it all the time, so only what is new is read."""
        path = self.folder / "records"
        if path.exists():
            with path.open("rb") as file:
                file.seek(self.read_to)
                lines = file.read().splitlines(keepends=True)
            whole = [line for line in lines if line.endswith(b"\n")]
            self.read_to += sum(map(len, whole))
            self.seen += map(json.loads, whole)
        return list(self.seen)

    def numbers(self):
        return [record["event"]["n"] for record in self.records()]

    def wait(self, condition, within=60.0):
        """Wait until `condition(records)`; the records then."""
        deadline = time.monotonic() + within
        while not condition(records := self.records()):
            assert time.monotonic() < deadline, f"not within {within} s: {records[-5:]}\n{self.logs()}"
            time.sleep(0.05)
        return records

    def wait_for(self, count, within=60.0):
        return self.wait(lambda records: len(records) >= count, within)

    def get(self, *path):
        target = calls.path("apps", self.app, *path)
        return self.client.send(calls.Call("GET", target, calls.reading(dict)))

    def put(self, method, *path, **document):
        target = calls.path("apps", self.app, *path)
        return self.client.send(calls.Call(method, target, calls.reading(dict), calls.body(document), calls.JSON))

    def queues(self):
        return self.get("queues")["queues"]

    def holdings(self):
        """What each worker has; nothing before the first one has come."""
        try:
            return {worker["worker"]: worker["queues"] for worker in self.get("workers")["workers"]}
        except NotFound:
            return {}

    def balanced(self, queues, workers):
        held = self.holdings()
        sizes = [len(mine) for mine in held.values()]
        return len(held) == workers and sum(sizes) == queues and max(sizes, default=0) - min(sizes, default=0) <= 1

    def wait_until(self, condition, within=60.0):
        """Wait for something that is not in the records."""
        deadline = time.monotonic() + within
        while not condition():
            assert time.monotonic() < deadline, f"not within {within} s\n{self.logs()}"
            time.sleep(0.1)

    def logs(self):
        return "\n".join(f"{worker.log.name}:\n{worker.log.read_text()[-3000:]}" for worker in self.workers)

    def close(self):
        for worker in self.workers:
            if worker.process.poll() is None:
                worker.send(signal.SIGCONT)
                worker.kill()
        self.client.close()


def orders(records):
    """What was done, by partition, in the order in which it was done."""
    done = defaultdict(list)
    for record in records:
        done[record["event_type"], record["partition"]].append(record["cursor"])
    return done
