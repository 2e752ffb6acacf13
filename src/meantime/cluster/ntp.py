"""A local clock that follows NTP servers instead of what the operating system believes.

The servers are asked every few seconds, each by itself, and measured against the steady clock as peers are: of the last
exchanges with a server the best counts, and of several servers the median, so that a minority of wrong ones does no harm.
How wrong the clock may be is known: half the round trip, what the server says of itself, and what two clocks may run apart
since then. While no server has answered yet, the system's clock is right.
"""

import asyncio
import statistics
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import ntplib
import structlog

from meantime.cluster.clock import ClockSample, LocalClock, PeerClock, steady_us
from meantime.errors import Invalid
from meantime.supervision import Duty, on_duty

log = structlog.get_logger(__name__)

SYSTEM, NTP = "system", "ntp:"
PORT = 123
ASK_EVERY = 8.0
ANSWER_WITHIN = 1.0
FIRST_ASKED = 3
RUN_APART = 100e-6
WORST_STRATUM = 15

Ask = Callable[[str, int], ClockSample]
"""One exchange with a server; blocks, and raises when there is no good answer."""


@dataclass(slots=True)
class NtpServer:
    host: str
    port: int
    clock: PeerClock = field(default_factory=PeerClock)
    silent: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def servers_of(source: str) -> list[NtpServer]:
    """Those of the setting `clock_source`; none when the system's clock is meant."""
    if source == SYSTEM:
        return []
    return [_server(one.strip()) for one in source.removeprefix(NTP).split(",")]


def _server(text: str) -> NtpServer:
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or parts.path:
        raise Invalid(f"clock_source: {text!r} is no NTP server; write it as host or host:port")
    return NtpServer(host, port or PORT)


class NtpClock:
    """A `LocalClock`."""

    def __init__(self, servers: Sequence[NtpServer], system: LocalClock, ask: "Ask | None" = None) -> None:
        self._servers = servers
        self._system = system
        self._ask = ask or ask_server

    def now_us(self) -> int:
        samples = self._samples()
        if not samples:
            return self._system.now_us()
        return steady_us() + round(statistics.median(sample.offset_us for sample in samples))

    def now_ms(self) -> int:
        return self.now_us() // 1000

    @property
    def error_us(self) -> float:
        now_us = steady_us()
        errors = [sample.error_us + (now_us - sample.returned_us) * RUN_APART for sample in self._samples()]
        return statistics.median_high(errors) if errors else self._system.error_us

    async def run_once(self) -> None:
        """Ask all servers."""
        await asyncio.gather(*map(self._ask_one, self._servers))

    def _samples(self) -> list[ClockSample]:
        return [best for server in self._servers if (best := server.clock.best) is not None]

    async def _ask_one(self, server: NtpServer) -> None:
        try:
            async with asyncio.timeout(3 * ANSWER_WITHIN):  # its name may have to be looked up
                sample = await asyncio.to_thread(self._ask, server.host, server.port)
        except (OSError, TimeoutError, ntplib.NTPException) as error:
            if not server.silent:
                log.warning("time_source_silent", server=str(server), reason=str(error) or type(error).__name__)
            server.silent = True
            return
        if server.silent:
            log.info("time_source_answers_again", server=str(server))
        server.silent = False
        server.clock = server.clock.after(sample)


def ask_server(host: str, port: int) -> ClockSample:
    asked_us = steady_us()
    answer = ntplib.NTPClient().request(host, version=4, port=port, timeout=ANSWER_WITHIN)
    returned_us = steady_us()
    if answer.leap == 3 or not 1 <= answer.stratum <= WORST_STRATUM:
        raise ntplib.NTPException("it does not know the time itself")
    source_error_us = (answer.root_delay / 2 + answer.root_dispersion) * 1e6
    return ClockSample(asked_us, round(answer.recv_time * 1e6), round(answer.tx_time * 1e6), returned_us, source_error_us)


@asynccontextmanager
async def open_local_clock(source: str, system: LocalClock) -> AsyncIterator[LocalClock]:
    """The clock that the setting `clock_source` names. Servers are given a moment to answer first, not longer."""
    servers = servers_of(source)
    if not servers:
        yield system
        return
    clock = NtpClock(servers, system)
    for _ in range(FIRST_ASKED):
        await clock.run_once()
        if all(server.silent for server in servers):
            break
    async with on_duty([Duty("time source", clock.run_once, ASK_EVERY)]):
        yield clock
