"""Cluster time: pure arithmetic over exchanged clock readings, and the clock that is made of it.

A node measures all clocks, its own wall clock included, against its *steady* clock, which cannot be set (monotonic, with
an arbitrary origin). A question to a peer gives four readings, as in NTP: asked (steady, here), received and answered (wall,
there), returned (steady, here). They tell how far the peer's wall clock is ahead of the steady clock, to within half the
round trip; of the last few the one with the shortest round trip is the best. Cluster time is the median of all wall clocks:
a minority of wrong ones cannot move it, and one that is set moves only its own vote. With two nodes the median is the
mean, so both see the same distance from it and neither is believed.
"""

import statistics
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from meantime.clock import Clock

KEPT_SAMPLES = 8
SLACK_US = 2_000
"""What two good clocks may drift apart while their samples are kept."""


class LocalClock(Clock, Protocol):
    """The wall clock of this machine."""

    def now_us(self) -> int: ...

    @property
    def error_us(self) -> float:
        """How wrong it may be, as far as it knows."""
        ...


def steady_us() -> int:
    return time.monotonic_ns() // 1000


@dataclass(frozen=True, slots=True)
class ClockSample:
    asked_us: int
    received_us: int
    answered_us: int
    returned_us: int
    source_error_us: float = 0.0
    """How wrong the peer's clock itself may be, as far as it knows."""

    @property
    def offset_us(self) -> float:
        """How far the peer's wall clock is ahead of our steady clock."""
        return ((self.received_us - self.asked_us) + (self.answered_us - self.returned_us)) / 2

    @property
    def round_trip_us(self) -> int:
        """Time on the way; negative only when a clock was set during the exchange."""
        return (self.returned_us - self.asked_us) - (self.answered_us - self.received_us)

    @property
    def error_us(self) -> float:
        """The true offset is at most this far from `offset_us`."""
        return self.round_trip_us / 2 + self.source_error_us

    def agrees_with(self, other: "ClockSample") -> bool:
        """Whether both can be true of clocks that were not set in between."""
        return abs(self.offset_us - other.offset_us) <= self.error_us + other.error_us + SLACK_US


@dataclass(frozen=True, slots=True)
class PeerClock:
    """The last samples of one peer's clock, oldest first."""

    samples: tuple[ClockSample, ...] = ()

    def after(self, sample: ClockSample) -> "PeerClock":
        """A sample that contradicts an earlier one means that a clock was set: what is older than that is void."""
        if sample.round_trip_us < 0:
            return self
        agreeing = self.samples if all(map(sample.agrees_with, self.samples)) else ()
        return PeerClock((*agreeing, sample)[-KEPT_SAMPLES:])

    @property
    def best(self) -> ClockSample | None:
        return min(self.samples, key=lambda sample: sample.error_us, default=None)


@dataclass(frozen=True, slots=True)
class ClockEstimate:
    """`cluster_us`: how far cluster time is ahead of the steady clock; `own_us`: the same of this node's wall clock."""

    cluster_us: float
    own_us: float
    error_us: float = 0.0

    @property
    def offset_ms(self) -> float:
        """How far this node's wall clock is ahead of cluster time."""
        return (self.own_us - self.cluster_us) / 1000

    @property
    def error_ms(self) -> float:
        """How wrong that may be."""
        return self.error_us / 1000


def estimate_cluster_time(own_us: float, best_samples: Iterable[ClockSample], own_error_us: float = 0.0) -> ClockEstimate:
    """The median over all nodes, given the best sample of each peer; alone, one's own clock is right."""
    samples = list(best_samples)
    median = statistics.median([own_us, *(sample.offset_us for sample in samples)])
    return ClockEstimate(median, own_us, error_us=max([own_error_us, *(sample.error_us for sample in samples)]))


class ClusterClock:
    """Cluster time as a `Clock`.

    It runs by the steady clock and is adjusted to each new estimate. It does not go backwards, with one exception: a
    correction to later is made at once; one to earlier by less than `step_us` is made by standing still until time has
    caught up; a greater one is a step back. The step is the distance at which a node is degraded, so no lease and no
    relative instant is issued while it is taken.
    """

    def __init__(self, cluster_us: float, step_us: int = 500_000, steady: Callable[[], int] = steady_us) -> None:
        self._cluster_us = cluster_us
        self._step_us = step_us
        self._steady_us = steady
        self._latest_us = steady() + cluster_us

    def adjust(self, cluster_us: float) -> None:
        self._cluster_us = cluster_us
        running_us = self._steady_us() + cluster_us
        if self._latest_us - running_us >= self._step_us:
            self._latest_us = running_us

    def now_us(self) -> int:
        self._latest_us = max(self._latest_us, self._steady_us() + self._cluster_us)
        return int(self._latest_us)

    def now_ms(self) -> int:
        return self.now_us() // 1000
