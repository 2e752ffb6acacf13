"""Many schedules: what they cost while nothing is due, how quickly one says when it fires next, and many on one second."""

import asyncio
import os
import statistics
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
from _schedules_ours import GROUP

from meantime import AsyncClient, Client
from meantime.stack.control import look
from meantime.stack.folder import Folder
from meantime.stack.model import Places

AT_ONCE = 32
MINUTES = 600
TICKS = os.sysconf("SC_CLK_TCK")
LEAD_S = 75
"""At least so long before they are due they are made."""


async def make(client: AsyncClient, drafts: Iterable[tuple[str, dict]]) -> float:
    """Put them, and how many that were in a second."""
    pending, began, count = iter(drafts), time.perf_counter(), 0

    async def putter() -> None:
        nonlocal count
        for id, settings in pending:
            await client.schedules.put(id, **settings)
            count += 1

    await asyncio.gather(*(putter() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - began)


def multiply(uri: str, prefix: str, count: int) -> int:
    """Copies of what is there, in PostgreSQL itself, until there are so many; how many copies."""
    with psycopg.connect(uri, autocommit=True) as connection:
        columns = [row[0] for row in connection.execute("SELECT * FROM schedules LIMIT 0").description or ()]
        given = ", ".join(f"one.{name}" for name in columns if name != "id")
        ((found,),) = connection.execute("SELECT count(*) FROM schedules WHERE id LIKE %s", (f"{prefix}%",)).fetchall()
        made = connection.execute(
            f"INSERT INTO schedules (id, {', '.join(name for name in columns if name != 'id')}) "  # type: ignore[arg-type]
            f"SELECT one.id || '.' || number, {given} FROM schedules AS one, generate_series(1, %s) AS number "
            f"WHERE one.id LIKE %s LIMIT %s",
            (count // found + 1, f"{prefix}%", count - found),
        ).rowcount
        connection.execute("ANALYZE schedules")
    return made


def hours_away(topic: str) -> Iterable[tuple[str, dict]]:
    """Each once a day, at a minute that is two hours away or more."""
    first = datetime.now(UTC) + timedelta(hours=2)
    for number in range(MINUTES):
        at = first + timedelta(minutes=number)
        yield f"idle.{number}", {"cron": f"{at.minute} {at.hour} * * *", "target": {"topic": topic, "group": GROUP}}


def processor_seconds(data: Path, names: tuple[str, ...]) -> float:
    """What processes of the stack, and those that they have started, have used so far."""
    roots = [row.mark.pid for row in look(Folder(data)).alive if row.name.startswith(names) and row.mark]
    stats = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            rest = (folder / "stat").read_text().rpartition(") ")[2].split()
        except OSError:
            continue
        stats[int(folder.name)] = (int(rest[1]), sum(map(int, rest[11:15])))
    family = set(roots)
    while more := {pid for pid, (parent, _) in stats.items() if parent in family} - family:
        family |= more
    return sum(stats[pid][1] for pid in family if pid in stats) / TICKS


def shares_of_a_core(data: Path, kinds: Mapping[str, tuple[str, ...]], seconds: float) -> dict[str, float]:
    """In per cent, by kind of process."""
    before = {kind: processor_seconds(data, names) for kind, names in kinds.items()}
    time.sleep(seconds)
    return {kind: (processor_seconds(data, names) - before[kind]) / seconds * 100 for kind, names in kinds.items()}


def next_latency(url: str, asked: int = 300) -> tuple[list[float], list[float]]:
    """Milliseconds, as a client on this machine sees them; and those of `/health`, asked in turns, which does nothing."""
    taken, nothing = [], []
    with Client(url) as client:
        for turn in range(asked):
            began = time.perf_counter()
            client.schedules.next(f"idle.{turn * 7919 % MINUTES}")
            middle = time.perf_counter()
            client.health()
            taken.append((middle - began) * 1000)
            nothing.append((time.perf_counter() - middle) * 1000)
    return sorted(taken), sorted(nothing)


async def same_second(places: Places, count: int) -> tuple[int, int, list[float]]:
    """How many were created, how many of them before their second, and how late consumers had them, in milliseconds."""
    topic, late = "bench.second", []
    async with AsyncClient([node.url for node in places.nodes], producer_group=GROUP) as client:
        await client.create_topic(topic)
        at = (datetime.now(UTC) + timedelta(seconds=LEAD_S + 60)).replace(second=0, microsecond=0)
        settings = {"cron": f"{at.minute} {at.hour} * * *", "target": {"topic": topic, "group": GROUP}}
        await client.schedules.put("second", **settings)
        await asyncio.to_thread(multiply, places.postgres, "second", count)
        in_time = await _created_in_time(client, topic, at.timestamp())
        while len(late) < count and time.time() < at.timestamp() + 60:
            leases = await client.lease(topic, "bench", limit=1000, wait_for=5)
            late += [(time.time() - at.timestamp()) * 1000] * len(leases)
            if leases:
                await client.delete_leases(topic, "bench", leases)
    return len(late), in_time, sorted(late)


async def _created_in_time(client: AsyncClient, topic: str, at: float) -> int:
    """How many messages there are a second before they are due."""
    await asyncio.sleep(max(0.0, at - 1.0 - client.now()))
    return await client.count(topic)


def part(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("nan")


def middle(values: list[float]) -> float:
    return statistics.median(values) if values else float("nan")
