"""Cancels read straight from `timer-request`, in the order of their places, until they have come through the Spark job."""

from collections import deque
from collections.abc import Iterator, Mapping

from meantime.timers.model import Cancel

HANDED_OUT_S = 60
"""The Spark job may bring a timer so long before its second, and a cancel that came later only afterwards."""


def far_from(now_ms: int, near_s: int) -> int:
    """Only of later seconds may cancels be left to the Spark job. Timers of earlier ones may be held already, and the job
    may stand still before it brings their cancels. `near_s`: those due so soon are taken straight from their requests."""
    return now_ms // 1000 + max(HANDED_OUT_S, near_s)


class FarCancels:
    def __init__(self) -> None:
        self._waiting: dict[int, deque[tuple[int, Cancel]]] = {}

    def append(self, partition: int, offset: int, cancel: Cancel) -> None:
        self._waiting.setdefault(partition, deque()).append((offset, cancel))

    def taken_in(self, through: Mapping[int, int]) -> Iterator[Cancel]:
        """Those that lie before places up to which all has come through; they are not given out again."""
        for partition, waiting in self._waiting.items():
            while waiting and waiting[0][0] < through.get(partition, 0):
                yield waiting.popleft()[1]
