"""The rows of the table: what is measured, against whom, where it stood and where it is to be."""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import edge
import workers
from _edge_idle import NodeProcess
from _edge_load import require_wrk
from _edge_peer import Missing as NoPeer
from _edge_peer import granian, running_peer
from _table_model import Figure, Missing, Row, Stage, Values
from _table_processes import idle, start
from _table_streams import business, publish, read, subscription
from _table_timers import near
from _table_topics import batches, late, single

from meantime.stack.folder import Folder
from meantime.stack.session import running


def one_thing(stage: Stage) -> Values:
    """Requests that carry one thing, with wrk, against granian with an application of five lines."""
    options = argparse.Namespace(seconds=stage.seconds, turns=stage.turns, json=True)
    with ExitStack() as opened:
        try:
            require_wrk()
            command = granian(None)
        except NoPeer as missing:
            raise Missing(str(missing)) from missing
        peers = {"asgi": opened.enter_context(running_peer(command, "asgi"))}
        bench = edge.Bench(stage.url, NodeProcess(stage.pids["node-1"]), peers, options)
        bench.declare()
        bench.rates()
    found: Values = {}
    for name, told in bench.found.items():
        if "of_asgi" in told:
            found |= {name: told["of_asgi"], f"{name} p99": told["p99_ms_at_half"], f"{name} µs": told["node_cpu_us"]}
    return found


def worker(stage: Stage) -> Values:
    return workers.batches(stage.places, 50_000 if stage.short else 200_000, turns=stage.turns)


def second_node(stage: Stage) -> Values:
    """What two nodes on this machine publish together, against one of them."""
    from _table_streams import in_turns
    from streams import declare, through_nodes

    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder, running(Path(folder) / "s", nodes=2) as places:
        urls = [node.url for node in places.nodes]
        name = declare(urls[0], 8)
        both, one, ratio = in_turns(
            stage.turns,
            lambda: through_nodes(urls, name, stage.seconds),
            lambda: through_nodes(urls[:1], name, stage.seconds),
        )
    return {"ratio": ratio, "both_per_s": both, "one_per_s": one}


EVENT, MESSAGE = "one event", "one message"
PGMQ, KAFKA = "pgmq's SQL", "confluent-kafka in one process"

ROWS = [
    Row("publish", KAFKA, {"ratio": Figure("publish, 100 × 200 B", 0.65, 0.49)}, publish),
    Row("business", "`undefined`", {"ratio": Figure("`business` events, 20 fields, enriched", 0.6)}, business),
    Row("read", KAFKA, {"ratio": Figure("streaming read", 0.8, 0.44)}, read),
    Row("subscription", KAFKA, {"ratio": Figure("subscription, parsed and committed", 0.6)}, subscription),
    Row(
        "batches",
        PGMQ,
        {
            "http create": Figure("create in batches over HTTP", 0.9, 0.64),
            "http lease": Figure("lease in batches over HTTP", 1.5, 1.35),
            "http cycle": Figure("create, lease, delete over HTTP", 1.1, 0.86),
            "storage create": Figure("create, storage call", 2.0, 1.7),
            "storage lease": Figure("lease, storage call", 2.0, 1.8),
            "storage cycle": Figure("create, lease, delete, storage calls", 1.8, 1.4),
        },
        batches,
    ),
    Row(
        "single",
        "beanstalkd with fsync",
        {
            "1 consumers": Figure("lease and delete one, 1 consumer over HTTP", 0.0),
            "64 consumers": Figure("the same, 64 consumers", 1.0),
        },
        single,
    ),
    Row(
        "late",
        "–",
        {
            "p99 at 200": Figure("lateness of topics at 200/s, p99", 6.0, 12.0, "ms", at_most=True),
            "p99 at 1000": Figure("the same at 1,000/s", 10.0, 25.0, "ms", at_most=True),
        },
        late,
    ),
    Row("worker", "consumer loop", {"ratio": Figure("worker, batch 100, checkpoint 1,000", 0.5, 0.08)}, worker),
    Row(
        "requests",
        "granian, ASGI, five lines",
        {
            "GET /health": Figure("`GET /health`", 0.5, 0.62),
            EVENT: Figure("one event", 0.3, 0.17),
            MESSAGE: Figure("one message", 0.25, 0.25),
            "empty lease": Figure("an empty lease", 0.3, 0.36),
            f"{EVENT} p99": Figure("one event at half of the rate, p99", 25.0, 79.0, "ms", at_most=True),
            f"{MESSAGE} p99": Figure("one message at half of the rate, p99", 25.0, 43.0, "ms", at_most=True),
        },
        one_thing,
    ),
    Row(
        "near",
        "–",
        {"p99": Figure("timer asked for 50 ms ahead or more: visible, p99", 100.0, 944.0, "ms", at_most=True)},
        near,
    ),
    Row(
        "second-node", "one node", {"ratio": Figure("publish with two nodes on this machine", 0.0)}, second_node, stack=False
    ),
    Row(
        "start",
        "–",
        {"start": Figure("`meantime up`, warm, to the first answer", 6.0, 12.0, "s", at_most=True)},
        start,
        False,
    ),
    Row(
        "rest",
        "–",
        {
            "processor": Figure("idle stack with timers, share of a core", 10.0, 35.0, "%", at_most=True),
            "memory": Figure("the same, memory (PSS)", 1400.0, 1700.0, "MB", at_most=True),
        },
        idle,
    ),
]


@contextmanager
def staged(data: Path | None, seconds: float, turns: int) -> Iterator[Stage]:
    """The common stack: of its own, or one that runs."""
    with ExitStack() as opened:
        if data is None:
            data = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="meantime-bench-"))) / "stack"
            opened.enter_context(running(data, nodes=1, timers=True, wait_for_late=False))
        places = Folder(data).read().places
        assert places is not None, "no stack has run there"
        yield Stage(data, places, seconds, turns)
