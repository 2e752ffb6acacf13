"""The edge: requests that carry one thing against granian with an application of five lines, in one run on one node.

    rates    wrk -t1 -c64: /health, one event, one message, an empty lease; p99 of each at half of the reached rate
    batches  100 events of 200 B in a request
    idle     thousands of open streams that carry nothing: memory, processor at rest, opening
    budget   how long others wait while a batch of 64 MiB is posted

The sides take turns, and the middle of several turns counts. Needs wrk and granian.
"""

import argparse
import json
import multiprocessing
import statistics
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import uvloop
from _edge_idle import NodeProcess, beside_a_huge_batch, idle_streams
from _edge_load import Row, p99_ms, reached, require_wrk, took_at
from _edge_peer import Missing, granian, running_peer
from _streams_load import batch

from meantime.stack.folder import Folder
from meantime.stack.session import running

HEALTH = Row("GET /health", "/health", target=0.5)
PEERS = ("asgi", "rsgi")
MOST_P99_MS, MOST_HOLD_MS, MOST_OTHERS_P99_MS = 25.0, 50.0, 100.0
HUGE = 64 * 2**20
ROOM = {"MEANTIME_MAX_STREAMS": "5000", "MEANTIME_MAX_CONNECTIONS": "8192"}


class Bench:
    def __init__(self, url: str, node: NodeProcess, peers: dict[str, str], options: argparse.Namespace) -> None:
        self.url = url
        self.node = node
        self.peers = peers
        self.options = options
        self.event_type, self.topic = f"bench.{uuid4().hex[:8]}", f"bench-{uuid4().hex[:8]}"
        self.found: dict[str, Any] = {}

    def declare(self) -> None:
        statistic = {"read_parallelism": 1, "write_parallelism": 1}
        document = {"name": self.event_type, "category": "undefined", "default_statistic": statistic}
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False, verify=False) as http:
            http.post("/event-types", json=document).raise_for_status()
            for topic in (self.topic, f"{self.topic}-empty"):
                http.put(f"/topics/{topic}", json={}).raise_for_status()

    def single(self) -> list[Row]:
        """Requests that carry one thing. The topic that is leased from is another one: nothing is ever due there."""
        message = b'{"messages":[{"after_ms":86400000,"body":{"order":1}}]}'
        return [
            HEALTH,
            Row("one event", f"/event-types/{self.event_type}/events", batch(1), target=0.3),
            Row("one message", f"/topics/{self.topic}/messages", message, {"X-Producer-Group": "bench"}, target=0.25),
            Row("empty lease", f"/topics/{self.topic}-empty/leases", b'{"consumer_id":"bench"}', target=0.3),
        ]

    def rates(self) -> None:
        rows, seconds = self.single(), self.options.seconds
        rates: dict[str, list[float]] = {name: [] for name in [*self.peers, *(row.name for row in rows)]}
        spent: dict[str, list[float]] = {row.name: [] for row in rows}
        for _ in range(self.options.turns):
            for name, url in self.peers.items():
                rates[name].append(reached(url, HEALTH, seconds))
            for row in rows:
                before = self.node.cpu_seconds()
                rates[row.name].append(reached(self.url, row, seconds))
                spent[row.name].append((self.node.cpu_seconds() - before) / (rates[row.name][-1] * seconds) * 1e6)
        for name in self.peers:
            self.tell(f"granian {name}", per_second=statistics.median(rates[name]), turns=rates[name])
        for row in rows:
            ratios = {f"of_{name}": middle_ratio(rates[row.name], rates[name]) for name in self.peers}
            rate = statistics.median(rates[row.name])
            took = apart(_took_at, self.url, row, rate / 2, seconds)
            self.tell(
                row.name,
                per_second=rate,
                **ratios,
                p99_ms_at_half=p99_ms(took),
                node_cpu_us=statistics.median(spent[row.name]),
                turns=rates[row.name],
            )
            self.judge(f"{row.name} of granian asgi", ratios["of_asgi"], at_least=row.target)
            self.judge(f"{row.name} p99 at half the rate, ms", p99_ms(took), at_most=MOST_P99_MS)

    def batches(self) -> None:
        row = Row("100 events of 200 B", f"/event-types/{self.event_type}/events", batch(100, 200))
        ours, theirs = [], []
        for _ in range(self.options.turns):
            theirs.append(reached(self.peers["asgi"], HEALTH, self.options.seconds))
            ours.append(reached(self.url, row, self.options.seconds))
        rate = statistics.median(ours)
        self.tell(row.name, per_second=rate, events_per_second=rate * 100, of_asgi=middle_ratio(ours, theirs), turns=ours)

    def idle(self) -> None:
        pushes = [f"/topics/{self.topic}-empty/leases?consumer_id=idle-{n}" for n in range(self.options.streams)]
        events = [f"/event-types/{self.event_type}/events?batch_flush_timeout=30"] * self.options.event_streams
        shared = [f"/subscriptions/{id}/events" for id in self.subscribe(self.options.subscription_streams)]
        kinds = {"idle push streams": pushes, "idle event streams": events, "idle streams of subscriptions": shared}
        for name, paths in kinds.items():
            if paths:
                self.tell(name, **uvloop.run(idle_streams(self.url, self.node, paths, rest=10.0)))

    def subscribe(self, count: int) -> list[str]:
        """So many subscriptions of one event type."""
        ids = []
        with httpx.Client(base_url=self.url, timeout=60, trust_env=False, verify=False) as http:
            for number in range(count):
                document = {"owning_application": f"bench-{number}", "event_types": [self.event_type], "read_from": "end"}
                ids.append(http.post("/subscriptions", json=document).raise_for_status().json()["id"])
        return ids

    def budget(self) -> None:
        path = f"/event-types/{self.event_type}/events"
        found = apart(_beside_a_huge_batch, self.url, path, HUGE, HEALTH, 200.0)
        self.tell("others beside a batch of 64 MiB", **found)
        self.judge("longest wait beside it, ms", found["others_longest_ms"], at_most=MOST_HOLD_MS)
        self.judge("p99 beside it, ms", found["others_p99_ms"], at_most=MOST_OTHERS_P99_MS)

    def tell(self, name: str, **values: Any) -> None:
        self.found[name] = values
        if not self.options.json:
            print(f"  {name:<34}" + "   ".join(f"{key} {_shown(value)}" for key, value in values.items()), flush=True)

    def judge(self, what: str, value: float, *, at_least: float | None = None, at_most: float | None = None) -> None:
        if at_least is None and at_most is None:
            return
        met = value >= at_least if at_least is not None else value <= at_most  # type: ignore[operator]
        self.found.setdefault("targets", {})[what] = met
        if not self.options.json:
            sign, limit = ("≥", at_least) if at_least is not None else ("≤", at_most)
            print(f"    target {what} {sign} {limit}: {value:.2f} {'met' if met else 'MISSED'}", flush=True)


def middle_ratio(ours: list[float], theirs: list[float]) -> float:
    """Turn by turn, since the machine changes between turns."""
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "[" + " ".join(f"{one:,.0f}" for one in value) + "]"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _took_at(url: str, row: Row, rate: float, seconds: float) -> list[float]:
    return uvloop.run(took_at(url, row, rate, seconds))


def _beside_a_huge_batch(*arguments: Any) -> dict[str, float]:
    return uvloop.run(beside_a_huge_batch(*arguments))


def apart(work: Callable[..., Any], *arguments: Any) -> Any:
    """In a process of its own, so that neither side disturbs the other."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(work, *arguments).result()


def main() -> int:
    parts = {"rates": Bench.rates, "batches": Bench.batches, "idle": Bench.idle, "budget": Bench.budget}
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=5.0, help="length of one turn of one row")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--streams", type=int, default=2000, help="idle push streams")
    parser.add_argument("--event-streams", type=int, default=2000, help="idle event streams")
    parser.add_argument("--subscription-streams", type=int, default=1000, help="idle streams of subscriptions")
    parser.add_argument("--granian", help="the command, if it is not installed beside this Python")
    parser.add_argument("--stack", type=Path, help="the data directory of a stack that runs, instead of one of its own")
    parser.add_argument("--json", action="store_true", help="print JSON for scripts")
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(parts)}; all if none is named")
    options = parser.parse_args()
    with ExitStack() as opened:
        try:
            require_wrk()
            command = granian(options.granian)
        except Missing as error:
            print(error, file=sys.stderr)
            return 1
        data = options.stack or Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="meantime-bench-"))) / "stack"
        if options.stack is None:
            opened.enter_context(running(data, nodes=1, node_env=ROOM))
        state = Folder(data).read()
        assert state.places is not None
        (pid,) = [row.mark.pid for row in state.processes if row.name == "node-1" and row.mark is not None]
        peers = {name: opened.enter_context(running_peer(command, name)) for name in PEERS}
        bench = Bench(state.places.nodes[0].url, NodeProcess(pid), peers, options)
        bench.declare()
        for part in options.parts or parts:
            if not options.json:
                print(f"\n{part}", flush=True)
            parts[part](bench)
        if options.json:
            print(json.dumps(bench.found, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
