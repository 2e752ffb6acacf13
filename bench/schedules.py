"""Schedules against APScheduler 3 with its PostgreSQL store and procrastinate's periodic jobs, and many schedules at once.

    python bench/schedules.py                             short: 20 schedules for 60 s a side, 10,000 schedules
    python bench/schedules.py --only kill --for 120
    python bench/schedules.py --only scale --schedules 100000 --same-second 10000

*kill*: each side in turn fires its schedules every two seconds, from the same PostgreSQL; in the middle the process that
schedules is killed with -9 and its successor is started at once. *Late* is when the work began minus its instant; *lost* are
instants for which it never began, *doubled* those for which it did more than once. APScheduler runs work in the scheduler
itself, one process, because two on one store would fire twice; procrastinate in two workers, each of which schedules;
ours in a consumer elsewhere, while one of two nodes leads.

*scale*: what an idle minute costs nodes and PostgreSQL with and without so many schedules that fire hours later (600 of them
made over HTTP, the others copied in PostgreSQL); how long `next` takes; and so many on one second: how many messages were
there a second before, and how late consumers had them.

Absolute numbers depend on the machine and on what else runs on it.
"""

import argparse
import asyncio
import math
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from _schedules_ours import Ours
from _schedules_peers import Missing, peers
from _schedules_scale import hours_away, make, middle, multiply, next_latency, part, same_second, shares_of_a_core
from rich.console import Console
from rich.table import Table

from meantime import AsyncClient
from meantime.stack.model import Places
from meantime.stack.session import running

EVERY_S = 2
WARM_UP_S = 10
COOL_DOWN_S = 15
console = Console(width=120)


class Side(Protocol):
    name: str

    def start(self, schedules: int, every: int) -> None: ...
    def kill_scheduler(self) -> None: ...
    def firings(self) -> Iterator[tuple[str, int, float]]: ...
    def stop(self) -> None: ...


def measure(side: Side, schedules: int, seconds: int) -> list[str]:
    """A row of the table: what became of the instants after the warm-up."""
    side.start(schedules, EVERY_S)
    time.sleep(WARM_UP_S)
    first = math.ceil((time.time() + 1) / EVERY_S) * EVERY_S
    last = first + seconds
    time.sleep(seconds / 2)
    side.kill_scheduler()
    time.sleep(max(0.0, last - time.time()) + COOL_DOWN_S)
    firings = [one for one in side.firings() if first <= one[1] < last]
    side.stop()
    counts = Counter((schedule, instant) for schedule, instant, _ in firings)
    late = sorted((ran - instant) * 1000 for _, instant, ran in firings)
    expected = schedules * len(range(first, last, EVERY_S))
    doubled = sum(count - 1 for count in counts.values())
    figures = [f"{part(late, share):,.0f}" for share in (0.5, 0.99, 1.0)]
    return [side.name, f"{expected:,}", f"{expected - len(counts):,}", f"{doubled:,}", *figures]


def bench_kill(arguments: argparse.Namespace, data: Path, places: Places) -> None:
    table = Table(title=f"{arguments.count} schedules every {EVERY_S} s, the scheduler killed -9", title_justify="left")
    for column in ("side", "instants", "lost", "doubled", "late p50 ms", "p99 ms", "at most"):
        table.add_column(column, justify="left" if column == "side" else "right")
    table.add_row(*measure(Ours(data, places), arguments.count, arguments.seconds))
    try:
        for peer in peers(places.postgres, data.parent):
            table.add_row(*measure(peer, arguments.count, arguments.seconds))
    except Missing as missing:
        console.print(f"there is nothing to compare with: {missing}")
    console.print(table)


def bench_scale(arguments: argparse.Namespace, data: Path, places: Places) -> None:
    kinds = {"nodes": ("node-",), "PostgreSQL": ("postgres",)}
    before = shares_of_a_core(data, kinds, arguments.idle)
    rate = asyncio.run(fill(places))
    copies = multiply(places.postgres, "idle.", arguments.schedules)
    console.print(f"schedules were made over HTTP, {rate:,.0f} a second; {copies:,} were copied")
    time.sleep(20)
    after = shares_of_a_core(data, kinds, arguments.idle)
    for kind in kinds:
        console.print(
            f"an idle minute, {kind}: {after[kind]:.1f} % of a core with {arguments.schedules:,} schedules, "
            f"{before[kind]:.1f} % with none: {after[kind] - before[kind]:+.1f} %"
        )
    taken, nothing = next_latency(places.nodes[0].url)
    console.print(
        f"next, with ten instants: p50 {middle(taken):.1f} ms, p99 {part(taken, 0.99):.1f} ms; /health in turns with it: "
        f"{middle(nothing):.1f} and {part(nothing, 0.99):.1f} ms"
    )
    seen, in_time, late = asyncio.run(same_second(places, arguments.same_second))
    console.print(
        f"{arguments.same_second:,} on one second: {in_time:,} messages were there a second before, {seen:,} were leased; "
        f"late p50 {middle(late):.0f} ms, p99 {part(late, 0.99):.0f} ms, {part(late, 1.0):.0f} ms at most"
    )


async def fill(places: Places) -> float:
    async with AsyncClient([node.url for node in places.nodes], producer_group="bench") as client:
        await client.create_topic("bench.idle")
        return await make(client, hours_away("bench.idle"))


PARTS = {"kill": bench_kill, "scale": bench_scale}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20, help="schedules a side that fire every two seconds")
    parser.add_argument("--for", dest="seconds", type=int, default=60, help="how long each side is measured, in seconds")
    parser.add_argument("--schedules", type=int, default=10_000, help="how many fire hours later")
    parser.add_argument("--same-second", type=int, default=1_000, help="how many fire on one second")
    parser.add_argument("--idle", type=int, default=60, help="seconds of the idle minute")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help="comma-separated parts")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder:
        console.print("starting a stack with two nodes …")
        data = Path(folder) / "data"
        with running(data, nodes=2, kafka=1) as places:
            for name in arguments.only:
                PARTS[name](arguments, data, places)
