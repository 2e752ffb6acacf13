"""The end of one partition, as many streams follow it: what has come lately, and what waits for each of them.

Pure. The invariant: a follower is given every record from the offset at which it joined, in order, or it *falls* and is told
so. Records before that offset may be among them; whoever follows skips what it has had already.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from meantime.kafka.consumer import Run
from meantime.streams.model import PartitionKey

MOST_WAITING: Final = 1 << 20
"""Most bytes that wait for one follower; beyond it, it has to read for itself."""

OVERHEAD: Final = 128
"""What a run takes beside its values, roughly."""

TopicPartition = tuple[str, int]


class TailFollower:
    """One partition of one stream. `notify` is called when the first run begins to wait, and when the follower falls."""

    __slots__ = ("_notify", "_waiting", "fallen", "key", "order", "place", "waiting_bytes")

    def __init__(
        self, key: PartitionKey, order: int, place: TopicPartition, notify: Callable[["TailFollower"], None]
    ) -> None:
        self.key = key
        self.order = order
        self.place = place
        self.fallen = False
        self.waiting_bytes = 0
        self._waiting: list[Run] = []
        self._notify = notify

    @property
    def full(self) -> bool:
        return self.waiting_bytes > MOST_WAITING

    def receive(self, run: Run, size: int) -> None:
        self._waiting.append(run)
        self.waiting_bytes += size
        if len(self._waiting) == 1:
            self._notify(self)

    def take(self) -> list[Run]:
        """What has come since the last time."""
        runs, self._waiting, self.waiting_bytes = self._waiting, [], 0
        return runs

    def fall(self) -> None:
        """Nothing more comes, and what waits is dropped."""
        self.fallen = True
        self.take()
        self._notify(self)


class TailPartition:
    """`next` is the offset that is expected; `recent` holds every record from `since` on. It is not `live` until Kafka's
    consumer has been given the partition: whatever comes before that belongs to an earlier reading of it."""

    __slots__ = ("followers", "foreign", "live", "next", "recent", "since")

    def __init__(self, first: int, *, foreign: bool = False) -> None:
        self.next = self.since = first
        self.foreign = foreign
        self.live = False
        self.recent: deque[Run] = deque()
        self.followers: set[TailFollower] = set()

    def join(self, follower: TailFollower, first: int) -> bool:
        """Follow from the record `first` on; False if that is too long ago."""
        if not self.live:
            self.next = self.since = min(self.next, first)
        if first < self.since:
            return False
        for run in self.recent:
            if run.end > first:
                follower.receive(run, size_of(run))
        self.followers.add(follower)
        return True

    def accept(self, run: Run, size: int) -> list[TailFollower]:
        """Give the run to all who follow; those who have not taken what came before it."""
        self.next = run.end
        self.recent.append(run)
        late = []
        for follower in self.followers:
            follower.receive(run, size)
            if follower.waiting_bytes > size:
                late.append(follower)
        return late

    def is_new(self, run: Run) -> bool:
        return self.live and run.end > self.next

    def forget_oldest(self) -> int:
        """Drop the oldest recent run; its size."""
        run = self.recent.popleft()
        self.since = run.end
        return size_of(run)


def size_of(run: Run) -> int:
    return OVERHEAD + sum(map(len, run.values))
