"""Reading a request's body: within its size, within its time, unpacked when it came as gzip; and as one JSON object."""

import asyncio
import time
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec

from meantime.api.identity import AnyRequest
from meantime.errors import BodyLate, Invalid, Malformed, TooLarge, UnknownEncoding
from meantime.names import has_nul

Message = MutableMapping[str, Any]


class Body:
    """The limits of one request's body. The size counts what comes out of the unpacking."""

    def __init__(self, encoding: bytes, max_bytes: int, timeout: float) -> None:
        self._encoding = encoding.strip().lower()
        self._unpack = zlib.decompressobj(wbits=31) if self._encoding in (b"gzip", b"x-gzip") else None
        self._max_bytes = max_bytes
        self._deadline = time.monotonic() + timeout
        self._size = 0

    async def read(self, receive: Callable[[], Awaitable[Message]]) -> Message:
        """The next piece, as the ASGI message that the application sees."""
        try:
            async with asyncio.timeout(self._deadline - time.monotonic()):
                message = await receive()
        except TimeoutError:
            raise BodyLate() from None
        if message["type"] == "http.request":
            message["body"] = self._checked(message.get("body", b""), last=not message.get("more_body", False))
        return message

    def _checked(self, data: bytes, *, last: bool) -> bytes:
        if self._encoding not in (b"", b"identity") and self._unpack is None and data:
            raise UnknownEncoding()
        if self._unpack is not None:
            data = self._unpacked(data, last=last)
        self._size += len(data)
        if self._size > self._max_bytes:
            raise TooLarge(f"the body is over {self._max_bytes} bytes", max_body_bytes=self._max_bytes)
        return data

    def _unpacked(self, data: bytes, *, last: bool) -> bytes:
        assert self._unpack is not None
        room = self._max_bytes - self._size + 1
        try:
            unpacked = self._unpack.decompress(data, room)
        except zlib.error as error:
            raise Malformed(f"the body is not valid gzip: {error}") from error
        if last and not self._unpack.eof and not self._unpack.unconsumed_tail:
            raise Malformed("the gzip body ends too early")
        return unpacked


async def read_object(request: AnyRequest) -> dict[str, Any]:
    """The body as one JSON object, with nothing checked inside it: the slices decide what it means."""
    body = await request.body()
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from error
    if not isinstance(document, dict):
        raise Malformed("the body must be a JSON object")
    if b"\\u0000" in body and has_nul(document):
        raise Invalid("texts must not contain the character U+0000: it cannot be stored")
    return document
