"""Up to which instant everything that Kafka had in `timer-request` has been read.

A cancel counts if Kafka has it one second before its timer's second. So before a second strikes, the end of `timer-request`
is asked for, not earlier than a second ahead of it, and the reading must have come so far.
"""

from collections.abc import Mapping


class Coverage:
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

    def learn(self, asked_ms: int, ends: Mapping[int, int]) -> None:
        """The ends of all partitions, as asked for at an instant."""
        self.asked_ms, self._ends = asked_ms, ends

    def look(self) -> int:
        """The instant that is covered by now."""
        if self._ends is not None and all(self._reached.get(p, 0) >= end for p, end in self._ends.items()):
            self.covered_ms, self._ends = self.asked_ms, None
        return self.covered_ms
