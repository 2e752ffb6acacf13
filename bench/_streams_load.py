"""Load for the benchmarks of streams: a client that costs next to nothing, so that what is measured is the node."""

import asyncio
import time
from urllib.parse import urlsplit


def request(path: str, body: bytes, method: str = "POST") -> bytes:
    return (
        f"{method} {path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    ).encode() + body


def batch(count: int = 100, size: int = 200) -> bytes:
    event = b'{"order":"' + b"x" * (size - 12) + b'"}'
    return b"[" + b",".join([event] * count) + b"]"


class Connection:
    """One keep-alive connection that sends prepared requests and looks at nothing but the status."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, prepared: bytes) -> int:
        self._writer.write(prepared)
        head = await self._reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0].strip()
        if length and int(length):
            await self._reader.readexactly(int(length))
        return int(head[9:12])

    def close(self) -> None:
        self._writer.close()


async def connect(url: str) -> Connection:
    parts = urlsplit(url)
    return Connection(*await asyncio.open_connection(parts.hostname, parts.port))


async def hammer(url: str, path: str, body: bytes, *, connections: int, seconds: float) -> tuple[int, list[float]]:
    """Send the same request over and over; returns how many were answered with 200 and how long each took."""
    prepared, until = request(path, body), time.monotonic() + seconds
    latencies: list[float] = []

    async def one() -> None:
        connection = await connect(url)
        try:
            while (started := time.monotonic()) < until:
                status = await connection.send(prepared)
                if status != 200:
                    raise RuntimeError(f"the node answered {status}")
                latencies.append(time.monotonic() - started)
        finally:
            connection.close()

    await asyncio.gather(*(one() for _ in range(connections)))
    return len(latencies), latencies


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
