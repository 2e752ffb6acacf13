"""A small NTP server on loopback: it answers as one that is wrong by so much, or not at all."""

import asyncio
import struct
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import cast

SINCE_1900 = 2_208_988_800
HEADER = struct.Struct("!BBBb11I")


@dataclass
class LocalNtpServer(asyncio.DatagramProtocol):
    """`ahead_s`: how far its clock is ahead of this machine's; `dispersion_s`: how wrong it says that it may be."""

    ahead_s: float = 0.0
    dispersion_s: float = 0.001
    stratum: int = 1
    silent: bool = False
    asked: int = 0
    port: int = 0
    _transport: asyncio.DatagramTransport | None = field(default=None, repr=False)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.DatagramTransport, transport)  # uvloop's is one without saying so
        self.port = transport.get_extra_info("sockname")[1]

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        received = _stamp(time.time() + self.ahead_s)
        self.asked += 1
        if self.silent or self._transport is None:
            return
        originate = struct.unpack("!II", data[40:48])
        kind = 4 << 3 | 4  # version 4, an answer of a server
        dispersion = int(self.dispersion_s * 2**16)
        sent = _stamp(time.time() + self.ahead_s)
        answer = HEADER.pack(kind, self.stratum, 6, -20, 0, dispersion, 0, *received, *originate, *received, *sent)
        self._transport.sendto(answer, address)


def _stamp(unix: float) -> tuple[int, int]:
    whole = int(unix)
    return whole + SINCE_1900, int((unix - whole) * 2**32)


@asynccontextmanager
async def ntp_server(**how: float) -> AsyncIterator[LocalNtpServer]:
    server = LocalNtpServer(**how)  # type: ignore[arg-type]
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(lambda: server, local_addr=("127.0.0.1", 0))
    try:
        yield server
    finally:
        transport.close()
