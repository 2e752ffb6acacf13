"""What time the broker has, learned from its answers.

Every answer carries `X-Meantime-Now`, stamped between the moments of sending and receiving, so half the round trip is the
error of the estimate. The best sample is kept; its error grows with its age as far as two clocks may run apart, so a
fresh quick answer replaces it and a long poll does not. A sample that contradicts it means that a clock was set: the newer
one wins. Between samples time is counted by the monotonic clock: setting this machine's clock never moves a lease's end.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

RUN_APART = 100e-6
HEADER = "x-meantime-now"
CLIENT_TIME, ROUND_TRIP = "X-Meantime-Client-Time", "X-Meantime-Client-Round-Trip"


@dataclass(frozen=True, slots=True)
class DriftSample:
    """The broker had `broker_ms` when the monotonic clock showed `counted_ms`, give or take `error_ms`."""

    broker_ms: float
    counted_ms: float
    error_ms: float

    def at(self, counted_ms: float) -> float:
        return self.broker_ms + counted_ms - self.counted_ms

    def error_at(self, counted_ms: float) -> float:
        return self.error_ms + abs(counted_ms - self.counted_ms) * RUN_APART

    def contradicts(self, other: "DriftSample") -> bool:
        apart = abs(self.broker_ms - other.at(self.counted_ms))
        return apart > self.error_ms + other.error_at(self.counted_ms) + 1


def monotonic_ms() -> float:
    return time.monotonic() * 1000


def wall_ms() -> float:
    return time.time() * 1000


class Drift:
    """The broker's clock as seen from here, and how far this machine's own clock is from it."""

    def __init__(self, counted: Callable[[], float] = monotonic_ms, wall: Callable[[], float] = wall_ms) -> None:
        self._counted = counted
        self._wall = wall
        self._best: DriftSample | None = None

    @property
    def measured(self) -> bool:
        return self._best is not None

    def counted_ms(self) -> float:
        return self._counted()

    def observe(self, stamp_ms: int, sent_ms: float, received_ms: float) -> None:
        """Take in the stamp of an answer; the moments are of the monotonic clock."""
        middle, error = (sent_ms + received_ms) / 2, (received_ms - sent_ms) / 2
        sample = DriftSample(stamp_ms, middle, error)
        best = self._best
        if best is None or error <= best.error_at(middle) or sample.contradicts(best):
            self._best = sample

    def now_ms(self) -> float:
        """The broker's time; this machine's until there was an answer."""
        return self._best.at(self._counted()) if self._best else self._wall()

    @property
    def drift_ms(self) -> float:
        """How far this machine's clock is ahead of the broker's; negative when it is behind, 0 before any answer."""
        return self._wall() - self.now_ms() if self._best else 0.0

    def headers(self) -> dict[str, str]:
        """What this machine's clock shows and how long the way to the broker is, once that is known: the broker measures the
        clocks of its clients by it."""
        if self._best is None:
            return {}
        return {CLIENT_TIME: str(round(self._wall())), ROUND_TRIP: str(round(2 * self._best.error_ms))}

    @property
    def error_ms(self) -> float:
        """How much `drift_ms` may be wrong by."""
        return self._best.error_at(self._counted()) if self._best else float("inf")
