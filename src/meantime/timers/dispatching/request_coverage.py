"""How a dispatcher follows `timer-request`: up to which instant all of it has been read, and which cancels the Spark job
has yet to bring.

A cancel counts if Kafka has it one second before its timer's second. So before a timer fires, the end of `timer-request` is
asked for, not earlier than a second before it is due, and the reading must have come so far.
"""

from collections import deque
from collections.abc import Iterator, Mapping

from meantime.timers.model import CancelRequest

HANDED_OUT_S = 60
"""The Spark job may bring a timer so long before its second, and a cancel that came later only afterwards."""


def far_from(now_ms: int, near_s: int) -> int:
    """Only of later seconds may cancels be left to the Spark job. Timers of earlier ones may be held already, and the job
    may stand still before it brings their cancels. `near_s`: those due so soon are taken straight from their requests."""
    return now_ms // 1000 + max(HANDED_OUT_S, near_s)


class RequestCoverage:
    def __init__(self) -> None:
        self.covered_ms = 0
        self.asked_ms = 0
        """When the ends were asked for that are known last; the reading may not have come so far."""
        self._reached: dict[int, int] = {}
        self._ends: Mapping[int, int] | None = None

    def reach(self, partition: int, offset: int) -> None:
        """Everything before `offset` has been read."""
        if offset > self._reached.get(partition, -1):
            self._reached[partition] = offset

    @property
    def reached(self) -> dict[int, int]:
        return dict(self._reached)

    def set_ends(self, asked_ms: int, ends: Mapping[int, int]) -> None:
        """The ends of all partitions, as asked for at an instant."""
        self.asked_ms, self._ends = asked_ms, ends

    def covered_until(self) -> int:
        """The instant that is covered by now."""
        if self._ends is not None and all(self._reached.get(p, 0) >= end for p, end in self._ends.items()):
            self.covered_ms, self._ends = self.asked_ms, None
        return self.covered_ms


class CancelsAheadOfJoin:
    def __init__(self) -> None:
        self._waiting: dict[int, deque[tuple[int, CancelRequest]]] = {}

    def append(self, partition: int, offset: int, cancel: CancelRequest) -> None:
        self._waiting.setdefault(partition, deque()).append((offset, cancel))

    def taken_in(self, through: Mapping[int, int]) -> Iterator[CancelRequest]:
        """Those that lie before places up to which all has come through; they are not given out again."""
        for partition, waiting in self._waiting.items():
            while waiting and waiting[0][0] < through.get(partition, 0):
                yield waiting.popleft()[1]
