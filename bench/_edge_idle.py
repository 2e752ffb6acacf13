"""What open streams cost that carry nothing, and what one huge body costs the others."""

import asyncio
import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import httpx
from _edge_load import Row, took_at
from _streams_load import percentile

_TICKS = os.sysconf("SC_CLK_TCK")
_OPENED_WITHIN = 120.0


@dataclass(frozen=True, slots=True)
class NodeProcess:
    """The process whose memory and processor time are looked at."""

    pid: int

    def rss_bytes(self) -> int:
        fields = Path(f"/proc/{self.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


class OpenStreams:
    """Streams whose answers have begun. What they bring is read and dropped."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url)
        self._writers: list[asyncio.StreamWriter] = []
        self._readers: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        return len(self._readers)

    async def open(self, paths: list[str]) -> float:
        """All at once; the seconds until the last one has begun, or until there was no more waiting for it."""
        began = time.monotonic()
        opening = [asyncio.create_task(self._open(path)) for path in paths]
        done, late = await asyncio.wait(opening, timeout=_OPENED_WITHIN)
        for task in late:
            task.cancel()
        for failed in [task for task in done if task.exception()][:3]:
            print(f"    {failed.exception()}", file=sys.stderr)
        return time.monotonic() - began

    async def _open(self, path: str) -> None:
        reader, writer = await asyncio.open_connection(self._address.hostname, self._address.port)
        self._writers.append(writer)
        writer.write(f"GET {path} HTTP/1.1\r\nhost: bench\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        if head[9:12] != b"200":
            raise RuntimeError(f"{path} was answered with {head[9:12].decode()}: {(await reader.read(1000)).decode()}")
        self._readers.append(asyncio.create_task(self._read(reader)))

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while await reader.read(65536):
            pass

    async def close(self) -> None:
        for writer in self._writers:
            writer.close()
        if self._readers:
            await asyncio.wait(self._readers, timeout=30)


async def idle_streams(url: str, node: NodeProcess, paths: list[str], rest: float) -> dict[str, float]:
    """Half of them at once, then the others; memory for each, and the processor while nothing happens."""
    streams, half = OpenStreams(url), len(paths) // 2
    before = node.rss_bytes()
    opened = await streams.open(paths[:half])
    opened_at_once = len(streams)
    for first in range(half, len(paths) if opened_at_once == half else 0, 100):
        await streams.open(paths[first : first + 100])
    await asyncio.sleep(3)
    after, spent = node.rss_bytes(), node.cpu_seconds()
    await asyncio.sleep(rest)
    busy = (node.cpu_seconds() - spent) / rest
    streams_open = len(streams)
    await streams.close()
    return {
        "streams": streams_open,
        "kib_each": (after - before) / 1024 / max(1, streams_open),
        "processor_at_rest": busy,
        "opened_at_once": opened_at_once,
        "of": half,
        "in_seconds": opened,
    }


async def beside_a_huge_batch(url: str, path: str, size: int, health: Row, rate: float) -> dict[str, float]:
    """While a batch of small events is posted: the longest wait of others, who come at a steady rate. The batch is posted by
    another process: to send so much takes a client's loop as long as a node's."""
    others = asyncio.create_task(took_at(url, health, rate, 10.0))
    await asyncio.sleep(1)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        sent = await asyncio.get_running_loop().run_in_executor(pool, _post_a_huge_batch, url + path, size)
        took = await others
    return {**sent, "others_longest_ms": max(took) * 1000, "others_p99_ms": percentile(took, 0.99) * 1000}


def _post_a_huge_batch(url: str, size: int) -> dict[str, float]:
    event = b'{"order":"' + b"x" * 88 + b'"}'
    body = b"[" + b",".join([event] * (size // (len(event) + 1) - 1)) + b"]"
    began = time.monotonic()
    headers = {"content-type": "application/json"}
    answer = httpx.post(url, content=body, headers=headers, timeout=120, trust_env=False, verify=False)
    return {"status": answer.status_code, "mib": len(body) / 2**20, "seconds": time.monotonic() - began}
