"""How long after its instant a waiting consumer has a message in hand, and what the machine did meanwhile."""

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from _topics_control import Pauses, watched
from _topics_ours import now_ms

from meantime import AsyncClient
from meantime.sdk.messages import NewMessage

CALM = 0.005
"""What is due while the machine pauses is late, whoever serves it. Where that is half a per cent of the time or more, the
slowest hundredth tells of the machine and not of the broker."""


@dataclass(frozen=True)
class Arrival:
    due_ms: int
    late_ms: float


@dataclass(frozen=True)
class Round:
    """`paused` is the share of the time in which the machine kept everybody waiting."""

    arrivals: list[Arrival]
    paused: float
    pauses: Pauses

    @property
    def calm(self) -> bool:
        return self.paused <= CALM

    def __str__(self) -> str:
        return f"{_percentile(self.arrivals, 0.99):.1f} ({self.paused:.1%})"


async def lateness(url: str, rate: int, seconds: int, target_ms: int, rounds: int = 5) -> str:
    """Until so many rounds were calm, or there were three times as many; what came out of those, and of all."""
    # What the benchmark keeps of its other parts is not to be walked through by the collector in the middle of this one.
    gc.collect()
    gc.freeze()
    measured: list[Round] = []
    while sum(one.calm for one in measured) < rounds and len(measured) < 3 * rounds:
        measured.append(await _round(url, rate, seconds // rounds))
    every = [arrival for one in measured for arrival in one.arrivals]
    calm = [arrival for one in measured if one.calm for arrival in one.arrivals]
    early = sum(one.late_ms < 0 for one in every)
    return (
        f"Lateness at {rate}/s: {_percentiles(calm)} in {sum(one.calm for one in measured)} rounds in which the machine was "
        f"calm (target p99 ≤ {target_ms}), {_percentiles(every)} in all {len(measured)}; early: {early}. p99 of each round, "
        f"with how much of it the machine paused: {', '.join(map(str, measured))}. A process that did nothing else saw "
        f"{Pauses.together([one.pauses for one in measured])}"
    )


async def _round(url: str, rate: int, seconds: int) -> Round:
    async with watched() as seen:
        arrivals = await _arrivals(url, rate, seconds)
    first_ms, last_ms = arrivals[0].due_ms, arrivals[-1].due_ms
    return Round(arrivals, seen[0].within(first_ms, last_ms) / (last_ms - first_ms), seen[0])


def _percentile(arrivals: Sequence[Arrival], share: float) -> float:
    late = sorted(one.late_ms for one in arrivals)
    return late[int(len(late) * share)]


def _percentiles(arrivals: Sequence[Arrival]) -> str:
    if not arrivals:
        return "–"
    worst = max(one.late_ms for one in arrivals)
    return f"p50 {_percentile(arrivals, 0.5):.1f} p99 {_percentile(arrivals, 0.99):.1f} worst {worst:.0f} ms"


async def _arrivals(url: str, rate: int, seconds: int) -> list[Arrival]:
    """By the clock of this machine."""
    topic, arrivals = f"bench.late.{rate}.{time.time_ns()}", []
    async with AsyncClient(url, producer_group="bench") as client, asyncio.timeout(seconds + 60):
        await client.create_topic(topic)
        total = rate * seconds
        begin_ms = now_ms() + 3000 + total // 10
        for start in range(0, total, 1000):
            messages = [
                NewMessage(f"m{n}", at_ms=begin_ms + n * 1000 // rate, body="x" * 198)
                for n in range(start, min(start + 1000, total))
            ]
            await client.schedule_prepared(topic, messages)
        done: list[Any] = []
        async for lease in client.consume(topic, "waiting", buffer=1000, lease_for=60, auto_extend=False):
            due_ms = lease.message.created_for_ms
            arrivals.append(Arrival(due_ms, time.time() * 1000 - due_ms))
            done.append(lease)
            if len(done) >= 100 or len(arrivals) == total:
                leases, done = done, []
                asyncio.get_running_loop().create_task(client.delete_leases(topic, "waiting", leases))
            if len(arrivals) == total:
                break
    return arrivals
