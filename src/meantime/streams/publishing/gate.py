"""The gate that publishers pass, one per event type: counts who is inside, and keeps others out while a switch runs.

    open ──close──► closed: nobody enters, those inside leave ──► drained ──► … ──open──► open

Passing costs two set operations. A publisher that finds its gate closed is a waiting coroutine with a deadline; no event
type ever waits for another one.
"""

import asyncio
import time
from typing import Protocol

from prometheus_client import Gauge, Histogram

from meantime.errors import Unavailable
from meantime.metrics import REGISTRY

CLOSED = Gauge("meantime_gates_closed", "Event types whose publishers wait for a switch on this node.", registry=REGISTRY)
STALL = Histogram(
    "meantime_publish_stall_seconds",
    "How long a gate was closed: the pause that publishers of the event type had on this node.",
    buckets=(0.01, 0.02, 0.035, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.5, 1, 2, 5, 15, 60),
    registry=REGISTRY,
)


class Abandonable(Protocol):
    def abandon(self) -> None: ...


class Flight:
    """One publish that is inside its gate."""

    __slots__ = ("batch", "event_type", "late")

    def __init__(self, event_type: str) -> None:
        self.event_type = event_type
        self.late = False
        """Nobody waits for it any more: its timeline may have been closed before its end was known."""
        self.batch: Abandonable | None = None


class PublishGate:
    def __init__(self) -> None:
        self._flights: dict[str, set[Flight]] = {}
        self._closed: dict[str, float] = {}
        self._opened: dict[str, asyncio.Event] = {}
        self._drained: dict[str, asyncio.Event] = {}
        self.closings = 0
        """How often any gate was closed: whoever finds more of them than before must look again at what was behind it."""

    @property
    def closed(self) -> frozenset[str]:
        return frozenset(self._closed)

    def is_closed(self, event_type: str) -> bool:
        return event_type in self._closed

    async def wait_open(self, event_type: str, deadline: float) -> None:
        """Return once the gate is open; `Unavailable` when it is still closed at the deadline (monotonic clock)."""
        while event_type in self._closed:
            opened = self._opened.setdefault(event_type, asyncio.Event())
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await opened.wait()
            except TimeoutError:
                raise still_switching(event_type) from None

    def enter(self, event_type: str) -> Flight:
        """Nothing may be awaited between finding the gate open and entering it."""
        flight = Flight(event_type)
        self._flights.setdefault(event_type, set()).add(flight)
        return flight

    def leave(self, flight: Flight) -> None:
        inside = self._flights[flight.event_type]
        inside.discard(flight)
        if not inside:
            del self._flights[flight.event_type]
            drained = self._drained.pop(flight.event_type, None)
            if drained is not None:
                drained.set()

    def inside(self, event_type: str) -> int:
        return len(self._flights.get(event_type, ()))

    def close(self, event_type: str) -> None:
        if event_type not in self._closed:
            self._closed[event_type] = time.monotonic()
            self.closings += 1
            CLOSED.inc()

    def open(self, event_type: str) -> None:
        closed_at = self._closed.pop(event_type, None)
        if closed_at is None:
            return
        CLOSED.dec()
        STALL.observe(time.monotonic() - closed_at)
        opened = self._opened.pop(event_type, None)
        if opened is not None:
            opened.set()

    async def drained(self, event_type: str, timeout: float) -> bool:
        """Wait until no publish is inside; False when one still is after `timeout` seconds."""
        if event_type not in self._flights:
            return True
        drained = self._drained.setdefault(event_type, asyncio.Event())
        try:
            async with asyncio.timeout(timeout):
                await drained.wait()
        except TimeoutError:
            return False
        return True

    def wait_no_longer(self, event_type: str) -> int:
        """Those inside are late; says how many."""
        flights = self._flights.get(event_type, set())
        for flight in flights:
            flight.late = True
        return len(flights)

    def abandon(self, event_type: str) -> int:
        """Let those inside go without an answer from their storage; says how many."""
        flights = list(self._flights.get(event_type, ()))
        for flight in flights:
            if flight.batch is not None:
                flight.batch.abandon()
        return len(flights)


def still_switching(event_type: str) -> Unavailable:
    return Unavailable(f"the storage of event type {event_type!r} is being switched; try again", retry_after=1)
