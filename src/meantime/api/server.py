"""The HTTP server: uvicorn with limits on what it takes in before any of our code sees a request.

uvicorn's fast parser has no limit on headers and no patience limit for a client that sends them slowly; `GuardedProtocol`
adds both. Everything after the headers (body size, body time) is checked by the edge, in `api.edge`.
"""

import asyncio
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from meantime.api.edge import Edge


@dataclass(frozen=True, slots=True)
class ListenOptions:
    host: str
    port: int
    max_header_bytes: int
    header_timeout: float
    max_connections: int
    stop_timeout: float
    tls_cert: str = ""
    tls_key: str = ""
    tls_ca: str = ""


def guarded_protocol(max_header_bytes: int, header_timeout: float) -> type[HttpToolsProtocol]:
    """A protocol class with these limits; uvicorn takes a class, not an object."""

    class GuardedProtocol(HttpToolsProtocol):
        _header_bytes = 0
        _in_headers = False
        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_headers()

        def on_message_begin(self) -> None:
            super().on_message_begin()
            self._expect_headers()

        def on_headers_complete(self) -> None:
            self._in_headers = False
            self._forget_deadline()
            super().on_headers_complete()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self._in_headers:
                self._header_bytes += len(data)
                if self._header_bytes > max_header_bytes:
                    self._refuse(431, "Request Header Fields Too Large")

        def connection_lost(self, exc: Exception | None) -> None:
            self._forget_deadline()
            super().connection_lost(exc)

        def _expect_headers(self) -> None:
            self._in_headers, self._header_bytes = True, 0
            self._forget_deadline()
            self._deadline = self.loop.call_later(header_timeout, self._headers_late)

        def _headers_late(self) -> None:
            if self._in_headers:
                self._refuse(408, "Request Timeout") if self._header_bytes else self.transport.close()

        def _refuse(self, status: int, reason: str) -> None:
            if not self.transport.is_closing():
                self.transport.write(
                    f"HTTP/1.1 {status} {reason}\r\nconnection: close\r\ncontent-length: 0\r\n\r\n".encode()
                )
                self.transport.close()

        def _forget_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return GuardedProtocol


class Server(uvicorn.Server):
    """uvicorn without its signal handlers: the node decides when to stop."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def make_server(app: Edge, options: ListenOptions) -> Server:
    config = uvicorn.Config(
        app,
        host=options.host,
        port=options.port,
        http=guarded_protocol(options.max_header_bytes, options.header_timeout),
        loop="uvloop",
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        limit_concurrency=options.max_connections,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=max(1, round(options.stop_timeout)),
        backlog=2048,
        ssl_certfile=options.tls_cert or None,
        ssl_keyfile=options.tls_key or None,
        ssl_ca_certs=options.tls_ca or None,
        ssl_cert_reqs=ssl.CERT_REQUIRED if options.tls_ca else ssl.CERT_NONE,
    )
    return Server(config)
