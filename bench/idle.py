"""What costs although nothing happens: a node with ten, a hundred, a thousand of something that is idle.

    nodes          clusters of one and of several nodes, and nothing else
    topics         topics, each with an open push stream
    consumers      open push streams of one topic
    event_types    event types that nobody uses
    watched        event types, each with an open stream
    subscriptions  subscriptions, each with an open stream

Each row is one size: the node's processor and memory, PostgreSQL's processor and statements, while nothing happens. What
there is of something costs little when the rows of a part are alike.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import uvloop
from _edge_idle import NodeProcess, OpenStreams

from meantime.stack.folder import Folder
from meantime.stack.session import running

ROOM = {"MEANTIME_MAX_STREAMS": "5000", "MEANTIME_MAX_CONNECTIONS": "8192"}
MOST_PROCESSOR, MOST_MIB = 0.10, 300.0
AT_ONCE = 20


class Cluster:
    """One that runs, and what its first node and its database have used so far."""

    def __init__(self, data: Path) -> None:
        state = Folder(data).read()
        assert state.places is not None
        self.places = state.places
        self.url = state.places.nodes[0].url
        pids = {row.name: row.mark.pid for row in state.processes if row.mark is not None}
        self._node = NodeProcess(pids["node-1"])
        self._postgres = pids["postgres"]

    def rss_mib(self) -> float:
        return self._node.rss_bytes() / 2**20

    def used(self) -> tuple[float, float, float, float]:
        """The time, the processor seconds of the node and of PostgreSQL, and its transactions."""
        servers = [NodeProcess(pid) for pid in _family(self._postgres)]
        with psycopg.connect(self.places.postgres, autocommit=True) as connection:
            found = connection.execute(
                "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", ["meantime"]
            )
            transactions = float((found.fetchone() or [0])[0])
        return time.monotonic(), self._node.cpu_seconds(), sum(map(_cpu, servers)), transactions

    async def at_rest(self, seconds: float) -> dict[str, float]:
        """Per second, after a while in which everything has settled."""
        await asyncio.sleep(5)
        before = await asyncio.to_thread(self.used)
        await asyncio.sleep(seconds)
        after = await asyncio.to_thread(self.used)
        took, node, postgres, transactions = (new - old for old, new in zip(before, after, strict=True))
        return {
            "processor": node / took,
            "postgres_processor": postgres / took,
            "statements_per_s": transactions / took,
            "mib": self.rss_mib(),
        }


class Bench:
    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.found: dict[str, Any] = {}

    async def topics(self, cluster: Cluster, size: int) -> None:
        name = f"idle-{uuid4().hex[:6]}"
        await made(cluster, [("PUT", f"/topics/{name}-{n}", {}) for n in range(size)])
        await self.streams(cluster, f"{size} topics", [f"/topics/{name}-{n}/leases?consumer_id=c" for n in range(size)])

    async def consumers(self, cluster: Cluster, size: int) -> None:
        name = f"idle-{uuid4().hex[:6]}"
        await made(cluster, [("PUT", f"/topics/{name}", {})])
        await self.streams(cluster, f"{size} consumers", [f"/topics/{name}/leases?consumer_id=c{n}" for n in range(size)])

    async def event_types(self, cluster: Cluster, size: int) -> None:
        name = f"idle.{uuid4().hex[:6]}"
        await made(cluster, [("POST", "/event-types", {"name": f"{name}.n{n}"}) for n in range(size)])
        self.tell(f"{size} event types", await cluster.at_rest(self.options.seconds))

    async def watched(self, cluster: Cluster, size: int) -> None:
        name = f"idle.{uuid4().hex[:6]}"
        await made(cluster, [("POST", "/event-types", {"name": f"{name}.n{n}"}) for n in range(size)])
        await self.streams(cluster, f"{size} watched", [f"/event-types/{name}.n{n}/events" for n in range(size)])

    async def subscriptions(self, cluster: Cluster, size: int) -> None:
        name = f"idle.{uuid4().hex[:6]}"
        await made(cluster, [("POST", "/event-types", {"name": name})])
        asked = [{"owning_application": f"a{n}", "event_types": [name]} for n in range(size)]
        answers = await made(cluster, [("POST", "/subscriptions", one) for one in asked])
        await self.streams(cluster, f"{size} subscriptions", [f"/subscriptions/{one['id']}/events" for one in answers])

    async def streams(self, cluster: Cluster, name: str, paths: list[str]) -> None:
        streams, began = OpenStreams(cluster.url), time.monotonic()
        for first in range(0, len(paths), 50):
            await streams.open(paths[first : first + 50])
        opened = time.monotonic() - began
        self.tell(name, await cluster.at_rest(self.options.seconds) | {"streams": len(streams), "opened_in_s": opened})
        await streams.close()

    def tell(self, name: str, values: dict[str, float]) -> None:
        self.found[name] = values
        met = values["processor"] <= MOST_PROCESSOR and values["mib"] <= MOST_MIB
        values["within_limits"] = float(met)
        if not self.options.json:
            shown = "   ".join(f"{key} {value:,.3g}" for key, value in values.items() if key != "within_limits")
            print(f"  {name:<22}{shown}   {'met' if met else 'MISSED'}", flush=True)


async def made(cluster: Cluster, requests: list[tuple[str, str, dict[str, Any]]]) -> list[dict[str, Any]]:
    """The answers, some requests at a time."""
    room = asyncio.Semaphore(AT_ONCE)

    async def ask(http: httpx.AsyncClient, method: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
        async with room:
            answer = await http.request(method, path, json=body)
            answer.raise_for_status()
            found: dict[str, Any] = answer.json()
            return found

    async with httpx.AsyncClient(base_url=cluster.url, timeout=120, trust_env=False, verify=False) as http:
        return list(await asyncio.gather(*(ask(http, *request) for request in requests)))


def _family(pid: int) -> list[int]:
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(found for child in children for found in _family(int(child)))]


def _cpu(process: NodeProcess) -> float:
    try:
        return process.cpu_seconds()
    except OSError:
        return 0.0  # gone between the look and the look


async def run_part(bench: Bench, data: Path, part: str) -> None:
    cluster = Cluster(data)
    for size in bench.options.sizes:
        await getattr(bench, part)(cluster, size)


def _numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",")]


def main() -> int:
    parts = ("nodes", "topics", "consumers", "event_types", "watched", "subscriptions")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="how long nothing happens")
    parser.add_argument("--sizes", type=_numbers, default=[10, 100, 1000], help="separated by commas")
    parser.add_argument("--nodes", type=_numbers, default=[1, 3], help="sizes of the clusters of the part `nodes`")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; all if none is named")
    options = parser.parse_args()
    bench = Bench(options)
    for part in options.parts or parts:
        if not options.json:
            print(f"\n{part}", flush=True)
        for nodes in options.nodes if part == "nodes" else [1]:
            with ExitStack() as opened:
                data = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="meantime-bench-"))) / "stack"
                opened.enter_context(running(data, nodes=nodes, timers=False, node_env=ROOM))
                if part == "nodes":
                    bench.tell(f"{nodes} nodes", uvloop.run(Cluster(data).at_rest(options.seconds)))
                else:
                    uvloop.run(run_part(bench, data, part))
    if options.json:
        print(json.dumps(bench.found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
