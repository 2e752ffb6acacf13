"""How far the clocks of nodes were from cluster time during the last minutes, as one node has measured it. Kept in memory
only, and bounded: one value a second for each node, for a quarter of an hour."""

from collections import deque
from collections.abc import Mapping

NOTE_EVERY = 1.0
KEPT_FOR = 900
"""Seconds."""
MOST_NODES = 256

DriftPoint = tuple[int, float]
"""An instant in cluster time, and the offset in milliseconds."""


class DriftHistory:
    def __init__(self, kept_for: int = KEPT_FOR) -> None:
        self._kept_for = kept_for
        self._nodes: dict[str, deque[DriftPoint]] = {}

    def note(self, now_ms: int, offsets: Mapping[str, float]) -> None:
        oldest_ms = now_ms - self._kept_for * 1000
        for node, offset_ms in offsets.items():
            if node in self._nodes or len(self._nodes) < MOST_NODES:
                self._nodes.setdefault(node, deque(maxlen=self._kept_for)).append((now_ms, offset_ms))
        self._nodes = {node: points for node, points in self._nodes.items() if points[-1][0] >= oldest_ms}

    def of(self, node: str, since_ms: int) -> list[DriftPoint]:
        """Oldest first."""
        return [point for point in self._nodes.get(node, ()) if point[0] >= since_ms]
