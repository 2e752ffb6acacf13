"""A request of HTTP/1.1 and its answer, as bytes on a connection."""

import asyncio
from typing import Protocol

import httptools

from meantime.api.http.connection import REASONS, Connections, peer_of, speaks_tls
from meantime.api.http.exchange import ClientGone, Headers, HttpExchange

STATUS_LINES = {status: f"HTTP/1.1 {status} {reason}\r\n".encode() for status, reason in REASONS.items()}
BODILESS = (204, 304)
COPIED_BYTES = 64 * 1024
"""A body that is no larger is written in one piece with its head; one that is larger is not copied for that."""


class Carrier(Protocol):
    """The connection, as its exchanges see it."""

    transport: asyncio.Transport
    parser: httptools.HttpRequestParser
    headers: dict[bytes, bytes]
    shared: Connections

    async def drained(self) -> None: ...

    def finished(self, exchange: "Http1Exchange") -> None: ...

    def abort(self) -> None: ...


class Http1Exchange(HttpExchange):
    __slots__ = ("_chunked", "_connection", "keep_alive")

    def __init__(self, connection: Carrier, path: bytes, query: bytes) -> None:
        parser, shared = connection.parser, connection.shared
        super().__init__(
            parser.get_method().decode("ascii"),
            path.decode("latin-1"),
            query,
            connection.headers,
            shared.limits,
            shared.budget,
        )
        self._connection = connection
        self._chunked = parser.get_http_version() != "1.0"
        self.keep_alive = parser.should_keep_alive() if not parser.should_upgrade() else self._chunked

    def peer(self) -> str:
        return peer_of(self._connection.transport)

    def tls(self) -> bool:
        return speaks_tls(self._connection.transport)

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        self.answered = True
        if self.gone:
            return
        head = self._head(status, headers)
        if status not in BODILESS:
            head.append(b"content-length: %d\r\n" % len(body))
        head.append(b"\r\n")
        if self.method == "HEAD" or status in BODILESS:
            body = b""
        if len(body) > COPIED_BYTES:
            self._connection.transport.writelines([*head, body])
        else:
            head.append(body)
            self._connection.transport.write(b"".join(head))

    def open(self, status: int, headers: Headers) -> None:
        self.answered = True
        if self.gone:
            return
        if not self._chunked:
            self.keep_alive = False
        head = self._head(status, headers)
        head.append(b"transfer-encoding: chunked\r\n\r\n" if self._chunked else b"\r\n")
        self._connection.transport.write(b"".join(head))

    async def write(self, chunk: bytes) -> None:
        if self.gone:
            raise ClientGone
        data = b"%x\r\n%b\r\n" % (len(chunk), chunk) if self._chunked else chunk
        self._connection.transport.write(data)
        await self._connection.drained()

    def close(self, *, complete: bool) -> None:
        if self.gone:
            return
        if not complete:
            self._connection.abort()
        elif self._chunked:
            self._connection.transport.write(b"0\r\n\r\n")

    def over(self) -> None:
        super().over()
        self._connection.finished(self)

    def _head(self, status: int, headers: Headers) -> list[bytes]:
        if self.failed is not None or not self.body_complete or self._connection.shared.stopping:
            self.keep_alive = False
        head = [STATUS_LINES[status]]
        head += [b"%b: %b\r\n" % pair for pair in headers]
        if not self.keep_alive:
            head.append(b"connection: close\r\n")
        elif not self._chunked:
            head.append(b"connection: keep-alive\r\n")
        return head
