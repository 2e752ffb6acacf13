"""The direct way to a node for answers that do not end by themselves.

httpx takes 0.8 ms for a piece of a stream, however small: a lease would wait that long in the client before it is handed
out. Here a piece is handed on when it arrives. A caller who reads slowly lets the node wait: beyond `MOST_WAITING` bytes
nothing more is taken from the connection.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import cast

import httptools
import httpx

from meantime.sdk.calls.call import Response
from meantime.sdk.core import Request
from meantime.sdk.http.connection import connect, encoded

MOST_WAITING = 1 << 20


class StreamConnections:
    """The streams of one client; none outlives it."""

    def __init__(self) -> None:
        self._open: set[_StreamConnection] = set()
        self._closed = False

    @asynccontextmanager
    async def opened(self, request: Request, silence_for: float) -> AsyncIterator[tuple[Response, AsyncIterator[bytes]]]:
        """The head of the answer, and its body as it comes; of an error the whole body is in the answer."""
        if self._closed:
            raise RuntimeError("the client has been closed")
        host_port, message = encoded(request)
        connection = await connect(host_port, partial(_StreamConnection, silence_for))
        self._open.add(connection)
        try:
            answer = await connection.ask(message)
            chunks = connection.chunks()
            if answer.status >= 400:
                answer = Response(answer.status, answer.headers, b"".join([chunk async for chunk in chunks]))
            yield answer, chunks
        finally:
            self._open.discard(connection)
            connection.close()

    def close(self) -> None:
        self._closed = True
        for connection in self._open:
            connection.close()


class _StreamConnection(asyncio.Protocol):
    """One connection for one answer, and the callbacks of its parser."""

    def __init__(self, silence_for: float) -> None:
        self._silence_for = silence_for
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._pieces: list[bytes] = []
        self._waiting_bytes = 0
        self._paused = False
        self._begun = False
        self._complete = False
        self._failure: httpx.TransportError | None = None
        self._news = asyncio.Event()

    async def ask(self, message: list[bytes]) -> Response:
        self._transport.writelines(message)
        while not self._begun:
            await self._more()
        return Response(self._parser.get_status_code(), self._headers, b"")

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            while not self._pieces:
                if self._complete:
                    return
                await self._more()
            pieces, self._pieces, self._waiting_bytes = self._pieces, [], 0
            if self._paused:
                self._paused = False
                self._transport.resume_reading()
            yield b"".join(pieces)

    def close(self) -> None:
        self._transport.close()

    async def _more(self) -> None:
        """Until something has come; what came before a failure is read before it is raised."""
        if self._failure:
            raise self._failure
        self._news.clear()
        patience = asyncio.get_running_loop().call_later(self._silence_for, self._give_up)
        try:
            await self._news.wait()
        finally:
            patience.cancel()

    def _give_up(self) -> None:
        self._fail(httpx.ReadTimeout(f"no data for {self._silence_for:g} s"))

    def _fail(self, error: httpx.TransportError) -> None:
        self._failure = self._failure or error
        self._news.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            self._fail(httpx.RemoteProtocolError(f"the answer is not HTTP: {error}"))
        if self._waiting_bytes > MOST_WAITING and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._news.set()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._complete:
            self._fail(httpx.ReadError(str(error)) if error else httpx.RemoteProtocolError("the node closed the connection"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self._begun = True

    def on_body(self, body: bytes) -> None:
        self._pieces.append(body)
        self._waiting_bytes += len(body)

    def on_message_complete(self) -> None:
        self._complete = True
