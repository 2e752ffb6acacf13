"""The one way in which a test serves HTTP in its own process: the edge and the server of a node, on a real socket."""

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from litestar import Litestar
from litestar.di import Provide

from meantime.api.edge import Edge, RequestLimits
from meantime.api.problems import HANDLERS
from meantime.api.server import ListenOptions, make_server
from meantime.clock import Clock, SystemClock

HOST = "127.0.0.1"
LIMITS = RequestLimits(max_header_bytes=64 * 1024, max_body_bytes=64 << 20, body_timeout=30.0)


@dataclass(frozen=True)
class HttpServer:
    port: int
    edge: Edge = field(repr=False)

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"


def app_of(routes: Sequence[Any], **services: Any) -> Litestar:
    """An application of some routes of the API, with the services that their handlers ask for by name."""
    return Litestar(
        list(routes),
        dependencies={name: _provide(service) for name, service in services.items()},
        exception_handlers=HANDLERS,
        request_max_body_size=None,
        openapi_config=None,
        logging_config=None,
    )


def _provide(service: Any) -> Provide:
    return Provide(lambda: service, sync_to_thread=False)


@asynccontextmanager
async def open_http_server(
    app: Any,
    clock: Clock | None = None,
    limits: RequestLimits = LIMITS,
    authenticator: Any = None,
    header_timeout: float = 30.0,
) -> AsyncIterator[HttpServer]:
    """Serve `app` until the end of the block. The socket listens from the start, so nobody has to wait for the server."""
    edge = Edge(app, clock=clock or SystemClock(), limits=limits, authenticator=authenticator)
    listening = ListenOptions(HOST, 0, limits.max_header_bytes, header_timeout, max_connections=4096, stop_timeout=3)
    server = make_server(edge, listening)
    with socket.create_server((HOST, 0)) as listener:
        # As uvloop does it in a node. Without it each answer waits 40 ms for the client to acknowledge its headers.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield HttpServer(listener.getsockname()[1], edge)
        finally:
            edge.stopping.set()
            server.should_exit = True
            await serving
