"""Bytes to and from a ZooKeeper server: frames, each with its length in front."""

import asyncio
from collections.abc import Callable
from typing import Any, cast

from kazoo.protocol.serialization import int_struct


class Wire(asyncio.Protocol):
    """`greeting` is the first frame, `receive` is called with each later one, `lost` is done when the connection ended."""

    def __init__(self) -> None:
        self.greeting: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self.receive: Callable[[bytes], None] = self.greeting.set_result
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while frame := self._next_frame():
            self.receive(frame)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.greeting.done():
            self.greeting.set_exception(error or ConnectionResetError("closed by the server"))
        if not self.lost.done():
            self.lost.set_result(None)

    def send(self, request: Any, xid: int | None = None) -> None:
        """A request in kazoo's form; `Connect` alone has neither number nor type."""
        body = bytearray()
        for number in (xid, request.type):
            if number:
                body += int_struct.pack(number)
        body += request.serialize()
        if self._transport and not self._transport.is_closing():
            self._transport.write(int_struct.pack(len(body)) + body)

    def abort(self) -> None:
        if self._transport:
            self._transport.abort()

    def _next_frame(self) -> bytes | None:
        start = int_struct.size
        if len(self._buffer) < start:
            return None
        end = start + int_struct.unpack_from(self._buffer)[0]
        if len(self._buffer) < end:
            return None
        frame = bytes(self._buffer[start:end])
        del self._buffer[:end]
        return frame
