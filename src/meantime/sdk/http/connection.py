"""The direct way to a node: HTTP/1.1 over a plain connection, for calls whose whole answer is wanted.

A call with httpx costs the client 0.8 ms, whatever it is for; creating 100 messages costs the node little more. Here it is
a tenth of that. The direct way is taken for a node that needs neither TLS nor a proxy; all others are asked through httpx.
Failures are raised as errors of httpx, so callers need not know which way was taken. Streams: `stream_connection`.

    idle ──► asked ──► answered ──► idle
               └─────► broken or given up: the connection is closed
"""

import asyncio
import time
from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar, cast
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httptools
import httpx

from meantime.sdk.calls.call import Response
from meantime.sdk.core import Request
from meantime.sdk.node_urls import is_local

CONNECT_FOR = 5.0
#: A node closes idle connections later than this.
KEPT_FOR = 15.0
MOST_KEPT = 100
SCHEME = "http://"

HostPort = tuple[str, int]
W = TypeVar("W", bound=asyncio.Protocol)


def is_direct(url: str) -> bool:
    """Whether the node at this address can be reached without TLS and without a proxy."""
    host = urlsplit(url).hostname or ""
    if not url.startswith(SCHEME) or "@" in url:
        return False
    return is_local(url) or not getproxies().keys() & {"http", "all"} or bool(proxy_bypass(host))


class ConnectionPool:
    """Connections to nodes; those that are not in use are kept for the next call."""

    def __init__(self) -> None:
        self._idle: dict[HostPort, list[_Connection]] = {}

    async def request(self, request: Request) -> Response:
        host_port, message = encoded(request)
        connection = self._kept(host_port) or await connect(host_port, _Connection)
        try:
            answer = await connection.ask(message, request.answer_for)
        except BaseException:
            connection.close()
            raise
        self._keep(host_port, connection)
        return answer

    def close(self) -> None:
        for connections in self._idle.values():
            for connection in connections:
                connection.close()
        self._idle.clear()

    def _kept(self, host_port: HostPort) -> "_Connection | None":
        """The one that was used last; those that have been idle for too long are closed."""
        connections = self._idle.get(host_port, [])
        while connections:
            connection = connections.pop()
            if connection.usable and time.monotonic() - connection.idle_since < KEPT_FOR:
                return connection
            connection.close()
        return None

    def _keep(self, host_port: HostPort, connection: "_Connection") -> None:
        connections = self._idle.setdefault(host_port, [])
        if connection.usable and len(connections) < MOST_KEPT:
            connection.idle_since = time.monotonic()
            connections.append(connection)
        else:
            connection.close()


class _Connection(asyncio.Protocol):
    """One connection, and the callbacks of its parser."""

    def __init__(self) -> None:
        self.idle_since = 0.0
        self.usable = False
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[Response] | None = None
        self._patience: asyncio.Timeout | None = None
        self._answer_for = 0.0

    async def ask(self, message: list[bytes], answer_for: float) -> Response:
        assert self._transport is not None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._answer_for = answer_for
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.writelines(message)
        try:
            async with asyncio.timeout(answer_for) as self._patience:
                return await self._answer
        except TimeoutError:
            raise httpx.ReadTimeout(f"no data for {answer_for:g} s") from None
        finally:
            self._answer = self._patience = None

    def close(self) -> None:
        self.usable = False
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.usable = True

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._patience is None:
            self.close()
            return
        self._patience.reschedule(asyncio.get_running_loop().time() + self._answer_for)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(httpx.RemoteProtocolError(f"the answer is not HTTP: {error}"))

    def connection_lost(self, error: Exception | None) -> None:
        self.usable = False
        self._fail(httpx.ReadError(str(error)) if error else httpx.RemoteProtocolError("the node closed the connection"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        self.usable = self.usable and bool(self._parser.should_keep_alive())
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(Response(self._parser.get_status_code(), self._headers, b"".join(self._body)))

    def _fail(self, error: httpx.TransportError) -> None:
        self.usable = False
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error)


async def connect(host_port: HostPort, make: Callable[[], W]) -> W:
    try:
        async with asyncio.timeout(CONNECT_FOR):
            _, connection = await asyncio.get_running_loop().create_connection(make, *host_port)
    except TimeoutError:
        raise httpx.ConnectTimeout(f"no connection within {CONNECT_FOR:g} s") from None
    except OSError as error:
        raise httpx.ConnectError(str(error)) from error
    return connection


def encoded(request: Request) -> tuple[HostPort, list[bytes]]:
    """Where a request goes, and what is sent there."""
    if not request.url.startswith(SCHEME):
        raise httpx.UnsupportedProtocol(f"{request.url} cannot be asked over a plain connection")
    authority, _, target = request.url.removeprefix(SCHEME).partition("/")
    return _host_port(authority), [_head(request, authority, target), request.content or b""]


@lru_cache(maxsize=64)
def _host_port(authority: str) -> HostPort:
    parts = urlsplit(SCHEME + authority)
    return parts.hostname or "", parts.port or 80


def _head(request: Request, authority: str, target: str) -> bytes:
    fields = {"Host": authority, **request.headers}
    if request.content is not None or request.method in ("POST", "PUT", "PATCH"):
        fields["Content-Length"] = str(len(request.content or b""))
    lines = [f"{request.method} /{target} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items())]
    # A line break within a value would begin another header.
    if not all(line.isascii() and line.isprintable() for line in lines):
        raise httpx.LocalProtocolError("a header has characters that cannot be sent")
    return "\r\n".join([*lines, "\r\n"]).encode("ascii")
