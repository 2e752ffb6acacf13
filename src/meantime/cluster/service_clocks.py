"""The clocks of PostgreSQL and ZooKeeper: a look at cluster time from outside.

Cluster time is the median of the nodes' clocks, so a node that is alone has nothing but its own, and so has a process that
reaches one node only. The services have clocks as well. They are not asked for the time, for they are read seldom and over
a network; but cluster time that is far from every one of them cannot be right, and nobody acts on it.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping

import structlog

from meantime.cluster.clock import ClockSample, steady_us
from meantime.coordination.session import Session
from meantime.database.pool import Database
from meantime.errors import MeantimeError, StorageUnavailable

log = structlog.get_logger(__name__)

LIMIT_MS = 5000
"""How far cluster time may be from all of them; they may be wrong, too."""
LOOK_EVERY = 0.5
READ_EVERY = 10.0
"""Seconds between two readings."""
ANSWERS_WITHIN = 2.0

ReadClock = Callable[[], Awaitable[int]]
"""The time by a service's clock, in microseconds."""


def postgres_clock(database: Database) -> ReadClock:
    async def read() -> int:
        row = await database.fetch_one("SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us")
        if row is None:
            raise StorageUnavailable("PostgreSQL does not tell the time")
        return int(row["now_us"])

    return read


def zookeeper_clock(session: Session) -> ReadClock:
    """It tells the time by when it has made a node."""

    async def read() -> int:
        path = await session.create(f"{session.layout.clocks}/", ephemeral=True, sequence=True)
        node = await session.get(path)
        await session.delete(path)
        return node.created_ms * 1000

    return read


class ServiceClocks:
    def __init__(self, clocks: Mapping[str, ReadClock], limit_ms: int = LIMIT_MS) -> None:
        self._clocks = clocks
        self._limit_us = limit_ms * 1000
        self._samples: dict[str, ClockSample] = {}
        self._read_again_at = 0.0

    @property
    def known(self) -> bool:
        """Whether any of them has told the time."""
        return bool(self._samples)

    async def run_once(self) -> None:
        """All of them now and then, and at every look those that have not answered yet."""
        if again := time.monotonic() >= self._read_again_at:
            self._read_again_at = time.monotonic() + READ_EVERY
        asked = {name: read for name, read in self._clocks.items() if again or name not in self._samples}
        await asyncio.gather(*(self._ask(name, read) for name, read in asked.items()))

    def contradiction(self, cluster_us: float) -> str | None:
        """Why cluster time, so far ahead of the steady clock, cannot be right; None when it can."""
        ahead_us = {name: cluster_us - sample.offset_us for name, sample in self._samples.items()}
        errors_us = {name: sample.error_us for name, sample in self._samples.items()}
        if not ahead_us or any(abs(ahead) <= self._limit_us + errors_us[name] for name, ahead in ahead_us.items()):
            return None
        nearest = min(ahead_us.values(), key=abs)
        way = "ahead of" if nearest > 0 else "behind"
        names = " and ".join(sorted(ahead_us))
        return f"cluster time is {abs(nearest) / 1000:.0f} ms {way} the clock of {names}; nothing is done by it"

    async def _ask(self, name: str, read: ReadClock) -> None:
        asked_us = steady_us()
        try:
            async with asyncio.timeout(ANSWERS_WITHIN):
                now_us = await read()
        except (MeantimeError, TimeoutError) as error:
            log.debug("service_clock_not_read", service=name, error=str(error))
            return
        self._samples[name] = ClockSample(asked_us, now_us, now_us, steady_us())
