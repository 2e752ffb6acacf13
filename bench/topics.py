"""Topics against pgmq and a plain SKIP LOCKED table: same server, same run, fsync on, bodies of 200 bytes.

    python bench/topics.py                      everything, with 1,000,000 future messages
    python bench/topics.py --future 5000000     the full size
    python bench/topics.py --only storage,http  parts: storage http merging flat snapshot cycles lateness

Absolute numbers depend on the machine and on what else runs on it; the ratios are what to look at. Measurements of the two
sides alternate, and medians are compared.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import psycopg
import uvloop
from _topics_control import calm
from _topics_lateness import lateness
from _topics_ours import Http, Storage, empty_database, now_ms
from _topics_peers import Missing, Pgmq, PlainTable
from rich.console import Console
from rich.table import Table

from meantime import AsyncClient
from meantime.database.statements import open_statements
from meantime.stack.session import running
from meantime.topics.merging import Merger
from meantime.topics.model import NewMessage
from meantime.topics.rules import bucket_of

BATCH = 100
console = Console(width=110)


class Side(Protocol):
    name: str

    def prepare(self, count: int) -> Any: ...
    async def create(self, prepared: Any) -> None: ...
    async def lease(self, count: int) -> list[Any]: ...
    async def delete(self, leases: list[Any]) -> None: ...


@dataclass(frozen=True)
class Rates:
    """Messages per second, by operation; one figure per round."""

    create: list[float]
    lease: list[float]
    delete: list[float]
    cycle: list[float]

    def median(self, operation: str) -> float:
        return statistics.median(getattr(self, operation))

    def over(self, other: "Rates", operation: str) -> list[float]:
        """Round by round: what slows a whole round down hits both."""
        return [mine / theirs for mine, theirs in zip(getattr(self, operation), getattr(other, operation), strict=True)]


async def timed(work: Awaitable[Any]) -> float:
    began = time.perf_counter()
    await work
    return time.perf_counter() - began


async def measure_round(side: Side, rates: Rates, batches: int) -> None:
    """One round: fill, lease all, delete all; then whole cycles. What is sent is prepared before the clock starts."""
    total = batches * BATCH
    prepared = [side.prepare(BATCH) for _ in range(batches)]

    async def fill() -> None:
        for batch in prepared:
            await side.create(batch)

    rates.create.append(total / await timed(fill()))
    await asyncio.sleep(0.02)
    leased: list[list[Any]] = []

    async def lease_all() -> None:
        for _ in range(batches):
            leased.append(await side.lease(BATCH))

    rates.lease.append(total / await timed(lease_all()))

    async def delete_all() -> None:
        for leases in leased:
            await side.delete(leases)

    assert sum(map(len, leased)) == total, f"{side.name} leased {sum(map(len, leased))} of {total}"
    rates.delete.append(total / await timed(delete_all()))
    rates.cycle.append(await cycles(side, batches // 2))


async def cycles(side: Side, batches: int) -> float:
    """create → lease → delete, in messages per second."""
    done = 0
    prepared = [side.prepare(BATCH) for _ in range(batches)]
    began = time.perf_counter()
    for batch in prepared:
        await side.create(batch)
        leases = await side.lease(BATCH)
        if leases:
            await side.delete(leases)
        done += len(leases)
    return done / (time.perf_counter() - began)


async def compare(sides: Sequence[Side], rounds: int, batches: int) -> dict[str, Rates]:
    """Round by round, one side after the other and each time another one first, so that what else happens on the machine
    hits all alike."""
    rates = {side.name: Rates([], [], [], []) for side in sides}
    for side in sides:
        await measure_round(side, Rates([], [], [], []), batches=max(4, batches // 8))
    for turn in range(rounds):
        first = turn % len(sides)
        for side in [*sides[first:], *sides[:first]]:
            await measure_round(side, rates[side.name], batches)
    return rates


def spread(values: Sequence[float]) -> str:
    """The median, and between which values the middle half lies."""
    low, middle, high = statistics.quantiles(values, n=4)
    return f"{middle:.2f} ({low:.2f}–{high:.2f})"


def show(title: str, rates: dict[str, Rates], ours: str, targets: dict[str, float]) -> None:
    table = Table(title=title, title_justify="left")
    table.add_column("batches of 100, thousands per second")
    for name in rates:
        table.add_column(name, justify="right")
    table.add_column("ours ÷ pgmq", justify="right")
    table.add_column("target", justify="right")
    for operation in ("create", "lease", "delete", "cycle"):
        row = [f"{one.median(operation) / 1000:.1f}" for one in rates.values()]
        ratios = rates[ours].over(rates["pgmq"], operation) if "pgmq" in rates else []
        target = targets.get(operation)
        table.add_row(
            "create → lease → delete" if operation == "cycle" else operation,
            *row,
            spread(ratios) if ratios else "–",
            f"≥ {target}" if target else "",
        )
    console.print(table)


@dataclass
class World:
    uri: str
    url: str
    opened: AsyncExitStack
    storage: Storage
    pgmq: Pgmq | None
    arguments: argparse.Namespace

    def peers(self) -> list[Side]:
        return [self.pgmq] if self.pgmq else []


async def bench_storage(world: World) -> None:
    plain = await PlainTable.open(world.uri)
    rates = await compare([world.storage, *world.peers(), plain], rounds=40, batches=20)
    await plain.close()
    show("Storage calls", rates, "meantime", {"create": 1.5, "lease": 1.5, "cycle": 1.5})


async def bench_http(world: World) -> None:
    async with AsyncClient(world.url, producer_group="bench") as client:
        await client.create_topic("bench.http")
        rates = await compare([Http(client, "bench.http"), *world.peers()], rounds=20, batches=20)
    show("Over HTTP with the SDK, against pgmq's direct SQL", rates, Http.name, {"create": 0.5, "lease": 0.5, "cycle": 0.5})


async def bench_merging(world: World) -> None:
    """200 callers with one message each: merged into shared statements, and one statement per caller."""
    storage = world.storage

    async def insert(messages: Sequence[NewMessage]) -> Sequence[None]:
        await storage.messages.insert(storage.topic, messages, now_ms())
        return [None] * len(messages)

    async def one_by_one(message: NewMessage) -> None:
        await insert([message])

    merger: Merger[NewMessage, None] = Merger(insert)

    async def merged(message: NewMessage) -> None:
        await merger.submit([message])

    alone = [await callers(one_by_one, "alone", each=10) for _ in range(3)]
    together = [await callers(merged, "merged", each=40) for _ in range(3)]
    async with AsyncClient(world.url, producer_group="bench") as client:
        await client.create_topic("bench.callers")
        over_http = [await http_callers(client, each=5) for _ in range(3)]
    ratio = statistics.median(together) / statistics.median(alone)
    console.print(
        f"200 callers with one message each: merged {statistics.median(together) / 1000:.1f} k/s, one statement per caller "
        f"{statistics.median(alone) / 1000:.1f} k/s: {ratio:.1f} × (target ≥ 5); over HTTP with the SDK "
        f"{statistics.median(over_http) / 1000:.1f} k/s"
    )


async def callers(call: Callable[[NewMessage], Awaitable[None]], label: str, each: int) -> float:
    stamp = time.time_ns()

    async def caller(number: int) -> None:
        for turn in range(each):
            one = f"{label}-{stamp}-{number}-{turn}"
            await call(NewMessage(one, now_ms() + 3_600_000, bucket_of(one, 64), "bench", True, b'"x"'))

    return 200 * each / await timed(asyncio.gather(*(caller(number) for number in range(200))))


async def http_callers(client: AsyncClient, each: int) -> float:
    async def caller() -> None:
        for _ in range(each):
            await client.schedule("bench.callers", "x", after=3600)

    return 200 * each / await timed(asyncio.gather(*(caller() for _ in range(200))))


async def bench_flat(world: World) -> None:
    """Lease and delete with millions of future messages in the table, in turns with an empty one in another database."""
    future, peer_future = world.arguments.future, min(world.arguments.future, 1_000_000)
    console.print(f"storing {future:,} future messages …")
    took = await timed(world.storage.store_future(future))
    async with empty_database(world.uri) as uri, open_statements(uri, size=4) as statements:
        sides = [await Storage.open(statements, "bench.empty"), world.storage]
        await written(world.uri)
        empty, full = await take_turns(sides, turns=15)
    ratios = [one / other for one, other in zip(full, empty, strict=True)]
    console.print(
        f"Flat: lease + delete {statistics.median(empty) / 1000:.1f} k/s with an empty table, "
        f"{statistics.median(full) / 1000:.1f} k/s with {future:,} future messages: {spread(ratios)} (target ≥ 0.9); "
        f"stored in {took:.0f} s"
    )
    if world.pgmq:
        await world.pgmq.store_future(peer_future)
        await written(world.uri)
        peer = await lease_and_delete(world.pgmq, batches=12)
        ratio = statistics.median(full) / peer
        console.print(f"      pgmq with {peer_future:,}: {peer / 1000:.2f} k/s; ours ÷ pgmq {ratio:.0f} (target ≥ 50)")
        async with await psycopg.AsyncConnection.connect(world.uri, autocommit=True) as connection:
            await connection.execute("TRUNCATE pgmq.q_bench")
    await bench_counting(world)


async def written(uri: str) -> None:
    """Wait until what was stored is on disk: writing it down is not what is measured."""
    async with await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection:
        await connection.execute("CHECKPOINT")
    await calm()


async def take_turns(sides: Sequence[Side], turns: int) -> list[list[float]]:
    rates: list[list[float]] = [[] for _ in sides]
    for side in sides:
        await lease_and_delete(side, batches=10)
    for _ in range(turns):
        for side, found in zip(sides, rates, strict=True):
            found.append(await lease_and_delete(side, batches=20))
    return rates


async def bench_counting(world: World) -> None:
    async with AsyncClient(world.url, producer_group="bench") as client:
        took = await timed(client.count(world.storage.topic.name))
        start = time.time() + 86_400
        drawn = await timed(client.load(world.storage.topic.name, start, start + 600, 10))
    console.print(f"      counting all of them took {took * 1000:.0f} ms; ten minutes in 60 slots {drawn * 1000:.0f} ms")


async def lease_and_delete(side: Side, batches: int) -> float:
    for _ in range(batches):
        await side.create(side.prepare(BATCH))
    await asyncio.sleep(0.02)
    began, done = time.perf_counter(), 0
    for _ in range(batches):
        leases = await side.lease(BATCH)
        await side.delete(leases)
        done += len(leases)
    return done / (time.perf_counter() - began)


async def bench_cycles(world: World) -> None:
    """After many lease cycles it must be as quick as at the beginning."""
    fresh = statistics.median([await cycles(world.storage, 60) for _ in range(3)])
    for _ in range(world.arguments.cycles // (BATCH * 100)):
        await cycles(world.storage, 100)
    worn = statistics.median([await cycles(world.storage, 60) for _ in range(3)])
    console.print(
        f"Worn: whole cycle {fresh / 1000:.1f} k/s fresh, {worn / 1000:.1f} k/s after {world.arguments.cycles:,} lease "
        f"cycles: {worn / fresh:.2f} (target ≥ 0.8)"
    )


async def bench_snapshot(world: World) -> None:
    """An old snapshot is held open elsewhere: dead rows pile up where the scan begins."""
    plain = await PlainTable.open(world.uri)
    for side in (world.storage, plain):
        before = statistics.median([await cycles(side, 60) for _ in range(3)])
        async with await psycopg.AsyncConnection.connect(world.uri) as holder:
            await holder.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            await holder.execute("SELECT count(*) FROM topics")
            await cycles(side, 300)
            during = statistics.median([await cycles(side, 60) for _ in range(3)])
            await holder.rollback()
        target = " (target ≥ 0.4)" if side is world.storage else ""
        console.print(
            f"Old snapshot, {side.name}: {before / 1000:.1f} k/s before, {during / 1000:.1f} k/s after 30,000 cycles under "
            f"it: {during / before:.2f}{target}"
        )
    await plain.close()


async def bench_lateness(world: World) -> None:
    """After all that other parts have left to be written is, and after a round that does not count."""
    await written(world.uri)
    await lateness(world.url, 1000, 5, 0, rounds=1)
    for rate, target_ms in ((500, 10), (2000, 25)):
        console.print(await lateness(world.url, rate, world.arguments.seconds, target_ms))


PARTS = {
    "storage": bench_storage,
    "http": bench_http,
    "merging": bench_merging,
    "lateness": bench_lateness,
    "cycles": bench_cycles,
    "snapshot": bench_snapshot,
    "flat": bench_flat,
}


async def main(arguments: argparse.Namespace, uri: str, url: str) -> None:
    async with AsyncExitStack() as opened:
        statements = await opened.enter_async_context(open_statements(uri, size=40))
        storage = await Storage.open(statements, "bench.storage")
        try:
            pgmq: Pgmq | None = await Pgmq.open(uri)
        except Missing as missing:
            console.print(f"pgmq is missing, so there is nothing to compare with: {missing}")
            pgmq = None
        world = World(uri, url, opened, storage, pgmq, arguments)
        for name in arguments.only:
            await calm()
            await PARTS[name](world)
        if pgmq:
            await pgmq.close()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--future", type=int, default=1_000_000, help="how many future messages to store for `flat`")
    parser.add_argument("--cycles", type=int, default=200_000, help="how many lease cycles to wear the table with")
    parser.add_argument("--seconds", type=int, default=20, help="how long lateness is measured at each rate")
    parser.add_argument("--only", type=lambda text: text.split(","), default=list(PARTS), help="comma-separated parts")
    return parser.parse_args()


if __name__ == "__main__":
    arguments = parse()
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder:
        console.print("starting a stack with one node …")
        with running(Path(folder) / "data", nodes=1, kafka=1) as places:
            uvloop.run(main(arguments, places.postgres, places.nodes[0].url))
