"""A long run of everything at once at half of what the machine can do: does the memory of any process grow?

    python bench/soak.py                     half an hour
    python bench/soak.py --minutes 5         a short one, for trying it

Events are published and read, by position and by a subscription that commits; messages are created, leased, given back and
deleted; timers call back; a worker has a job; the event type changes its storage every minute; streams are opened and
closed. First all of it runs as fast as it goes, which tells what the machine can do, then at half of that. Every ten seconds
the resident memory of each process is noted, and the growth is the slope of a line through what was noted after the first
third, in which caches fill. At the end what was acknowledged is compared with what came out.
"""

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, aclosing, contextmanager, suppress
from pathlib import Path
from typing import Any

import uvloop
from rich.console import Console
from rich.table import Table

from meantime import AsyncClient, MeantimeError
from meantime.sdk.calls.timers import TimerDraft
from meantime.sdk.calls.topics import Draft
from meantime.stack.folder import Folder
from meantime.stack.session import running

LOOK_EVERY_S = 10.0
SWITCH_EVERY_S = 60.0
DRAINED_WITHIN_S = 60.0
MOST_GROWTH_MIB_PER_HOUR = 20.0
EVENTS, MESSAGES, TIMERS = 50, 20, 20
"""How many go into one request."""

MOST_AHEAD = 5_000
WAYS = {
    "publish": ("events written", "events shared"),
    "schedule": ("messages written", "messages done"),
    "timers": ("timers set", "callbacks"),
}
"""What goes in and what comes out, by what is done."""

JOBS = """
from meantime import App

app = App("soak")

@app.job("soak.events")
def count(message, context):
    pass
"""


class Load:
    """Everything that is done to the cluster, and how often it was."""

    def __init__(self) -> None:
        self.done: Counter[str] = Counter()
        self.pace: dict[str, float] = {}
        """Requests a second; what is not named here goes as fast as it can."""
        self.ending = asyncio.Event()
        self._storages: list[str] = []

    async def declare(self, client: AsyncClient) -> str:
        await client.create_event_type("soak.events", partitions=4)
        await client.create_event_type("soak.callbacks", partitions=2)
        await client.create_topic("soak-messages", max_attempts=5)
        self._storages = [storage.id for storage in await client.storages()]
        return (await client.subscribe("soak.events", owning_application="soak")).id

    def tasks(self, client: AsyncClient, subscription: str) -> list[Callable[[], Awaitable[None]]]:
        return [
            lambda: self._repeat("publish", lambda: self._publish(client)),
            lambda: self._repeat("schedule", lambda: self._schedule(client)),
            lambda: self._repeat("timers", lambda: self._set_timers(client)),
            lambda: self._repeat("short streams", lambda: self._read_a_little(client)),
            lambda: self._every(SWITCH_EVERY_S, lambda: self._switch(client)),
            lambda: self._read(client, "soak.events", "events read"),
            lambda: self._read(client, "soak.callbacks", "callbacks"),
            lambda: self._share(client, subscription),
            lambda: self._consume(client),
        ]

    async def _repeat(self, name: str, act: Callable[[], Awaitable[None]]) -> None:
        while not self.ending.is_set():
            began = time.monotonic()
            if self._too_far_ahead(name):
                await asyncio.sleep(0.02)
                continue
            await self._attempt(name, act)
            pace = self.pace.get(name)
            await asyncio.sleep(max(0.0, began + 1 / pace - time.monotonic()) if pace else 0)

    def _too_far_ahead(self, name: str) -> bool:
        """What can be done is what comes out at the other end."""
        written, read = WAYS.get(name, ("", ""))
        return self.done[written] - self.done[read] > MOST_AHEAD

    async def _every(self, seconds: float, act: Callable[[], Awaitable[None]]) -> None:
        while not self.ending.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self.ending.wait(), seconds)
                return
            await self._attempt("switch", act)

    async def _attempt(self, name: str, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await act()
            self.done[name] += 1
        except MeantimeError as error:
            self.done[f"{name} refused: {error.code}"] += 1
            await asyncio.sleep(0.1)

    async def _publish(self, client: AsyncClient) -> None:
        await client.publish("soak.events", [{"id": n, "text": "x" * 100} for n in range(EVENTS)])
        self.done["events written"] += EVENTS

    async def _schedule(self, client: AsyncClient) -> None:
        await client.schedule_many("soak-messages", [Draft({"n": n}, after=n % 5) for n in range(MESSAGES)])
        self.done["messages written"] += MESSAGES

    async def _set_timers(self, client: AsyncClient) -> None:
        await client.timer_many([TimerDraft("event-type:soak.callbacks", {"n": n}, after=5) for n in range(TIMERS)])
        self.done["timers set"] += TIMERS

    async def _read_a_little(self, client: AsyncClient) -> None:
        """A stream that is opened and closed again, which is where most leaks are."""
        async with aclosing(client.events("soak.events", "begin", stream_limit=10)) as batches:
            async for _ in batches:
                break

    async def _switch(self, client: AsyncClient) -> None:
        active = (await client.timelines("soak.events"))[-1].storage_id
        await client.switch("soak.events", next(id for id in self._storages if id != active))

    async def _read(self, client: AsyncClient, event_type: str, name: str) -> None:
        cursors: Any = "begin"
        while True:
            with suppress(MeantimeError):
                async with aclosing(client.events(event_type, cursors, batch_limit=200)) as batches:
                    async for batch in batches:
                        self.done[name] += len(batch.events)
                return

    async def _share(self, client: AsyncClient, subscription: str) -> None:
        while True:
            with suppress(MeantimeError):
                async with aclosing(client.subscription_events(subscription, batch_limit=200)) as batches:
                    async for batch in batches:
                        self.done["events shared"] += len(batch.events)
                        await client.commit(batch)

    async def _consume(self, client: AsyncClient) -> None:
        """One of ten messages is given back once."""
        async with aclosing(client.consume("soak-messages", "soak-1", buffer=100)) as leases:
            async for lease in leases:
                if lease.attempts == 1 and lease.body["n"] % 10 == 0:
                    await lease.release(after=1)
                else:
                    await lease.delete()
                    self.done["messages done"] += 1


class Memory:
    """What each process of the stack has resident, over time."""

    def __init__(self, data: Path, others: dict[str, int]) -> None:
        self._data = data
        self._others = others
        self.seen: dict[str, list[tuple[float, float]]] = defaultdict(list)

    async def watch(self) -> None:
        began = time.monotonic()
        while True:
            for name, pid in self._pids().items():
                with suppress(OSError):
                    self.seen[name].append((time.monotonic() - began, resident_mib(pid)))
            await asyncio.sleep(LOOK_EVERY_S)

    def _pids(self) -> dict[str, int]:
        rows = Folder(self._data).read().processes
        return {row.name: row.mark.pid for row in rows if row.mark is not None} | self._others

    def rows(self) -> list[dict[str, Any]]:
        found = []
        for name, points in sorted(self.seen.items()):
            late = points[len(points) // 3 :]
            if len(late) > 2:
                slope, _ = statistics.linear_regression(*zip(*late, strict=True))
                most = max(mib for _, mib in points)
                found.append(
                    {"process": name, "first": late[0][1], "last": late[-1][1], "most": most, "per_hour": slope * 3600}
                )
        return found


def resident_mib(pid: int) -> float:
    """Of the process and of all its children: a database has a process for each connection."""
    total = 0.0
    for one in [pid, *_children(pid)]:
        with suppress(OSError):
            text = Path(f"/proc/{one}/smaps_rollup").read_text()
            total += sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024
    return total


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found + [grandchild for child in found for grandchild in _children(child)]


async def soak(
    urls: list[str], load: Load, memory: Memory, options: argparse.Namespace, tell: Callable[[str], None]
) -> dict[str, Any]:
    async with AsyncClient(",".join(urls)) as client:
        subscription = await load.declare(client)
        tasks = [asyncio.ensure_future(start()) for start in load.tasks(client, subscription)]
        try:
            await asyncio.sleep(10)
            before = Counter(load.done)
            await asyncio.sleep(options.calibrate)
            reached = {
                name: (load.done[name] - before[name]) / options.calibrate for name in ("publish", "schedule", "timers")
            }
            load.pace = {name: max(rate / 2, 0.2) for name, rate in reached.items()} | {"short streams": 2.0}
            tell("half of what was reached: " + ", ".join(f"{name} {rate:.1f}/s" for name, rate in load.pace.items()))
            tasks.append(asyncio.ensure_future(memory.watch()))
            await _wait(options.minutes * 60, tasks, load, tell)
            load.ending.set()
            await _drained(load)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return {"rates": load.pace, "done": dict(load.done), "memory": memory.rows()}


async def _wait(seconds: float, tasks: list[asyncio.Future[None]], load: Load, tell: Callable[[str], None]) -> None:
    """A task that ends before the time has failed."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        done, _ = await asyncio.wait(tasks, timeout=min(60.0, left), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
            raise RuntimeError("a part of the load ended before its time")
        tell(
            f"{(seconds - left) / 60:4.0f} min  "
            + "  ".join(f"{name} {count:,}" for name, count in sorted(load.done.items()))
        )


async def _drained(load: Load) -> None:
    """What was written comes out."""
    until = time.monotonic() + DRAINED_WITHIN_S
    while time.monotonic() < until and lacking(load.done):  # noqa: ASYNC110
        await asyncio.sleep(0.5)


def lacking(done: Counter[str]) -> dict[str, int]:
    """What was acknowledged and has not come out."""
    ways = [*WAYS.values(), ("events written", "events read")]
    return {read: done[written] - done[read] for written, read in ways if done[read] < done[written]}


def report(found: dict[str, Any]) -> None:
    table = Table(title="resident memory, MiB", header_style="bold")
    for column in ("process", "after a third", "at the end", "most", "growth in an hour"):
        table.add_column(column, justify="left" if column == "process" else "right")
    for row in found["memory"]:
        cells = [f"{row[name]:.1f}" for name in ("first", "last", "most")]
        table.add_row(row["process"], *cells, f"{row['per_hour']:+.1f}")
    Console().print(table)
    refused = {name: count for name, count in found["done"].items() if " refused" in name}
    print(f"refused: {refused or 'nothing'}; written and not come out: {lacking(Counter(found['done'])) or 'nothing'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--calibrate", type=float, default=30.0, help="seconds as fast as it goes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tell = (lambda _: None) if options.json else (lambda line: print(line, flush=True))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="meantime-soak-", ignore_cleanup_errors=True)))
        data = folder / "stack"
        places = stack.enter_context(running(data, nodes=2, kafka=2, timers=True))
        worker = stack.enter_context(working(folder, data))
        memory = Memory(data, {"worker": worker, "this load": os.getpid()})
        found = uvloop.run(soak([node.url for node in places.nodes], Load(), memory, options, tell))
    print(json.dumps(found)) if options.json else report(found)
    grows = [row["process"] for row in found["memory"] if row["per_hour"] > MOST_GROWTH_MIB_PER_HOUR]
    sys.exit(1 if grows or lacking(Counter(found["done"])) else 0)


@contextmanager
def working(folder: Path, data: Path) -> Iterator[int]:
    """A worker in a process of its own; gives its pid."""
    (folder / "jobs.py").write_text(JOBS)
    command = [sys.executable, "-m", "meantime", "worker", "run", "jobs:app", "--data", str(data)]
    with open(folder / "worker.log", "wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait(30)


if __name__ == "__main__":
    main()
