"""HTTP/2 on a connection: h2 knows the protocol, this moves bytes and keeps to the windows of the client.

A stream of HTTP/2 is an exchange. What an answer may not send yet waits in its exchange until the client opens its window,
so a client that does not read holds back its own answers only. At a stop what waits ends, new streams are refused, and when
all are done the client is told (GOAWAY). Told earlier, some clients would give up what is still being answered.
"""

import asyncio
from collections.abc import Callable
from typing import cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from meantime.api.http.connection import LINGER_FOR, Connections, peer_of, speaks_tls
from meantime.api.http.exchange import ClientGone, Headers, HttpExchange
from meantime.errors import HeadersTooLarge

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MOST_STREAMS = 256
WINDOW = 1 << 20
MOST_UNPARSED = 64 * 1024
"""h2 keeps what it cannot parse yet, however long a frame says that it is; no frame that it takes is longer than 16 KiB."""
MOST_RESETS = 1000
"""Streams that a client may take back before they were answered; more is an attack, and ends the connection."""

CODES = h2.errors.ErrorCodes
HIGH_WATER = 256 * 1024


class Http2Exchange(HttpExchange):
    __slots__ = ("_connection", "_ending", "_on_sent", "_open", "_room", "_stream", "_timer", "_unsent")

    def __init__(self, connection: "Http2Connection", stream: int, head: dict[bytes, bytes]) -> None:
        target = head.pop(b":path", b"/")
        path, _, query = target.partition(b"?")
        method = head.pop(b":method", b"").decode("latin-1")
        shared = connection.shared
        super().__init__(method, path.decode("latin-1"), query, head, shared.limits, shared.budget)
        self._connection = connection
        self._stream = stream
        self._unsent = b""
        self._ending = False
        self._open = True
        self._room: asyncio.Future[None] | None = None
        self._on_sent: Callable[[], None] | None = None
        self._timer: asyncio.TimerHandle | None = shared.loop.call_later(shared.limits.body_timeout, self.late)

    def peer(self) -> str:
        return peer_of(self._connection.transport)

    def tls(self) -> bool:
        return speaks_tls(self._connection.transport)

    def complete(self) -> None:
        self._forget_timer()
        super().complete()

    def send(self, status: int, headers: Headers, body: bytes) -> None:
        self.answered = True
        bodiless = self.method == "HEAD" or status in (204, 304)
        head = [(b":status", b"%d" % status), *headers]
        if status not in (204, 304):
            head.append((b"content-length", b"%d" % len(body)))
        if self._send_head(head, last=bodiless or not body) and not bodiless and body:
            self._unsent, self._ending = body, True
            self.pump()
        self._connection.flush()

    def open(self, status: int, headers: Headers) -> None:
        self.answered = True
        self._send_head([(b":status", b"%d" % status), *headers], last=False)
        self._connection.flush()

    def _send_head(self, head: Headers, *, last: bool) -> bool:
        if not self._open:
            return False
        try:
            self._connection.h2.send_headers(self._stream, head, end_stream=last)
        except h2.exceptions.ProtocolError:
            self.client_gone()  # the connection has ended, or this stream of it
            return False
        self._open = not last
        return True

    async def write(self, chunk: bytes) -> None:
        self._unsent += chunk
        self.pump()
        self._connection.flush()
        while self._unsent and self._open:
            self._room = asyncio.get_running_loop().create_future()
            await self._room
        await self._connection.drained()
        if not self._open:
            raise ClientGone

    def close(self, *, complete: bool) -> None:
        if not self._open:
            return
        if complete:
            self._ending = True
            self.pump()
        else:
            self._open = False
            self._connection.reset(self._stream, CODES.INTERNAL_ERROR)
        self._connection.flush()

    def over(self) -> None:
        super().over()
        self._forget_timer()
        self._connection.finished(self._stream, self)

    def pump(self) -> None:
        """Send what the client has room for."""
        try:
            while self._open and self._unsent and (room := self._connection.room(self._stream)) > 0:
                self._send_data(room)
            if self._open and self._ending and not self._unsent:
                self._send_data(0)
        except h2.exceptions.ProtocolError:
            self.client_gone()  # the connection has ended, or this stream of it
        if not self._unsent:
            self._tell()

    def _send_data(self, size: int) -> None:
        piece, self._unsent = self._unsent[:size], self._unsent[size:]
        last = self._ending and not self._unsent
        self._connection.h2.send_data(self._stream, piece, end_stream=last)
        self._open = not last

    def client_gone(self) -> None:
        self._open = False
        self._forget_timer()
        super().client_gone()
        self._tell()

    def when_sent(self, call: Callable[[], None]) -> None:
        self._on_sent = call

    @property
    def unfinished(self) -> bool:
        """Parts of the answer wait for the client to make room."""
        return self._open and bool(self._unsent)

    def _tell(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        if self._on_sent is not None:
            call, self._on_sent = self._on_sent, None
            call()

    def _forget_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class Http2Connection(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, shared: Connections) -> None:
        self.shared = shared
        config = h2.config.H2Configuration(client_side=False, header_encoding=None)
        self.h2 = h2.connection.H2Connection(config)
        self._exchanges: dict[int, Http2Exchange] = {}
        self._resets = 0
        self._unparsed = 0
        self._paused = False
        self._drain: asyncio.Future[None] | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._lingering: dict[int, asyncio.TimerHandle] = {}

    # --- the transport ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(HIGH_WATER)
        self.shared.add(self)
        settings = h2.settings.SettingCodes
        self.h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                settings.MAX_CONCURRENT_STREAMS: MOST_STREAMS,
                settings.INITIAL_WINDOW_SIZE: WINDOW,
                settings.MAX_HEADER_LIST_SIZE: 4 * self.shared.limits.max_header_bytes,
                settings.ENABLE_PUSH: 0,
            },
        )
        self.h2.decoder.max_header_list_size = 4 * self.shared.limits.max_header_bytes
        self.h2.initiate_connection()
        self.h2.increment_flow_control_window(WINDOW)
        self.flush()
        self._expect_request()

    def data_received(self, data: bytes) -> None:
        try:
            events = self.h2.receive_data(data)
            for event in events:
                self._on(event)
            self._unparsed = 0 if events else self._unparsed + len(data)
        except h2.exceptions.ProtocolError:
            self.flush()  # h2 has prepared a GOAWAY that says what is wrong
            self.transport.close()
            return
        if self._unparsed > MOST_UNPARSED:
            self._say_goodbye(CODES.FRAME_SIZE_ERROR)
        self.flush()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._paused = True
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        self.transport.resume_reading()
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)

    def connection_lost(self, error: Exception | None) -> None:
        self.shared.remove(self)
        self._forget_idle()
        if self._drain is not None and not self._drain.done():
            self._drain.set_result(None)
        exchanges, self._exchanges = list(self._exchanges.values()), {}
        for exchange in exchanges:
            exchange.client_gone()
        for timer in self._lingering.values():
            timer.cancel()

    async def drained(self) -> None:
        while self._paused and not self.transport.is_closing():
            if self._drain is None or self._drain.done():
                self._drain = self.shared.loop.create_future()
            await self._drain

    def flush(self) -> None:
        if data := self.h2.data_to_send():
            self.transport.write(data)

    # --- events ---

    def _on(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.RequestReceived):
            self._on_request(event)
        elif isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if exchange := self._exchanges.get(event.stream_id):
                exchange.feed(event.data)
        elif isinstance(event, h2.events.StreamEnded):
            if exchange := self._exchanges.get(event.stream_id):
                exchange.complete()
            elif timer := self._lingering.pop(event.stream_id, None):
                timer.cancel()
        elif isinstance(event, h2.events.WindowUpdated | h2.events.RemoteSettingsChanged):
            for exchange in list(self._exchanges.values()):
                exchange.pump()
        elif isinstance(event, h2.events.StreamReset):
            self._on_reset(event.stream_id)
        elif isinstance(event, h2.events.ConnectionTerminated) and not self._exchanges:
            self.transport.close()

    def _on_request(self, event: h2.events.RequestReceived) -> None:
        if self.shared.stopping:
            self.reset(event.stream_id, CODES.REFUSED_STREAM)
            return
        self._forget_idle()
        head: dict[bytes, bytes] = {}
        size = 0
        for name, value in event.headers:
            head[bytes(name)] = bytes(value)
            size += len(name) + len(value) + 4
        exchange = self._exchanges[event.stream_id] = Http2Exchange(self, event.stream_id, head)
        if size > self.shared.limits.max_header_bytes:
            most = self.shared.limits.max_header_bytes
            exchange.fail(HeadersTooLarge(f"the request line and headers are over {most} bytes"))
        if event.stream_ended is None:
            exchange.announce(head.get(b"content-length"))
            if head.get(b"expect", b"").lower() == b"100-continue" and exchange.failed is None:
                self.h2.send_headers(event.stream_id, [(b":status", b"100")])
        self.shared.start(exchange)

    def _on_reset(self, stream: int) -> None:
        exchange = self._exchanges.pop(stream, None)
        if exchange is None:
            return
        if not exchange.answered:
            self._resets += 1
            if self._resets > MOST_RESETS:
                self._say_goodbye(CODES.ENHANCE_YOUR_CALM)
        exchange.client_gone()
        self._after_exchange()

    # --- exchanges ---

    def finished(self, stream: int, exchange: Http2Exchange) -> None:
        """The application is done. What waits for room in the client's window still goes out."""
        if stream not in self._exchanges or self.transport.is_closing():
            return
        if exchange.unfinished:
            exchange.when_sent(lambda: self.finished(stream, exchange))
            return
        del self._exchanges[stream]
        if not exchange.answered:
            self.reset(stream, CODES.INTERNAL_ERROR)
        elif not exchange.body_complete:
            # Not at once: some clients do not read an answer when they may not send to the end.
            self._lingering[stream] = self.shared.loop.call_later(LINGER_FOR, self.reset, stream, CODES.NO_ERROR)
        self._after_exchange()

    def room(self, stream: int) -> int:
        """How much the client takes of this stream now."""
        return min(self.h2.local_flow_control_window(stream), self.h2.max_outbound_frame_size)

    def reset(self, stream: int, code: h2.errors.ErrorCodes) -> None:
        self._lingering.pop(stream, None)
        try:
            self.h2.reset_stream(stream, code)
        except h2.exceptions.ProtocolError:
            return  # it is closed already
        self.flush()

    def _after_exchange(self) -> None:
        if self._exchanges:
            return
        if self.shared.stopping:
            self._say_goodbye(CODES.NO_ERROR)
        else:
            self._expect_request()

    def stop(self) -> None:
        if not self._exchanges:
            self._say_goodbye(CODES.NO_ERROR)
        for exchange in list(self._exchanges.values()):
            exchange.node_stops()

    def _say_goodbye(self, code: h2.errors.ErrorCodes) -> None:
        self.h2.close_connection(code)
        self.flush()
        self.transport.close()
        self._idle = self.shared.loop.call_later(LINGER_FOR, self.transport.abort)

    def abort(self) -> None:
        self.transport.abort()

    # --- time ---

    def _expect_request(self) -> None:
        self._forget_idle()
        self._idle = self.shared.loop.call_later(self.shared.limits.idle_timeout, self._on_silence)

    def _on_silence(self) -> None:
        self._idle = None
        if not self._exchanges:
            self._say_goodbye(CODES.NO_ERROR)

    def _forget_idle(self) -> None:
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
