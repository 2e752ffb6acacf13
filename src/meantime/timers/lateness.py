"""How late callbacks of the last minute were, counted by the millisecond; and how many there were of each topic."""

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterable, Mapping

SLOT_MS = 10_000
SLOTS = 6
COARSE_ABOVE_MS = 10_000
BOUNDS_MS = (5, 10, 25, 50, 100, 250, 500, 1_000, 2_000, 5_000, 30_000, 300_000)
MOST_TOPICS = 50
OTHER = "other"


class LatenessCounts:
    def __init__(self) -> None:
        self._slots: deque[tuple[int, Counter[int]]] = deque(maxlen=SLOTS)
        self.buckets = [0] * (len(BOUNDS_MS) + 1)
        """Since the process began: how many were not later than each bound, but later than the one before it."""
        self.total_ms = 0

    def count(self, late_ms: list[int], now_ms: int) -> None:
        number = now_ms // SLOT_MS
        if not self._slots or self._slots[-1][0] != number:
            self._slots.append((number, Counter()))
        counts = self._slots[-1][1]
        counts.update(late if late < COARSE_ABOVE_MS else late - late % 1000 for late in late_ms)
        for late in late_ms:
            self.buckets[bisect_left(BOUNDS_MS, late)] += 1
            self.total_ms += max(0, late)

    def counts(self, now_ms: int) -> dict[int, int]:
        oldest = now_ms // SLOT_MS - SLOTS
        total: Counter[int] = Counter()
        for number, counts in self._slots:
            if number > oldest:
                total.update(counts)
        return dict(total)


class CallbackCounts:
    """Callbacks by topic: the first so many topics, and all others as one, for each is a label of a metric."""

    def __init__(self, most: int = MOST_TOPICS) -> None:
        self._most = most
        self._counts: Counter[str] = Counter()

    def count(self, topics: Iterable[str]) -> None:
        self.add(Counter(topics))

    def add(self, counts: Mapping[str, int]) -> None:
        for topic, added in counts.items():
            known = topic in self._counts or len(self._counts) < self._most
            self._counts[topic if known else OTHER] += added

    def counts(self) -> dict[str, int]:
        return dict(self._counts)


def quantile(counts: dict[int, int], part: float) -> int:
    """The least value that `part` of the counted values do not exceed; 0 without any."""
    left = part * sum(counts.values())
    for value in sorted(counts):
        left -= counts[value]
        if left <= 0:
            return value
    return 0
