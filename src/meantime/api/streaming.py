"""Answers that do not end by themselves: lines of JSON, sent as they come, at the speed of the client."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, Protocol

import structlog
from litestar import Response

from meantime.tasks import end

log = structlog.get_logger(__name__)

MEDIA_TYPE = "application/x-json-stream"


class OpenStream(Protocol):
    """An open stream. `cut` returns when it has to end even though its client does not read."""

    def chunks(self) -> AsyncIterator[bytes]: ...

    async def cut(self) -> None: ...

    def close(self) -> None: ...


class LineStream(Response[bytes]):
    """The headers are sent at once; the stream is closed when it ends, when the client goes, or when it is cut."""

    def __init__(self, lines: OpenStream, headers: dict[str, str] | None = None, media_type: str = MEDIA_TYPE) -> None:
        super().__init__(b"", media_type=media_type, headers=headers)
        self._lines = lines
        self._kind = media_type

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        headers = [(b"content-type", self._kind.encode()), (b"cache-control", b"no-store")]
        headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in self.headers.items()]
        return _Sending(self._lines, headers)


class _Sending:
    def __init__(self, lines: OpenStream, headers: list[tuple[bytes, bytes]]) -> None:
        self._lines = lines
        self._headers = headers

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self._headers})
            if await self._sent_all(receive, send):
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._lines.close()

    async def _sent_all(self, receive: Any, send: Any) -> bool:
        """False when the stream was ended from outside; an answer that is cut short shows the client that there was more."""
        sending = asyncio.create_task(self._send(send))
        others = [asyncio.create_task(self._client_gone(receive)), asyncio.create_task(self._lines.cut())]
        try:
            await asyncio.wait({sending, *others}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            results = await end(sending, *others)
        if isinstance(results[0], Exception):
            log.warning("stream_failed", error=str(results[0]), exc_info=results[0])
        return results[0] is None

    async def _send(self, send: Any) -> None:
        async with aclosing(self._lines.chunks()) as chunks:  # type: ignore[type-var]
            async for chunk in chunks:
                if chunk:
                    await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _client_gone(self, receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
