"""Answers that do not end by themselves: lines, mostly of JSON, sent as they come, at the speed of the client."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Protocol

import structlog

from meantime.api.http.exchange import ClientGone, Headers, HttpExchange
from meantime.tasks import end

log = structlog.get_logger(__name__)

JSON_STREAM = "application/x-json-stream"
NDJSON = "application/x-ndjson"
EVENT_STREAM = "text/event-stream"


class OpenStream(Protocol):
    """An open stream. `cut` returns when it has to end even though its client does not read."""

    def chunks(self) -> AsyncIterator[bytes]: ...

    async def cut(self) -> None: ...

    def close(self) -> None: ...


class LineStream:
    """The headers are sent at once. It is closed when it ends or is cut, when the client goes, and when the node stops."""

    __slots__ = ("headers", "lines", "media_type")

    def __init__(self, lines: OpenStream, headers: Mapping[str, str] | None = None, media_type: str = JSON_STREAM) -> None:
        self.lines = lines
        self.headers = headers
        self.media_type = media_type

    async def send(self, exchange: HttpExchange, headers: Headers) -> None:
        """A stream that ends by itself or with the node has a proper end. Any other is cut short: the client sees that there
        was more."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        try:
            exchange.open(200, headers)
            sending = asyncio.create_task(self._send(exchange), name="send stream")
            cutting = asyncio.create_task(self.lines.cut(), name="cut stream")
            for task in (sending, cutting):
                task.add_done_callback(lambda _: _settle(ended))
            exchange.when_ending(lambda: _settle(ended))
            try:
                await ended
            finally:
                exchange.when_ending(None)
                sent, _ = await end(sending, cutting)
            if isinstance(sent, Exception) and not isinstance(sent, ClientGone):
                log.warning("stream_failed", error=str(sent), exc_info=sent)
            exchange.close(complete=exchange.stopping or sent is None)
        finally:
            self.lines.close()

    async def _send(self, exchange: HttpExchange) -> None:
        async with aclosing(self.lines.chunks()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if chunk:
                    await exchange.write(chunk)


def _settle(ended: "asyncio.Future[None]") -> None:
    if not ended.done():
        ended.set_result(None)
