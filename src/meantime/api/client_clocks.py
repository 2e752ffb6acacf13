"""The clocks of clients, measured from their requests.

A client that knows how long its way to the broker is says so, and what time it has: the SDK does. A request that was sent at
`t` by the client's clock, over a way of `round_trip`, arrives at `t + round_trip / 2`, if both clocks are right; what that
differs by is the drift. A request that was held up makes its client seem to be late by as much. For each producer group the
lowest, the mean and the highest drift of the last minute or two are told. Groups are labels of a metric, so their number is
bounded.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from meantime.metrics import OTHER, REGISTRY
from meantime.names import is_identifier

SENT, ROUND_TRIP = b"x-meantime-client-time", b"x-meantime-client-round-trip"
MOST_GROUPS = 100
WINDOW = 60.0
LONGEST = 16
"""Digits of a number that is read."""


@dataclass(slots=True)
class DriftWindow:
    count: int = 0
    total_ms: float = 0.0
    lowest_ms: float = float("inf")
    highest_ms: float = float("-inf")

    def add(self, drift_ms: float) -> None:
        self.count += 1
        self.total_ms += drift_ms
        self.lowest_ms = min(self.lowest_ms, drift_ms)
        self.highest_ms = max(self.highest_ms, drift_ms)

    def with_(self, other: "DriftWindow") -> "DriftWindow":
        lowest, highest = min(self.lowest_ms, other.lowest_ms), max(self.highest_ms, other.highest_ms)
        return DriftWindow(self.count + other.count, self.total_ms + other.total_ms, lowest, highest)


class ClientClocks(Collector):
    """What was measured in this minute and in the one before it; a group that says nothing for so long is forgotten."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._present: dict[str, DriftWindow] = {}
        self._before: dict[str, DriftWindow] = {}
        self._began_at = now()

    def observe(self, headers: dict[bytes, bytes], received_ms: int) -> None:
        """Take in the headers of a request. Whatever cannot be read is ignored."""
        sent, round_trip = headers.get(SENT), headers.get(ROUND_TRIP)
        if sent is None or round_trip is None or not _is_number(sent) or not _is_number(round_trip):
            return
        self._turn()
        group = headers.get(b"x-producer-group", b"").decode("latin-1")
        self._window(group).add(int(sent) + int(round_trip) / 2 - received_ms)

    def _window(self, group: str) -> DriftWindow:
        known = group in self._present or group in self._before
        if not known and (not is_identifier(group) or len(self._present.keys() | self._before.keys()) >= MOST_GROUPS):
            group = OTHER
        return self._present.setdefault(group, DriftWindow())

    def _turn(self) -> None:
        passed = self._now() - self._began_at
        if passed >= WINDOW:
            self._before = self._present if passed < 2 * WINDOW else {}
            self._present, self._began_at = {}, self._now()

    def collect(self) -> Iterator[GaugeMetricFamily]:
        self._turn()
        gauge = GaugeMetricFamily(
            "meantime_client_clock_drift_seconds",
            "How far the clocks of clients are ahead of cluster time, by producer group.",
            labels=["group", "value"],
        )
        for group in sorted(self._present.keys() | self._before.keys()):
            window = self._present.get(group, DriftWindow()).with_(self._before.get(group, DriftWindow()))
            mean_ms = window.total_ms / window.count
            for value, drift_ms in (("lowest", window.lowest_ms), ("mean", mean_ms), ("highest", window.highest_ms)):
                gauge.add_metric([group, value], drift_ms / 1000)
        yield gauge


def _is_number(text: bytes) -> bool:
    return len(text) <= LONGEST and text.isdigit()


CLIENT_CLOCKS = ClientClocks()
REGISTRY.register(CLIENT_CLOCKS)
