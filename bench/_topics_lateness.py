"""How long after its instant a waiting consumer has a message in hand, and what the machine did meanwhile."""

import asyncio
import gc
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from _topics_control import watched
from _topics_ours import now_ms

from meantime import AsyncClient
from meantime.sdk.messages import NewMessage


@dataclass(frozen=True)
class Arrival:
    due_ms: int
    late_ms: float


async def lateness(url: str, rate: int, seconds: int, target_ms: int, rounds: int = 5) -> str:
    """Measure, and say what came out: of all messages, of those that met no pause of the machine, and round by round, for
    one pause of a fifth of a second is one per cent of the messages of twenty."""
    # What the benchmark keeps of its other parts is not to be walked through by the collector in the middle of this one.
    gc.collect()
    gc.freeze()
    async with watched() as seen:
        by_round = [await _arrivals(url, rate, seconds // rounds) for _ in range(rounds)]
    pauses, arrivals = seen[0], [one for part in by_round for one in part]
    undisturbed = [one for one in arrivals if not pauses.cover(one.due_ms, one.due_ms + max(one.late_ms, 0))]
    early = sum(one.late_ms < 0 for one in arrivals)
    p99s = sorted(_percentile(part, 0.99) for part in by_round)
    return (
        f"Lateness at {rate}/s: {_percentiles(arrivals)} (target p99 ≤ {target_ms}); early: {early}. p99 of the rounds: "
        f"median {p99s[rounds // 2]:.1f} ms ({', '.join(f'{p99:.1f}' for p99 in p99s)}). The machine meanwhile: "
        f"{pauses}; without the {len(arrivals) - len(undisturbed)} messages that met a pause of the machine: "
        f"{_percentiles(undisturbed)}"
    )


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
