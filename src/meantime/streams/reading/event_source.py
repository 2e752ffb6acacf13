"""The events of some partitions, in order, over all their timelines and clusters, for as long as they are wanted.

Each partition is read along its timelines. A border is exact: nothing beyond a closed timeline's last offset is delivered,
and the next timeline begins after it.

    behind: consumers of the stream's own ──has read everything──► at the end: follows the node's tail
                     ▲                                                            │
                     └────── was too slow, or the tail cannot go on ──────────────┘

While it is behind, consumers for the next timelines are opened ahead, so that crossing a border costs nothing; a timeline
that a switch has just made is noticed through the catalog while the stream stays open.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from concurrent.futures import Executor
from dataclasses import dataclass, field

from meantime.kafka.consumer import Mark, Run, TopicPlace
from meantime.streams.catalog.catalog import Catalog, CatalogEntry
from meantime.streams.cursors import Cursor
from meantime.streams.model import PartitionKey, Timeline
from meantime.streams.reading.consumer_slots import ConsumerSlots
from meantime.streams.reading.followed_timelines import FollowedTimelines
from meantime.streams.reading.shared_consumer import PartitionProgress, SharedConsumer
from meantime.streams.reading.tail import Tails
from meantime.streams.reading.tail_partition import TailFollower
from meantime.streams.reading.timeline_watch import TimelineWatches
from meantime.tasks import TaskSet

FOLLOW_AGAIN_AFTER = 5.0
"""How long a partition that was too slow for the tail reads for itself, at least."""


@dataclass(frozen=True, slots=True)
class EventChunk:
    """Events `first`, `first + 1` … of one timeline."""

    key: PartitionKey
    order: int
    first: int
    values: list[bytes]


@dataclass(slots=True)
class Received:
    """What a look at the source brought. `lost` are partitions whose next event has expired; `gone` are event types that
    were deleted."""

    chunks: list[EventChunk] = field(default_factory=list)
    lost: list[PartitionKey] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class NodeReading:
    """What the sources of a node share."""

    catalog: Catalog
    threads: Executor
    tasks: TaskSet
    slots: ConsumerSlots
    tails: Tails
    watches: TimelineWatches


class EventSource:
    def __init__(self, node: NodeReading, *, timed: bool = False) -> None:
        self._node = node
        self._timed = timed
        self._followed: dict[str, FollowedTimelines] = {}
        self._consumers: dict[tuple[str, int], SharedConsumer] = {}
        self._waiting: deque[tuple[SharedConsumer, list[Run]]] = deque()
        self._tail_news: list[TailFollower] = []
        self._news = asyncio.Event()
        self._gone: list[str] = []
        self._lost: list[PartitionKey] = []
        self._closed = False

    async def add(self, starts: dict[PartitionKey, Cursor], at_end: Collection[PartitionKey] = ()) -> None:
        """Read these partitions too, each from the event after its cursor; those `at_end` have nothing to catch up with."""
        partitions = []
        for key, cursor in starts.items():
            followed = await self._follow_timelines(key[0], cursor.order)
            order = cursor.order or followed.first_order
            progress = PartitionProgress(key, order, cursor.offset, caught_up=key in at_end)
            followed.partitions[key] = progress
            self._cross_borders(followed, progress)
            partitions.append(progress)
        if self._closed:
            self.close()
        else:
            self._arrange(partitions)

    def drop(self, keys: list[PartitionKey]) -> None:
        for key in keys:
            followed = self._followed.get(key[0])
            progress = followed.partitions.pop(key, None) if followed is not None else None
            if followed is None or progress is None or self._closed:
                continue
            self._leave_tail(followed, progress)
            for order in list(progress.consumers):
                self._detach(followed, progress, order)
            if not followed.partitions:
                self._node.watches.leave(key[0], self)
                del self._followed[key[0]]

    async def next(self, wait_for: float) -> Received:
        """What has come; waits so long for something. Returns early, perhaps with nothing, when it is woken."""
        if not self._news.is_set() and wait_for > 0:
            try:
                async with asyncio.timeout(wait_for):
                    await self._news.wait()
            except TimeoutError:
                return Received()
        self._news.clear()
        received = Received(lost=self._lost, gone=self._gone)
        self._lost, self._gone = [], []
        moved: set[PartitionProgress] = set()
        while self._waiting:
            consumer, runs = self._waiting.popleft()
            consumer.check()
            for run in runs:
                self._accept(consumer, run, received, moved)
            consumer.regulate()
            consumer.processed()
        followers, self._tail_news = self._tail_news, []
        for follower in followers:
            self._accept_from_tail(follower, received, moved)
        self._arrange(list(moved))
        return received

    def wake(self) -> None:
        self._news.set()

    def close(self) -> None:
        """Leave everything; consumers are closed a moment later by their own tasks."""
        self._closed = True
        for name, followed in self._followed.items():
            self._node.watches.leave(name, self)
            for progress in followed.partitions.values():
                self._leave_tail(followed, progress)
                for consumer in progress.consumers.values():
                    consumer.leave()

    # Delivering

    def _accept(self, consumer: SharedConsumer, run: Run, received: Received, moved: set[PartitionProgress]) -> None:
        progress, order = consumer.reader_of((run.topic, run.partition)) or (None, 0)
        if progress is None or order < progress.order:
            return
        if order > progress.order:
            progress.held.setdefault(order, []).append(run)
            consumer.held_bytes += sum(map(len, run.values))
            return
        self._advance(progress, run, received, moved)
        progress.caught_up = run.mark is Mark.END and order == progress.order
        if progress.caught_up:
            moved.add(progress)

    def _accept_from_tail(self, follower: TailFollower, received: Received, moved: set[PartitionProgress]) -> None:
        followed = self._followed.get(follower.key[0])
        progress = followed.partitions.get(follower.key) if followed is not None else None
        if progress is None or progress.tail is not follower:
            return
        for run in follower.take():
            if follower.order == progress.order:
                self._advance(progress, run, received, moved)
        if follower.fallen:
            progress.tail, progress.caught_up, progress.slow = None, False, True
            asyncio.get_running_loop().call_later(FOLLOW_AGAIN_AFTER, self._no_longer_slow, progress)
            moved.add(progress)

    def _advance(self, progress: PartitionProgress, run: Run, received: Received, moved: set[PartitionProgress]) -> None:
        """Deliver a run of the timeline that the partition is in, and step over the border if that is reached."""
        followed = self._followed[progress.key[0]]
        self._deliver(followed, progress, run, received)
        if progress.reached == followed.last(progress) and self._cross_borders(followed, progress):
            moved.add(progress)
            self._release(followed, progress, received)

    def _deliver(self, followed: FollowedTimelines, progress: PartitionProgress, run: Run, received: Received) -> None:
        if run.mark is Mark.LOST:
            received.lost.append(progress.key)
        if run.mark in (Mark.LOST, Mark.FAILED):
            return
        last = followed.last(progress)
        first = max(run.first, progress.reached + 1)
        end = run.end if last is None else min(run.end, last + 1)
        if first < end:
            whole = first == run.first and end == run.end
            values = run.values if whole else run.values[first - run.first : end - run.first]
            received.chunks.append(EventChunk(progress.key, progress.order, first, values))
        seen = run.end - 1
        progress.reached = max(progress.reached, seen if last is None else min(seen, last))

    def _cross_borders(self, followed: FollowedTimelines, progress: PartitionProgress) -> bool:
        crossed = followed.cross_borders(progress)
        if followed.timeline(progress.order).deleted:
            self._lost.append(progress.key)
            self._news.set()
        return crossed

    def _release(self, followed: FollowedTimelines, progress: PartitionProgress, received: Received) -> None:
        """Deliver what came early for the timeline that has been entered, and perhaps cross again."""
        while runs := progress.held.pop(progress.order, None):
            consumer, order = progress.consumers[progress.order], progress.order
            consumer.held_bytes -= sum(len(value) for run in runs for value in run.values)
            for run in runs:
                self._deliver(followed, progress, run, received)
            if not self._cross_borders(followed, progress):
                consumer.regulate()
                return
            progress.held.pop(order, None)

    # The tail, and consumers

    def _arrange(self, partitions: list[PartitionProgress]) -> None:
        """Let each partition follow the tail, or give it its consumers: for where it is and for what comes next; take it off
        those behind it."""
        additions: dict[SharedConsumer, list[tuple[PartitionProgress, int, TopicPlace]]] = {}
        for progress in partitions:
            followed = self._followed[progress.key[0]]
            for timeline in () if self._at_tail(followed, progress) else followed.ahead(progress):
                if timeline.order not in progress.consumers and not timeline.deleted:
                    first = progress.reached + 1 if timeline.order == progress.order else 0
                    place = (timeline.topic, progress.key[1], first)
                    additions.setdefault(self._consumer(followed, timeline), []).append((progress, timeline.order, place))
        for consumer, added in additions.items():
            consumer.add(added)
        for progress in partitions:
            for order in [order for order in progress.consumers if order < progress.order or progress.tail is not None]:
                self._detach(self._followed[progress.key[0]], progress, order)
            for consumer in progress.consumers.values():
                consumer.regulate()

    def _at_tail(self, followed: FollowedTimelines, progress: PartitionProgress) -> bool:
        """Whether the partition follows the tail, which it begins to do if it can."""
        if progress.tail is not None:
            if progress.tail.order == progress.order:
                return True
            self._leave_tail(followed, progress)
        timeline = followed.timeline(progress.order)
        if not progress.caught_up or progress.slow or timeline.closed:
            return False
        follower = TailFollower(progress.key, progress.order, (timeline.topic, progress.key[1]), self._tail_has_news)
        storage, foreign = self._node.catalog.storage(timeline.storage_id), followed.is_foreign(timeline)
        if not self._node.tails.attach(storage, follower, progress.reached + 1, timed=self._timed, foreign=foreign):
            progress.caught_up = False  # the tail is further; at its next end this one may be as far
            return False
        progress.tail = follower
        return True

    def _leave_tail(self, followed: FollowedTimelines, progress: PartitionProgress) -> None:
        if progress.tail is not None:
            follower, progress.tail = progress.tail, None
            self._node.tails.detach(followed.timeline(follower.order).storage_id, follower, timed=self._timed)

    def _tail_has_news(self, follower: TailFollower) -> None:
        self._tail_news.append(follower)
        self._news.set()

    def _no_longer_slow(self, progress: PartitionProgress) -> None:
        progress.slow = False
        followed = self._followed.get(progress.key[0])
        if not self._closed and followed is not None and followed.partitions.get(progress.key) is progress:
            self._arrange([progress])

    def _consumer(self, followed: FollowedTimelines, timeline: Timeline) -> SharedConsumer:
        key = (timeline.event_type, timeline.order)
        if key not in self._consumers:
            consumer = self._consumers[key] = SharedConsumer(self._node.threads, self._node.slots, self._receive)
            foreign = [timeline.topic] if followed.is_foreign(timeline) else []
            storage = self._node.catalog.storage(timeline.storage_id)
            self._node.tasks.start(consumer.run(storage, foreign, timed=self._timed), f"consumer {key[0]} {key[1]}")
        return self._consumers[key]

    def _detach(self, followed: FollowedTimelines, progress: PartitionProgress, order: int) -> None:
        consumer = progress.consumers.pop(order)
        progress.held.pop(order, None)
        consumer.drop((followed.timeline(order).topic, progress.key[1]))
        if not consumer.places:
            self._consumers.pop((progress.key[0], order), None)

    def _receive(self, consumer: SharedConsumer, runs: list[Run]) -> None:
        self._waiting.append((consumer, runs))
        self._news.set()

    # Timelines that change

    async def _follow_timelines(self, name: str, order: int) -> FollowedTimelines:
        """The timelines of an event type, known up to `order` at least."""
        entry = await self._node.catalog.entry(name)
        followed = self._followed.get(name)
        if followed is None:
            followed = self._followed[name] = FollowedTimelines(self._node.watches.listen(name, entry, self))
        elif order > followed.entry.active.order:
            self._learn(followed, entry)
        return followed

    def timelines_changed(self, name: str, entry: CatalogEntry | None) -> None:
        followed = self._followed.get(name)
        if followed is None or self._closed:
            return
        if entry is not None and followed.is_same(entry):
            self._learn(followed, entry)
        else:
            self._node.watches.leave(name, self)
            self._gone.append(name)
            self._news.set()

    def _learn(self, followed: FollowedTimelines, entry: CatalogEntry) -> None:
        self._become_real(followed, entry)
        followed.learn(entry)
        for progress in followed.partitions.values():
            self._cross_borders(followed, progress)
        self._arrange(list(followed.partitions.values()))

    def _become_real(self, followed: FollowedTimelines, entry: CatalogEntry) -> None:
        """A fake timeline gets its number at its first switch; its topic, and who reads it, stay the same."""
        fake, real = followed.entry.timelines[0], entry.timelines[0]
        if not fake.fake or real.fake:
            return
        consumer = self._consumers.pop((fake.event_type, fake.order), None)
        if consumer is not None:
            self._consumers[real.event_type, real.order] = consumer
            consumer.places = {place: (progress, real.order) for place, (progress, _) in consumer.places.items()}
        for progress in followed.partitions.values():
            progress.order = real.order
            progress.consumers = {real.order: consumer} if consumer is not None and progress.consumers else {}
            if progress.tail is not None:
                progress.tail.order = real.order
