"""Rows of the table about topics: batches against pgmq's SQL, single messages against beanstalkd, lateness."""

import asyncio
import json
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from uuid import uuid4

import topics
import uvloop
from _streams_load import percentile
from _table_model import Missing, Stage, Values
from _topics_lateness import _arrivals
from _topics_ours import Http, Storage
from _topics_peers import Missing as NoPgmq
from _topics_peers import Pgmq

from meantime import AsyncClient
from meantime.database.statements import open_statements
from meantime.stack import ports

OPERATIONS = ("create", "lease", "cycle")
SINGLE, SINGLE_SHORT = 4000, 1000


def batches(stage: Stage) -> Values:
    return uvloop.run(_batches(stage))


async def _batches(stage: Stage) -> Values:
    rounds = 4 if stage.short else 6 * stage.turns
    found: Values = {}
    async with AsyncExitStack() as opened:
        try:
            pgmq = await Pgmq.open(stage.places.postgres)
        except NoPgmq as missing:
            raise Missing(f"pgmq: {missing}") from missing
        opened.push_async_callback(pgmq.close)
        client = await opened.enter_async_context(AsyncClient(stage.url, producer_group="bench"))
        topic = f"bench.{uuid4().hex[:8]}"
        await client.create_topic(topic)
        statements = await opened.enter_async_context(open_statements(stage.places.postgres, size=40))
        storage = await Storage.open(statements, "bench.storage")
        for name, side in (("http", Http(client, topic)), ("storage", storage)):
            rates = await topics.compare([side, pgmq], rounds=rounds, batches=20)
            for operation in OPERATIONS:
                ratios = rates[side.name].over(rates["pgmq"], operation)
                found[f"{name} {operation}"] = statistics.median(ratios)
    return found


# Single messages


def single(stage: Stage) -> Values:
    if shutil.which("beanstalkd") is None:
        raise Missing("beanstalkd: install it with the package manager (Debian: apt install beanstalkd)")
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder:
        port = ports.choose(set())
        # It writes to its disk after every command.
        server = subprocess.Popen(["beanstalkd", "-l", "127.0.0.1", "-p", str(port), "-b", folder, "-f", "0"])
        try:
            time.sleep(0.5)
            return uvloop.run(_single(stage, port))
        finally:
            server.terminate()
            server.wait(30)


async def _single(stage: Stage, port: int) -> Values:
    """Each consumer leases one message and deletes it, again and again."""
    count, found = SINGLE_SHORT if stage.short else SINGLE, Values()
    for consumers in (1, 64):
        jobs = count // 4 if consumers == 1 else count
        pairs = [
            (await _beanstalkd(port, consumers, jobs), await _ours(stage.url, consumers, jobs)) for _ in range(stage.turns)
        ]
        found[f"{consumers} consumers"] = statistics.median(own / other for other, own in pairs)
        found[f"{consumers} consumers, per s"] = statistics.median(own for _, own in pairs)
        found[f"{consumers} consumers, beanstalkd per s"] = statistics.median(other for other, _ in pairs)
    return found


async def _beanstalkd(port: int, consumers: int, count: int) -> float:
    body, done = b"x" * 200, 0
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for first in range(0, count, 500):
        some = min(500, count - first)
        writer.write(b"".join(b"put 0 0 600 %d\r\n%b\r\n" % (len(body), body) for _ in range(some)))
        for _ in range(some):
            assert (await reader.readline()).startswith(b"INSERTED")
    writer.close()

    async def consume(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal done
        while True:
            writer.write(b"reserve-with-timeout 0\r\n")
            head = await reader.readline()
            if not head.startswith(b"RESERVED"):
                break
            _, id, size = head.split()
            await reader.readexactly(int(size) + 2)
            writer.write(b"delete %b\r\n" % id)
            assert await reader.readline() == b"DELETED\r\n"
            done += 1
        writer.close()

    connections = [await asyncio.open_connection("127.0.0.1", port) for _ in range(consumers)]
    began = time.perf_counter()
    await asyncio.gather(*(consume(*connection) for connection in connections))
    assert done == count, f"beanstalkd gave {done} of {count}"
    return count / (time.perf_counter() - began)


async def _ours(url: str, consumers: int, count: int) -> float:
    topic, done = f"bench.{uuid4().hex[:8]}", 0
    async with AsyncClient(url, producer_group="bench") as client:
        await client.create_topic(topic)
        side = Http(client, topic)
        for first in range(0, count, 1000):
            await side.create(side.prepare(min(1000, count - first)))

    async def consume(number: int, ask: "Asking") -> None:
        nonlocal done
        leasing = json.dumps({"consumer_id": f"c{number}", "limit": 1, "lease_ms": 600_000}).encode()
        while done < count:
            leases = (await ask.post(f"/topics/{topic}/leases", leasing))["leases"]
            for lease in leases:
                one = {"id": lease["id"], "version": lease["version"]}
                form = json.dumps({"consumer_id": f"c{number}", "leases": [one]}).encode()
                await ask.post(f"/topics/{topic}/leases/delete", form)
                done += 1

    async with AsyncExitStack() as opened:
        asking = [await opened.enter_async_context(_connected(url)) for _ in range(consumers)]
        began = time.perf_counter()
        await asyncio.gather(*(consume(number, ask) for number, ask in enumerate(asking)))
        took = time.perf_counter() - began
    assert done == count, f"{done} of {count} were leased"
    return count / took


class Asking:
    """A connection that costs next to nothing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def post(self, path: str, body: bytes) -> dict[str, list[dict[str, object]]]:
        head = (
            f"POST {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        self._writer.write(head.encode() + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0])
        content = await self._reader.readexactly(length)
        assert answer[9:12] == b"200", answer + content
        found: dict[str, list[dict[str, object]]] = json.loads(content)
        return found


@asynccontextmanager
async def _connected(url: str) -> AsyncIterator[Asking]:
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        yield Asking(reader, writer)
    finally:
        writer.close()


# Lateness


def late(stage: Stage) -> Values:
    found: Values = {}
    for rate in (200, 1000):
        arrivals = uvloop.run(_arrivals(stage.url, rate, 4 if stage.short else 15))
        times = [one.late_ms for one in arrivals]
        found |= {f"p50 at {rate}": percentile(times, 0.5), f"p99 at {rate}": percentile(times, 0.99)}
    return found
