"""How far one partition has been dealt with, when its records are finished in any order."""

from collections import deque


class OffsetTracker:
    """`position` is where reading has to start again so that nothing unfinished is missed."""

    def __init__(self, start: int = 0) -> None:
        self._open: deque[int] = deque()
        self._settled: set[int] = set()
        self._next = start
        self._committed = start

    def note(self, offset: int) -> None:
        """A record was read. Records come in order."""
        self._open.append(offset)
        self._next = offset + 1

    def settle(self, offset: int) -> None:
        """A record is finished with."""
        self._settled.add(offset)
        while self._open and self._open[0] in self._settled:
            self._settled.discard(self._open.popleft())

    @property
    def position(self) -> int:
        return self._open[0] if self._open else self._next

    def has_read(self, end: int) -> bool:
        """Whether everything before `end` has been read, finished or not."""
        return self._next >= end

    @property
    def moved(self) -> bool:
        """Whether the position has changed since it was last committed."""
        return self.position != self._committed

    def mark_committed(self, position: int) -> None:
        self._committed = position
