"""Cancels read straight from `timer-request`, in the order of their places, until the Spark job has taken them in."""

from collections import deque
from collections.abc import Iterator, Mapping

from meantime.timers.model import Cancel


class FarCancels:
    def __init__(self) -> None:
        self._waiting: dict[int, deque[tuple[int, Cancel]]] = {}

    def append(self, partition: int, offset: int, cancel: Cancel) -> None:
        self._waiting.setdefault(partition, deque()).append((offset, cancel))

    def taken_in(self, joined: Mapping[int, int]) -> Iterator[Cancel]:
        """Those that lie before the places that the Spark job has reached; they are not given out again."""
        for partition, waiting in self._waiting.items():
            while waiting and waiting[0][0] < joined.get(partition, 0):
                yield waiting.popleft()[1]
