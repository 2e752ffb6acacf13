"""What becomes due soon, as far as this node knows: ids and versions, ordered by when they are to be leased.

It may be out of date: each is leased only if its version still holds. Everything up to `known_until_ms` has been looked for;
what lies beyond is not known yet. A message of a bucket that another node serves is left to that node for a moment, then
helped with.
"""

import heapq
from collections.abc import Collection, Sequence

from meantime.topics.model import Due

NEVER_MS = 1 << 62


class Upcoming:
    def __init__(self, help_after_ms: int, few: int, most: int) -> None:
        self._help_after_ms = help_after_ms
        self._few = few
        self._most = most
        self._more = False
        self._heap: list[tuple[int, int, int, Due]] = []
        self._count = 0
        self._own: Collection[int] | None = None
        self.known_until_ms = -NEVER_MS

    def __len__(self) -> int:
        return len(self._heap)

    def replace(self, dues: Sequence[Due], until_ms: int, more: bool, own: Collection[int] | None) -> None:
        """A new look: these, and if there are not more nothing else, up to `until_ms`; `own` buckets are served here."""
        self._own = own
        self._heap = []
        self._more = more
        self.known_until_ms = dues[-1].at_ms if more else until_ms
        for due in dues:
            self._push(due)

    def add(self, due: Due) -> bool:
        """One more message. False when there are too many to remember: look again instead."""
        if due.at_ms > self.known_until_ms:
            return True
        if len(self._heap) >= self._most:
            return False
        self._push(due)
        return True

    def forget(self) -> None:
        self._heap = []
        self.known_until_ms = -NEVER_MS

    def look_again_ms(self, ahead_ms: int) -> int:
        """When to look again, so that the next `ahead_ms` are always known, or enough to be busy with until then."""
        if self._more and len(self._heap) > self._few:
            return self.known_until_ms
        return self.known_until_ms - ahead_ms

    def take(self, now_ms: int, limit: int) -> list[Due]:
        """What is to be taken now, in time order."""
        taken: list[Due] = []
        while self._heap and self._heap[0][0] <= now_ms and len(taken) < limit:
            taken.append(heapq.heappop(self._heap)[3])
        return sorted(taken, key=lambda due: due.at_ms)

    def due(self, now_ms: int) -> bool:
        return bool(self._heap) and self._heap[0][0] <= now_ms

    @property
    def next_ms(self) -> int:
        """When the next one is to be taken."""
        return self._heap[0][0] if self._heap else NEVER_MS

    def _push(self, due: Due) -> None:
        foreign = self._own is not None and due.bucket_id not in self._own
        when_ms = due.at_ms + self._help_after_ms if foreign else due.at_ms
        self._count += 1
        heapq.heappush(self._heap, (when_ms, due.at_ms, self._count, due))
