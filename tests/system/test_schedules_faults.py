"""The fault suite of schedules: leaders are killed with -9 and frozen, PostgreSQL and ZooKeeper are restarted, and schedules
are changed, paused and resumed meanwhile. What came out is judged by what was asked for.

The size is a setting, and the seed makes the faults the same again:

    MEANTIME_FAULTS_SCHEDULES=200 MEANTIME_FAULTS_SECONDS=600 pytest tests/system/test_schedules_faults.py
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
from schedules_history import Came, Held, check, due

from conftest import Breakable

pytestmark = [pytest.mark.lane("nodes"), pytest.mark.takes(seconds=120), pytest.mark.timeout(1200)]

SCHEDULES = int(os.environ.get("MEANTIME_FAULTS_SCHEDULES", "40"))
SECONDS = int(os.environ.get("MEANTIME_FAULTS_SECONDS", "45"))
SEED = int(os.environ.get("MEANTIME_FAULTS_SEED", "1"))
TOPIC = "faults-of-schedules"
DRAINED_WITHIN = 240.0

HELD = Held("s", 1, 0, 1_000)
CAME = [Came("s", 1, at_ms, at_ms + 5) for at_ms in (1_000, 2_000, 3_000)]


def test_the_checker_accepts_what_is_right() -> None:
    assert check([HELD], CAME, 3_500) == []
    again = [*CAME, Came("s", 1, 2_000, 2_500, attempts=2)]
    assert check([HELD], again, 3_500) == []
    changed = [HELD, Held("s", 2, 2_500, 2_000, too_late=(3_000,)), Held("s", 3, 4_500, 0)]
    told = [*CAME, Came("s", 2, 4_000, 4_000)]
    assert check(changed, told, 9_000) == []
    assert due(changed, 9_000) == 3


@pytest.mark.parametrize(
    ("rule", "held", "came"),
    [
        ("lost", [HELD], CAME[:2]),
        ("early", [HELD], [*CAME[:2], Came("s", 1, 3_000, 2_999)]),
        ("twice", [HELD], [*CAME, CAME[1]]),
        ("older version", [HELD, Held("s", 2, 2_500, 1_000)], CAME),
        ("not wanted", [HELD, Held("s", 2, 2_500, 0)], CAME),
        ("not wanted", [HELD], [*CAME, Came("s", 1, 2_500, 2_600)]),
    ],
)
def test_the_checker_catches_a_planted_fault(rule: str, held: list[Held], came: list[Came]) -> None:
    assert {violation.rule for violation in check(held, came, 3_500)} == {rule}


@dataclass
class Actors:
    """Who asks and who consumes, and what they write down."""

    urls: list[str]
    random: random.Random
    held: list[Held] = field(default_factory=list)
    came: list[Came] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    refused: int = 0

    def __post_init__(self) -> None:
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.AsyncClient(timeout=20, limits=limits, trust_env=False)

    async def insisted(self, method: str, path: str, body: Any = None) -> tuple[httpx.Response, bool]:
        """Ask one node after the other until one answers; and whether all answers before it came back."""
        certain = True
        while True:
            url = self.random.choice(self.urls)
            try:
                answer = await self.http.request(method, url + path, json=body)
            except httpx.ConnectError:
                await asyncio.sleep(0.2)
            except httpx.TransportError:
                certain = False
                await asyncio.sleep(0.2)
            else:
                if answer.status_code < 500:
                    return answer, certain
                certain = certain and answer.json().get("code") in ("degraded", "coordination_lost")
                await asyncio.sleep(0.2)

    async def put(self, name: str, every_ms: int, *, paused: bool = False) -> None:
        target = {"topic": TOPIC, "group": "faults"}
        body = {"every_ms": every_ms, "target": target, "paused": paused, "missed": "all"}
        answer, certain = await self.insisted("PUT", f"/schedules/{name}", body)
        assert answer.is_success, answer.text
        shown = answer.json()
        if shown["version"] == self.versions.get(name):
            return
        rhythm = 0 if paused else every_ms
        told = tuple(shown["too_late"]) if certain else None
        self.versions[name] = shown["version"]
        self.held.append(Held(name, shown["version"], shown["changed_at_ms"], rhythm, 0, told))

    async def change_until(self, stop: asyncio.Event) -> None:
        while not stop.is_set():
            name = f"fault-{self.random.randrange(SCHEDULES)}"
            await self.put(name, self.random.choice((1_000, 2_000, 3_000)), paused=self.random.random() < 0.25)
            await asyncio.sleep(self.random.uniform(0.1, 0.6))

    async def consume(self) -> None:
        """For ever: take what is due, write it down, delete it."""
        while True:
            asked = {"consumer_id": "faults", "limit": 500, "lease_ms": 30_000, "wait_ms": 1_000}
            answer, _ = await self.insisted("POST", f"/topics/{TOPIC}/leases", asked)
            now_ms = int(answer.headers["X-Meantime-Now"])
            leases = answer.json()["leases"]
            for lease in leases:
                origin = lease["schedule"]
                self.came.append(Came(origin["id"], origin["version"], origin["at_ms"], now_ms, lease["attempts"]))
            if leases:
                claims = [{"id": lease["id"], "version": lease["version"]} for lease in leases]
                await self.insisted("POST", f"/topics/{TOPIC}/leases/delete", {"consumer_id": "faults", "leases": claims})


def leader(stack: Breakable) -> str | None:
    """The node that fires, as it says itself."""
    for node in stack.places.nodes:
        try:
            page = httpx.get(f"{node.url}/metrics", timeout=5).text
        except httpx.TransportError:
            continue
        if "meantime_schedules_leading 1.0" in page:
            return node.id
    return None


async def break_things(stack: Breakable, chance: random.Random, stop: asyncio.Event) -> list[str]:
    """One accident after the other; frozen leaders are thawed when others have taken over, or might have."""
    done: list[str] = []
    plan = ["kill", "freeze", "postgres", "kill", "zookeeper", "freeze"]
    while not stop.is_set():
        kind = plan[len(done) % len(plan)]
        name = await asyncio.to_thread(leader, stack)
        if kind in ("postgres", "zookeeper"):
            stack.send(kind)
        elif name is None:
            await asyncio.sleep(0.5)
            continue
        elif kind == "kill":
            stack.send(name)
        else:
            pid = stack.send(name, signal.SIGSTOP)
            await asyncio.sleep(chance.uniform(3.0, 14.0))
            os.kill(pid, signal.SIGCONT)
        done.append(kind)
        await asyncio.sleep(chance.uniform(2.0, 5.0))
    return done


async def drained(actors: Actors, end_ms: int) -> None:
    """Until nothing is missing any more, and a moment longer for what must not come; or until it takes too long."""
    deadline = time.monotonic() + DRAINED_WITHIN
    for _ in range(int(DRAINED_WITHIN)):
        lost = any(one.rule == "lost" for one in check(actors.held, actors.came, end_ms))
        if not lost or time.monotonic() > deadline:
            break
        await asyncio.sleep(1.0)
    await asyncio.sleep(2.0)


async def test_each_instant_fires_once_whatever_breaks(breakable: Breakable) -> None:
    actors = Actors(breakable.urls, random.Random(SEED))
    await actors.insisted("PUT", f"/topics/{TOPIC}", {})
    for number in range(SCHEDULES):
        await actors.put(f"fault-{number}", 1_000)
    stop = asyncio.Event()
    consuming = asyncio.create_task(actors.consume())
    changing = asyncio.create_task(actors.change_until(stop))
    breaking = asyncio.create_task(break_things(breakable, random.Random(SEED), stop))
    await asyncio.sleep(SECONDS)
    stop.set()
    accidents = await breaking
    await changing
    for number in range(SCHEDULES):
        await actors.put(f"fault-{number}", 1_000, paused=True)
    end_ms = max(one.since_ms for one in actors.held)
    await drained(actors, end_ms)
    consuming.cancel()
    violations = check(actors.held, actors.came, end_ms)
    rules = dict(Counter(one.rule for one in violations))
    print(
        f"{due(actors.held, end_ms)} instants, {len(actors.held)} versions, {dict(Counter(accidents))}, violations: {rules}"
    )
    assert violations == []
    assert due(actors.held, end_ms) > 10 * SCHEDULES
    assert {"kill", "freeze", "postgres"} <= set(accidents)
