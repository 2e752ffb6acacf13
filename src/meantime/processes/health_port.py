"""A port on which a process without an API says how it is, for whoever supervises it.

`/health` is answered by the loop that does the work, so that an answer proves more than that there is a process. `/ready`
is 503 until the process has found the services that it stands on. Nothing else is told, so the port is open to all.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

from meantime.errors import Invalid

ANY_ADDRESS = "0.0.0.0"
WITHIN = 5.0
MOST_BYTES = 8192


@dataclass(slots=True)
class ProcessHealth:
    """What is told; there is no way back from being ready, for processes mend themselves."""

    ready: bool = False

    def answer(self, path: str) -> tuple[int, str]:
        if path == "/health":
            return 200, "alive"
        if path == "/ready":
            return (200, "ready") if self.ready else (503, "starting")
        return 404, "unknown"


@asynccontextmanager
async def open_health_port(port: int | None) -> AsyncIterator[ProcessHealth]:
    """Without a port nobody is told."""
    health = ProcessHealth()
    if port is None:
        yield health
        return
    try:
        server = await asyncio.start_server(partial(_serve, health), ANY_ADDRESS, port, limit=MOST_BYTES)
    except OSError as error:
        raise Invalid(
            f"--health-port: cannot listen on port {port}: {error.strerror}; name a free one", option="--health-port"
        ) from error
    try:
        yield health
    finally:
        server.close()


async def _serve(health: ProcessHealth, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One request, one answer."""
    try:
        with suppress(OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            async with asyncio.timeout(WITHIN):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_response(health, head))
                await writer.drain()
    finally:
        writer.close()


def _response(health: ProcessHealth, head: bytes) -> bytes:
    asked = head.partition(b"\r\n")[0].decode("latin-1").split(" ")
    status, word = health.answer(asked[1].partition("?")[0]) if len(asked) == 3 else (400, "not HTTP")
    body = f'{{"status":"{word}"}}\n'.encode()
    head_lines = (
        f"HTTP/1.1 {status} -",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head_lines, "", "")).encode() + body
