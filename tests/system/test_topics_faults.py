"""The fault suite of topics: nodes and consumers are killed with -9, PostgreSQL is restarted, and the histories are checked.

The size is a setting, and the seed makes the faults the same again:

    MEANTIME_FAULTS_MESSAGES=100000 MEANTIME_FAULTS_SEED=7 pytest tests/system/test_topics_faults.py
"""

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from topics_fault_consumer import now_ms
from topics_history import Event, check, read

from conftest import Breakable, RunningStack

pytestmark = [pytest.mark.lane("nodes"), pytest.mark.takes(seconds=60)]

MESSAGES = int(os.environ.get("MEANTIME_FAULTS_MESSAGES", "1200"))
SEED = int(os.environ.get("MEANTIME_FAULTS_SEED", "1"))
CONSUMERS = 6
BATCH = 100
PER_SECOND = 200 if MESSAGES <= 5000 else 400
GROUP = {"X-Producer-Group": "faults"}
PROGRAM = Path(__file__).parents[1] / "support" / "topics_fault_consumer.py"


def lease(consumer: str, version: int, at_ms: int, now_ms: float, lease_ms: int = 100) -> Event:
    return Event("leased", "m", now_ms, consumer, version, at_ms, 0, lease_ms)


def asked(consumer: str, version: int, operation: str, now_ms: float, at_ms: int = 0) -> Event:
    return Event("asked", "m", now_ms, consumer, version, at_ms, operation=operation)


def answered(consumer: str, version: int, operation: str, status: str, now_ms: float, at_ms: int = 0) -> Event:
    return Event("answered", "m", now_ms, consumer, version, at_ms, operation=operation, status=status)


CREATED = Event("created", "m", 0)


def test_the_checker_accepts_a_history_without_fault() -> None:
    history = [
        CREATED,
        lease("a", 2, 200, 100),
        asked("a", 2, "extend", 150, 300),
        answered("a", 2, "extend", "ok", 151, 300),
        asked("a", 3, "delete", 320),
        answered("a", 3, "delete", "expired", 321),
        lease("b", 4, 410, 310),
        asked("b", 4, "delete", 350),
        answered("b", 4, "delete", "ok", 351),
    ]
    assert check(history, set()) == []


def test_the_checker_knows_an_extended_lease_when_it_is_told_again() -> None:
    history = [
        CREATED,
        lease("a", 2, 200, 100),
        asked("a", 2, "extend", 150, 190),
        Event("leased", "m", 160, "a", 3, 190, created_for_ms=95, lease_ms=100),
        asked("a", 3, "delete", 180),
    ]
    assert check([*history, lease("b", 4, 291, 191)], set()) == []
    assert [found.rule for found in check([*history, lease("b", 4, 279, 179)], set())] == ["two leases"]


@pytest.mark.parametrize(
    ("rule", "history"),
    [
        ("lost", [CREATED]),
        ("early", [Event("leased", "m", 100, "a", 2, 200, created_for_ms=101, lease_ms=100)]),
        ("two leases", [lease("a", 2, 200, 100), lease("b", 2, 200, 100)]),
        ("two leases", [lease("a", 2, 200, 100), lease("b", 3, 299, 199)]),
        (
            "two leases",
            [
                lease("a", 2, 200, 100),
                asked("a", 2, "extend", 150, 400),
                answered("a", 2, "extend", "ok", 151, 400),
                lease("b", 4, 490, 390),
            ],
        ),
        ("late", [lease("a", 2, 200, 100), asked("a", 2, "delete", 201), answered("a", 2, "delete", "ok", 202)]),
    ],
)
def test_the_checker_catches_a_planted_fault(rule: str, history: list[Event]) -> None:
    left = set() if rule == "lost" else {"m"}
    assert {violation.rule for violation in check(history, left)} == {rule}


@dataclass
class Crowd:
    """Consumers as processes, each with a history file per life."""

    topic: str
    folder: Path
    urls: list[str]
    lives: int = 0
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, consumer_id: str) -> None:
        self.lives += 1
        history = self.folder / f"{consumer_id}.{self.lives}.ndjson"
        command = [sys.executable, str(PROGRAM), self.topic, consumer_id, str(history), str(SEED + self.lives), *self.urls]
        self.processes[consumer_id] = subprocess.Popen(command, start_new_session=True)

    def kill(self, consumer_id: str) -> None:
        self.processes[consumer_id].kill()
        self.processes[consumer_id].wait()


@contextmanager
def crowd_of(topic: str, folder: Path, urls: list[str]) -> Iterator[Crowd]:
    crowd = Crowd(topic, folder, urls)
    try:
        for number in range(CONSUMERS):
            crowd.start(f"consumer-{number}")
        yield crowd
    finally:
        for consumer_id in crowd.processes:
            crowd.kill(consumer_id)


@pytest.mark.timeout(MESSAGES / PER_SECOND * 6 + 240)
async def test_nothing_is_lost_early_or_leased_twice_while_everything_is_killed(breakable: Breakable, folder: Path) -> None:
    urls = breakable.urls
    async with httpx.AsyncClient(timeout=10, headers=GROUP) as http:
        await persistently(http, "PUT", urls, "/topics/faults", {})
        with crowd_of("faults", folder, urls) as crowd:
            harm = asyncio.create_task(do_harm(breakable, crowd))
            created = await produce(http, urls)
            await finished(harm)
            left = await drained(http, urls)
    events = read(folder) + created
    assert len(created) == MESSAGES
    assert left == set()
    assert check(events, left) == []
    assert len({event.id for event in events if event.kind == "leased"}) == MESSAGES
    refused = [event for event in events if event.kind == "answered" and event.status != "ok"]
    assert refused, "the suite is to try what must be refused"


async def produce(http: httpx.AsyncClient, urls: list[str]) -> list[Event]:
    """All messages at a steady pace, each due within two seconds; what is not answered is asked again."""
    created: list[Event] = []
    randomness = random.Random(SEED)
    for start in range(0, MESSAGES, BATCH):
        messages = [
            {"id": f"m{number}", "at_ms": int(now_ms()) + randomness.randint(0, 2000), "body": number}
            for number in range(start, min(start + BATCH, MESSAGES))
        ]
        answer = await persistently(http, "POST", urls, "/topics/faults/messages", {"messages": messages})
        for result in answer["results"]:
            assert result["status"] in ("created", "exists")
            created.append(Event("created", result["id"], now_ms()))
        await asyncio.sleep(BATCH / PER_SECOND)
    return created


async def do_harm(stack: RunningStack, crowd: Crowd) -> None:
    """In turn and at random: a node, a consumer, PostgreSQL; always one node is left alone for a while."""
    randomness = random.Random(SEED)
    until = time.monotonic() + MESSAGES / PER_SECOND
    postgres_at = [time.monotonic() + MESSAGES / PER_SECOND * part for part in (0.3, 0.7)]
    while time.monotonic() < until:
        await asyncio.sleep(randomness.uniform(0.8, 2.0))
        if postgres_at and time.monotonic() > postgres_at[0]:
            postgres_at.pop(0)
            await asyncio.to_thread(stack.send, "postgres", 2)
        elif randomness.random() < 0.4:
            await asyncio.to_thread(kill_node, stack, f"node-{randomness.randint(1, 3)}")
        else:
            consumer_id = f"consumer-{randomness.randrange(CONSUMERS)}"
            crowd.kill(consumer_id)
            crowd.start(consumer_id)


def kill_node(stack: RunningStack, name: str) -> None:
    try:
        stack.send(name)
    except (AssertionError, ProcessLookupError):
        return  # it is down already


async def finished(harm: "asyncio.Task[None]") -> None:
    harm.cancel()
    results = await asyncio.gather(harm, return_exceptions=True)
    if isinstance(results[0], Exception):
        raise results[0]


async def drained(http: httpx.AsyncClient, urls: list[str]) -> set[str]:
    """The ids that are still there when nothing more happens."""
    deadline = time.monotonic() + 60 + MESSAGES / PER_SECOND
    while time.monotonic() < deadline:
        page = await persistently(http, "GET", urls, "/topics/faults/messages?limit=1000", None)
        if not page["messages"]:
            return set()
        await asyncio.sleep(0.5)
    return {message["id"] for message in page["messages"]}


async def persistently(http: httpx.AsyncClient, method: str, urls: list[str], path: str, body: Any) -> Any:
    for turn in range(400):
        try:
            content = None if body is None else msgspec.json.encode(body)
            answer = await http.request(method, urls[turn % len(urls)] + path, content=content)
            if answer.status_code < 300:
                return answer.json()
            assert answer.status_code == 503, answer.text
        except httpx.HTTPError:
            pass
        await asyncio.sleep(0.1)
    raise AssertionError(f"no node answered {method} {path}")
