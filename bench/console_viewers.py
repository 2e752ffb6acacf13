"""What viewers of the console cost a node: its processor, and how late it leases, with and without them.

    python bench/console_viewers.py [--viewers 20] [--seconds 20] [--rounds 3]

A node leases messages all the time, some hundred a second. Rounds without viewers and rounds with them follow each other, so
that whatever else the machine does meets both alike. Lateness is from the instant of a message to its arrival at the
consumer, on one clock.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import uvloop
from _edge_idle import NodeProcess

from meantime.stack.folder import Folder
from meantime.stack.session import running

TOPIC, GROUP = "bench-viewers", {"X-Producer-Group": "bench"}
EVERY, AT_ONCE, AHEAD_MS = 0.1, 20, 3_000


async def view(client: httpx.AsyncClient) -> None:
    async with client.stream("GET", "/console/events") as answer:
        async for _ in answer.aiter_raw():
            pass


async def produce(client: httpx.AsyncClient) -> None:
    while True:
        now_ms = int(time.time() * 1000)
        messages = [{"at_ms": now_ms + AHEAD_MS + n * int(EVERY * 1000 / AT_ONCE)} for n in range(AT_ONCE)]
        await client.post(f"/topics/{TOPIC}/messages", json={"messages": messages}, headers=GROUP)
        await asyncio.sleep(EVERY)


async def consume(client: httpx.AsyncClient, late_ms: list[float]) -> None:
    path = f"/topics/{TOPIC}/leases?consumer_id=bench&buffer=1000"
    async with client.stream("GET", path) as answer:
        done: list[dict[str, object]] = []
        async for line in answer.aiter_lines():
            if not line:
                continue
            lease = json.loads(line)
            late_ms.append(time.time() * 1000 - lease["created_for_ms"])
            done.append({"id": lease["id"], "version": lease["version"]})
            if len(done) >= AT_ONCE:
                body, done = {"consumer_id": "bench", "leases": done}, []
                await client.post(f"/topics/{TOPIC}/leases/delete", json=body)


async def measured(url: str, node: NodeProcess, viewers: int, seconds: float) -> tuple[float, list[float]]:
    """The share of a processor that the node used, and how late leases were."""
    late_ms: list[float] = []
    async with AsyncExitStack() as opened:
        limits = httpx.Limits(max_connections=viewers + 10)
        client = await opened.enter_async_context(httpx.AsyncClient(base_url=url, timeout=None, limits=limits))
        work = [consume(client, late_ms), produce(client), *(view(client) for _ in range(viewers))]
        tasks = [asyncio.create_task(one) for one in work]
        await asyncio.sleep(AHEAD_MS / 1000 + 2)
        late_ms.clear()
        used, began = node.cpu_seconds(), time.monotonic()
        await asyncio.sleep(seconds)
        share = (node.cpu_seconds() - used) / (time.monotonic() - began)
        found = list(late_ms)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return share, found


def p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


async def run(url: str, node: NodeProcess, viewers: int, seconds: float, rounds: int) -> None:
    async with httpx.AsyncClient(base_url=url, timeout=60) as client:
        (await client.put(f"/topics/{TOPIC}", json={})).raise_for_status()
    shares: dict[int, list[float]] = {0: [], viewers: []}
    late: dict[int, list[float]] = {0: [], viewers: []}
    for _ in range(rounds):
        for count in (0, viewers):
            share, found = await measured(url, node, count, seconds)
            shares[count].append(share)
            late[count] += found
    for count, found in late.items():
        share = statistics.median(shares[count])
        print(
            f"{count:3} viewers: {share * 100:.2f} % of a core; {len(found)} leases, "
            f"late p50 {statistics.median(found):.1f} ms, p99 {p99(found):.1f} ms"
        )
    extra = statistics.median(shares[viewers]) - statistics.median(shares[0])
    ratio = p99(late[viewers]) / p99(late[0])
    print(f"the viewers: {extra * 100:.2f} % of a core; p99 with them is {ratio:.2f} of that without")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--viewers", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="meantime-bench-", dir=os.environ.get("TMPDIR")) as folder:
        data = Path(folder) / "data"
        with running(data, nodes=1, timers=False) as places:
            pid = next(row.mark.pid for row in Folder(data).read().processes if row.name == "node-1" and row.mark)
            uvloop.run(run(places.nodes[0].url, NodeProcess(pid), asked.viewers, asked.seconds, asked.rounds))


if __name__ == "__main__":
    main()
