"""The one way in which a test serves HTTP in its own process: the edge and the server of a node, on a real socket."""

import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from meantime.api.edge import Edge, RequestAuthenticator
from meantime.api.http.limits import HttpLimits
from meantime.api.http.server import HttpServer as Server
from meantime.api.http.tls import TlsFiles
from meantime.api.routing import Route, Router
from meantime.api.table import TABLE
from meantime.clock import Clock, SystemClock

HOST = "127.0.0.1"
LIMITS = HttpLimits(body_timeout=30.0, header_timeout=30.0, stop_timeout=3.0)


@dataclass(frozen=True)
class HttpServer:
    port: int
    edge: Edge = field(repr=False)
    server: Server = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


@asynccontextmanager
async def open_http_server(
    routes: Sequence[Route] = TABLE,
    clock: Clock | None = None,
    limits: HttpLimits = LIMITS,
    authenticator: RequestAuthenticator | None = None,
    tls: TlsFiles | None = None,
    unix_path: str = "",
    **services: Any,
) -> AsyncIterator[HttpServer]:
    """Serve these routes until the end of the block, with the services that their handlers ask for. The socket listens from
    the start, so nobody has to wait for the server."""
    parts: Any = SimpleNamespace(**services)
    edge = Edge(Router(list(routes)), parts, clock=clock or SystemClock(), authenticator=authenticator)
    server = Server(edge, limits, tls)
    listener = socket.create_server((HOST, 0))
    await server.start(listener, unix_path)
    try:
        yield HttpServer(listener.getsockname()[1], edge, server)
    finally:
        await server.stop()
