"""Load for the benchmark of the edge: wrk for what can be reached, and arrivals at a rate for how long it takes then."""

import asyncio
import json
import re
import shutil
import subprocess
import tempfile
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from _edge_peer import Missing
from _streams_load import percentile

CONNECTIONS = 64
_PATIENCE = 20.0


@dataclass(frozen=True, slots=True)
class Row:
    """A request that is sent over and over."""

    name: str
    path: str
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    target: float | None = None
    """Least share of what granian reaches."""

    @property
    def method(self) -> str:
        return "GET" if self.body is None else "POST"

    def wire(self) -> bytes:
        lines = [
            f"{self.method} {self.path} HTTP/1.1",
            "host: bench",
            *(f"{name}: {it}" for name, it in self.headers.items()),
        ]
        if self.body is not None:
            lines += ["content-type: application/json", f"content-length: {len(self.body)}"]
        return "\r\n".join([*lines, "", ""]).encode() + (self.body or b"")

    def script(self) -> str:
        """For wrk."""
        lines = [f"wrk.method = {json.dumps(self.method)}"]
        if self.body is not None:
            lines += [f"wrk.body = {json.dumps(self.body.decode())}", 'wrk.headers["content-type"] = "application/json"']
        return "\n".join([*lines, *(f"wrk.headers[{json.dumps(n)}] = {json.dumps(v)}" for n, v in self.headers.items())])


def require_wrk() -> str:
    if found := shutil.which("wrk"):
        return found
    raise Missing("wrk is not installed: apt install wrk, brew install wrk, or https://github.com/wg/wrk")


def reached(url: str, row: Row, seconds: float) -> float:
    """Requests per second of `wrk -t1 -c64`; an answer that is no success is an error."""
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder:
        script = Path(folder) / "request.lua"
        script.write_text(row.script())
        command = [require_wrk(), "-t1", f"-c{CONNECTIONS}", f"-d{seconds:.0f}s", "-s", str(script), url + row.path]
        said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=seconds + 30).stdout
    if refused := re.search(r"Non-2xx or 3xx responses: (\d+)", said):
        raise RuntimeError(f"{row.name}: {refused[1]} answers were no success")
    found = re.search(r"Requests/sec:\s+([\d.]+)", said)
    if found is None:
        raise RuntimeError(f"wrk says no rate: {said}")
    return float(found[1])


class Arrivals(asyncio.Protocol):
    """One of the connections over which requests are sent as they arrive, however late the answers are."""

    def __init__(self, idle: deque["Arrivals"], took: list[float]) -> None:
        self._idle = idle
        self._took = took
        self._arrived = 0.0
        self._left = -1
        self._head = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._idle.append(self)

    def send(self, wire: bytes, arrived: float) -> None:
        self._arrived = arrived
        self.transport.write(wire)

    def data_received(self, data: bytes) -> None:
        if self._left < 0:
            head, gap, data = (self._head + data).partition(b"\r\n\r\n")
            if not gap:
                self._head = head
                return
            if head[9:10] != b"2":
                raise RuntimeError(f"the node answered {head[9:12].decode()}")
            self._head = b""
            self._left = int(head.lower().partition(b"content-length:")[2].split(b"\r\n", 1)[0] or 0)
        self._left -= len(data)
        if self._left <= 0:
            self._left = -1
            self._took.append(time.monotonic() - self._arrived)
            self._idle.append(self)


async def took_at(url: str, row: Row, rate: float, seconds: float) -> list[float]:
    """Seconds from the instant at which each request was to be sent to the end of its answer, `rate` of them a second."""
    idle, took, waiting = deque["Arrivals"](), list[float](), deque[float]()
    loop, parts, wire = asyncio.get_running_loop(), urlsplit(url), row.wire()
    for _ in range(CONNECTIONS):
        await loop.create_connection(lambda: Arrivals(idle, took), parts.hostname, parts.port)
    connections = list(idle)
    began, count, most = time.monotonic(), 0, int(rate * seconds)
    while len(took) < most and time.monotonic() < began + seconds + _PATIENCE:
        while count < most and began + count / rate <= time.monotonic():
            waiting.append(began + count / rate)
            count += 1
        while waiting and idle:
            idle.popleft().send(wire, waiting.popleft())
        await asyncio.sleep(0.0005)
    for connection in connections:
        connection.transport.close()
    return took


def p99_ms(took: list[float]) -> float:
    return percentile(took, 0.99) * 1000 if took else float("nan")
