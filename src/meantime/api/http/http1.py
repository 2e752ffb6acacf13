"""HTTP/1.1 on a connection: httptools parses, this decides.

    reading headers ──> answering ──> reading headers ──> …
          │                 │
          └── refused ──────┴──> closed

Requests of one connection are answered one after the other. Those that a client sends ahead wait, and when too many do,
reading waits as well. An offer to upgrade is declined: the request is served as if the offer were not there, as RFC 9110
allows. A connection that begins with the preface of HTTP/2 goes on as one.
"""

import asyncio
from collections import deque
from typing import cast

import httptools

from meantime.api.http.connection import LINGER_FOR, Connections, refusal
from meantime.api.http.http1_exchange import STATUS_LINES, Http1Exchange
from meantime.api.http.http2 import PREFACE, Http2Connection
from meantime.errors import HeadersTooLarge, Malformed

FRAMING = (b"content-length", b"transfer-encoding")
HIGH_WATER = 64 * 1024
MOST_WAITING = 16
"""So many requests sent ahead are parsed before reading pauses."""


class Http1Connection(asyncio.Protocol):
    """Also the first protocol of every connection, until it is known which version the client speaks."""

    __slots__ = (
        "_buffer",
        "_current",
        "_deadline",
        "_drain",
        "_feeding",
        "_header_bytes",
        "_idle_since",
        "_paused",
        "_reading_headers",
        "_received",
        "_resuming",
        "_silence",
        "_started",
        "_url",
        "_waiting",
        "headers",
        "parser",
        "shared",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, shared: Connections) -> None:
        self.shared = shared
        self.parser = httptools.HttpRequestParser(self)
        self.headers: dict[bytes, bytes] = {}
        self._url = b""
        self._header_bytes = 0
        """Of the head that is being read, in what was received before."""
        self._received = 0
        self._reading_headers = False
        self._resuming = False
        self._started = False
        self._buffer = b""
        self._current: Http1Exchange | None = None
        self._feeding: Http1Exchange | None = None
        self._waiting: deque[Http1Exchange] = deque()
        self._deadline: asyncio.TimerHandle | None = None
        self._silence: asyncio.TimerHandle | None = None
        self._drain: asyncio.Future[None] | None = None
        self._paused = False
        self._idle_since = 0.0

    # --- the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        shared = self.shared
        if shared.full or shared.stopping:
            self._refuse(503, "this node has as many connections as it takes; try again", "unavailable", retry_after=True)
            return
        shared.add(self)
        tls = transport.get_extra_info("ssl_object")
        if tls is not None and tls.selected_alpn_protocol() == "h2":
            self._become_http2(b"")
            return
        self.transport.set_write_buffer_limits(HIGH_WATER)
        self._idle_since = shared.loop.time()
        self._silence = shared.loop.call_later(shared.limits.header_timeout, self._watch_silence)

    def data_received(self, data: bytes) -> None:
        if not self._started:
            data = self._buffer + data
            if PREFACE.startswith(data[: len(PREFACE)]):
                if len(data) < len(PREFACE):
                    self._buffer = data
                else:
                    self._become_http2(data)
                return
            self._started, self._buffer = True, b""
        self._received = len(data)
        self._parse(data)
        if self._reading_headers:
            self._header_bytes += len(data)
            if self._header_bytes > self.shared.limits.max_header_bytes:
                self._refuse_headers()
            elif self._deadline is None:
                self._expect_by(self.shared.limits.header_timeout)
        elif self._feeding is not None and self._deadline is None:
            self._expect_by(self.shared.limits.body_timeout)

    def eof_received(self) -> bool:
        """A client may close its side after the request and still read the answer. Where the answer depends on somebody who
        waits for it, the client is taken to be gone."""
        current = self._current
        if current is None or not current.body_complete or not self.transport.can_write_eof():
            return False
        current.keep_alive = False
        return not current.client_closes()

    def pause_writing(self) -> None:
        self._paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
        self._read_on()

    def connection_lost(self, error: Exception | None) -> None:
        self.shared.remove(self)
        self._forget_timers()
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
        if self._current is not None:
            self._current.client_gone()
        for exchange in self._waiting:
            exchange.client_gone()
            exchange.over()  # nobody will answer it
        self._waiting.clear()

    async def drained(self) -> None:
        if self._paused and not self.transport.is_closing():
            self._drain = self.shared.loop.create_future()
            await self._drain

    # --- the parser ---

    def _parse(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offered:
            self._decline_upgrade(data[offered.args[0] :])
        except httptools.HttpParserError as error:
            self._broken(error)

    def _decline_upgrade(self, rest: bytes) -> None:
        """The parser stops after the headers of a request that offers another protocol. A new one reads the rest: the body,
        for which it is shown a head with the same length or coding, and then the next request."""
        self.parser = httptools.HttpRequestParser(self)
        if self._feeding is None:
            head = b""
        else:
            self._resuming = True
            kept = [(name, value) for name in FRAMING if (value := self._feeding.headers.get(name)) is not None]
            head = b"POST / HTTP/1.1\r\n" + b"".join(b"%b: %b\r\n" % pair for pair in kept) + b"\r\n"
        if head or rest:
            self._parse(head + rest)

    def on_message_begin(self) -> None:
        if self._resuming:
            return
        self.headers = {}
        self._url = b""
        self._header_bytes = 0
        self._reading_headers = True

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._resuming:
            self.headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self._resuming:
            self._resuming = False
            return
        self._reading_headers = False
        self._forget_deadline()
        path, _, query = _target(self._url).partition(b"?")
        exchange = self._feeding = Http1Exchange(self, path, query)
        most = self.shared.limits.max_header_bytes
        if self._header_bytes + self._received > most and self._head_size() > most:
            exchange.fail(HeadersTooLarge(f"the request line and headers are over {most} bytes"))
        exchange.announce(self.headers.get(b"content-length"))
        if self._current is None:
            self._answer(exchange)
        else:
            self._waiting.append(exchange)
            if len(self._waiting) >= MOST_WAITING:
                self.transport.pause_reading()

    def _head_size(self) -> int:
        return len(self._url) + sum(len(name) + len(value) + 4 for name, value in self.headers.items())

    def on_body(self, body: bytes) -> None:
        if self._feeding is not None:
            self._feeding.feed(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade() and self._feeding is not None and self._has_body(self._feeding):
            return  # the body is still to come, see _decline_upgrade
        exchange, self._feeding = self._feeding, None
        self._forget_deadline()
        if exchange is not None:
            exchange.complete()

    @staticmethod
    def _has_body(exchange: Http1Exchange) -> bool:
        return exchange.headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in exchange.headers

    # --- exchanges ---

    def _answer(self, exchange: Http1Exchange) -> None:
        self._current = exchange
        if b"expect" in exchange.headers and exchange.failed is None and not exchange.body_complete:
            self.transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        self.shared.start(exchange)

    def finished(self, exchange: Http1Exchange) -> None:
        """The application is done with the current exchange."""
        if exchange is not self._current:
            return
        self._current = None
        if self.transport.is_closing():
            return
        if not exchange.answered:
            self.abort()
        elif not exchange.body_complete:
            self._linger()
        elif not exchange.keep_alive or (self.shared.stopping and not self._waiting):
            self._close()
        elif self._waiting:
            self._answer(self._waiting.popleft())
            self._read_on()
        else:
            self._idle_since = self.shared.loop.time()

    def stop(self) -> None:
        if self._current is None:
            self._close()
        else:
            self._current.node_stops()

    def abort(self) -> None:
        self.transport.abort()

    def _close(self) -> None:
        """What was written still goes out; not for ever, as a client may not read it."""
        self._forget_timers()
        self.transport.close()
        self._silence = self.shared.loop.call_later(self.shared.limits.idle_timeout, self.transport.abort)

    def _read_on(self) -> None:
        if not self._paused and len(self._waiting) < MOST_WAITING and not self.transport.is_closing():
            self.transport.resume_reading()

    def _become_http2(self, data: bytes) -> None:
        self._forget_timers()
        self.shared.open.discard(self)
        connection = Http2Connection(self.shared)
        self.transport.set_protocol(connection)
        connection.connection_made(self.transport)
        if data:
            connection.data_received(data)

    # --- time ---

    def _expect_by(self, seconds: float) -> None:
        """What has begun must be complete by then. Most requests come in one piece, and need no timer."""
        self._deadline = self.shared.loop.call_later(seconds, self._on_deadline)

    def _on_deadline(self) -> None:
        self._deadline = None
        if self._feeding is not None:
            self._feeding.late()
        elif self._reading_headers and self._current is None:
            self._refuse(408, "the headers did not arrive in time", "headers_late", retryable=True)
        elif self._reading_headers:
            self._expect_by(self.shared.limits.header_timeout)

    def _watch_silence(self) -> None:
        """One timer for the life of the connection: it is late rather than set anew for every request."""
        limits, now = self.shared.limits, self.shared.loop.time()
        patience = limits.idle_timeout if self._started else limits.header_timeout
        if self._current is None and not self._reading_headers and now - self._idle_since >= patience:
            self._close()
            return
        left = patience - (now - self._idle_since) if self._current is None else patience
        self._silence = self.shared.loop.call_later(max(left, 0.05), self._watch_silence)

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _forget_timers(self) -> None:
        self._forget_deadline()
        if self._silence is not None:
            self._silence.cancel()
            self._silence = None

    # --- refusals ---

    def _refuse_headers(self) -> None:
        most = self.shared.limits.max_header_bytes
        self._refuse(431, f"the request line and headers are over {most} bytes", "headers_too_large")

    def _broken(self, error: Exception) -> None:
        feeding = self._feeding
        if feeding is not None:
            feeding.fail(Malformed(f"the body cannot be read: {error}"))
            feeding.keep_alive = False
        elif self._current is None and not self._waiting:
            self._refuse(400, f"this is not a request of HTTP/1.1: {error}", "malformed")
        else:
            (self._waiting[-1] if self._waiting else cast(Http1Exchange, self._current)).keep_alive = False

    def _refuse(self, status: int, detail: str, code: str, *, retryable: bool = False, retry_after: bool = False) -> None:
        if self.transport.is_closing():
            return
        body = refusal(status, detail, code, retryable=retryable or retry_after)
        head = STATUS_LINES[status] + self.shared.application.stamp() + (b"retry-after: 1\r\n" if retry_after else b"")
        head += b"content-type: application/problem+json\r\nconnection: close\r\ncontent-length: %d\r\n\r\n" % len(body)
        self.transport.write(head + body)
        self._reading_headers = False
        self._linger()

    def _linger(self) -> None:
        """Let the client read the answer before its connection is reset."""
        self._forget_timers()
        self.parser = _DEAF
        self._silence = self.shared.loop.call_later(LINGER_FOR, self.transport.abort)
        if self.transport.can_write_eof():
            self.transport.write_eof()


def _target(url: bytes) -> bytes:
    """The path and query of a request line; those who take a node for a proxy send a whole URL."""
    if not url.startswith((b"http://", b"https://")):
        return url
    return b"/" + url.partition(b"://")[2].partition(b"/")[2]


class _Deaf:
    """Takes the place of a parser whose connection is about to close."""

    def feed_data(self, data: bytes) -> None:
        return None


_DEAF = cast(httptools.HttpRequestParser, _Deaf())
