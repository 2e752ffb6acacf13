"""The events of some partitions, in order, over all their timelines and clusters, for as long as they are wanted.

Each partition is read along its timelines. A border is exact: nothing beyond a closed timeline's last offset is delivered,
and the next timeline begins after it. Consumers for the next timelines are opened ahead, so that crossing a border costs
nothing; a timeline that a switch has just made is noticed through the catalog while the stream stays open.
"""

import asyncio
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial

import structlog

from meantime.errors import NotFound, Unavailable
from meantime.kafka.consumer import Run, TopicPlace
from meantime.streams.catalog.catalog import Catalog, CatalogEntry
from meantime.streams.cursors import Cursor, last_offset, partition_timelines
from meantime.streams.model import PartitionKey, Timeline
from meantime.streams.reading.shared_consumer import PartitionProgress, SharedConsumer
from meantime.supervision import supervised
from meantime.tasks import TaskSet, start

log = structlog.get_logger(__name__)

RETRY_EVERY = 0.5
AHEAD = 3
"""How many further timelines have their consumers opened before anybody gets there."""


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


class FollowedTimelines:
    """An event type's timelines as they are known now, and how far each partition has been read along them."""

    def __init__(self, entry: CatalogEntry) -> None:
        self.partitions: dict[PartitionKey, PartitionProgress] = {}
        self.watch: asyncio.Task[None] | None = None
        self.learn(entry)

    def learn(self, entry: CatalogEntry) -> None:
        self.entry = entry
        self._by_order = {timeline.order: timeline for timeline in entry.timelines}

    @property
    def first_order(self) -> int:
        return self.entry.timelines[0].order

    def timeline(self, order: int) -> Timeline:
        return self._by_order[order]

    def last(self, progress: PartitionProgress) -> int | None:
        """Where the timeline that the partition is in ends; None while it is active."""
        return last_offset(self._by_order[progress.order], progress.key[1])

    def ahead(self, progress: PartitionProgress) -> list[Timeline]:
        """The timeline that the partition is in, and those that come next; empty ones are stepped over."""
        partition = progress.key[1]
        current = self.timeline(progress.order)
        further = [
            timeline
            for timeline in self.entry.timelines
            if timeline.order > progress.order and not timeline.deleted and last_offset(timeline, partition) != -1
        ]
        return [current, *further[:AHEAD]]

    def is_same(self, entry: CatalogEntry) -> bool:
        """Whether it is still that event type and not another one of the same name."""
        return entry.event_type.created_at_ms == self.entry.event_type.created_at_ms


class EventSource:
    def __init__(self, catalog: Catalog, threads: Executor, tasks: TaskSet, *, timed: bool = False) -> None:
        self._catalog = catalog
        self._threads = threads
        self._tasks = tasks
        self._timed = timed
        self._followed: dict[str, FollowedTimelines] = {}
        self._consumers: dict[tuple[str, int], SharedConsumer] = {}
        self._waiting: deque[tuple[SharedConsumer, list[Run]]] = deque()
        self._news = asyncio.Event()
        self._gone: list[str] = []
        self._lost: list[PartitionKey] = []
        self._closed = False

    async def add(self, starts: dict[PartitionKey, Cursor]) -> None:
        """Read these partitions too, each from the event after its cursor."""
        partitions = []
        for key, cursor in starts.items():
            followed = await self._follow_timelines(key[0], cursor.order)
            progress = PartitionProgress(key, cursor.order or followed.first_order, cursor.offset)
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
            for order in list(progress.consumers):
                self._detach(followed, progress, order)
            if not followed.partitions and followed.watch is not None:
                followed.watch.cancel()
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
        self._arrange(list(moved))
        return received

    def wake(self) -> None:
        self._news.set()

    def close(self) -> None:
        """Leave everything; consumers are closed a moment later by their own tasks."""
        self._closed = True
        for followed in self._followed.values():
            if followed.watch is not None:
                followed.watch.cancel()
        for consumer in {
            consumer
            for followed in self._followed.values()
            for progress in followed.partitions.values()
            for consumer in progress.consumers.values()
        }:
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
        followed = self._followed[progress.key[0]]
        self._deliver(followed, progress, run, received)
        if progress.reached == followed.last(progress) and self._cross_borders(followed, progress):
            moved.add(progress)
            self._release(followed, progress, received)

    def _deliver(self, followed: FollowedTimelines, progress: PartitionProgress, run: Run, received: Received) -> None:
        if run.lost:
            received.lost.append(progress.key)
            return
        last = followed.last(progress)
        first = max(run.first, progress.reached + 1)
        end = run.first + len(run.values)
        if last is not None:
            end = min(end, last + 1)
        if first < end:
            whole = first == run.first and end == run.first + len(run.values)
            values = run.values if whole else run.values[first - run.first : end - run.first]
            received.chunks.append(EventChunk(progress.key, progress.order, first, values))
        seen = run.first + len(run.values) - 1
        progress.reached = max(progress.reached, seen if last is None else min(seen, last))

    def _cross_borders(self, followed: FollowedTimelines, progress: PartitionProgress) -> bool:
        """Step over the borders that have been reached; whether there was one."""
        last = followed.last(progress)
        reached = progress.reached if last is None else min(progress.reached, last)
        settled = partition_timelines(followed.entry.timelines, progress.key[1]).settled(Cursor(progress.order, reached))
        crossed = settled.order != progress.order
        progress.order, progress.reached = settled.order, settled.offset
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

    # Consumers

    def _arrange(self, partitions: list[PartitionProgress]) -> None:
        """Give each partition its consumers: for where it is and for what comes next; take it off those behind it."""
        additions: dict[SharedConsumer, list[tuple[PartitionProgress, int, TopicPlace]]] = {}
        for progress in partitions:
            followed = self._followed[progress.key[0]]
            for timeline in followed.ahead(progress):
                if timeline.order not in progress.consumers and not timeline.deleted:
                    first = progress.reached + 1 if timeline.order == progress.order else 0
                    place = (timeline.topic, progress.key[1], first)
                    additions.setdefault(self._consumer(followed, timeline), []).append((progress, timeline.order, place))
        for consumer, added in additions.items():
            consumer.add(added)
        for progress in partitions:
            for order in [order for order in progress.consumers if order < progress.order]:
                self._detach(self._followed[progress.key[0]], progress, order)
            for consumer in progress.consumers.values():
                consumer.regulate()

    def _consumer(self, followed: FollowedTimelines, timeline: Timeline) -> SharedConsumer:
        key = (timeline.event_type, timeline.order)
        if key not in self._consumers:
            consumer = self._consumers[key] = SharedConsumer(self._threads, self._receive)
            adopted = followed.entry.event_type.adopt_topic
            foreign = [timeline.topic] if timeline.topic == adopted else []
            storage = self._catalog.storage(timeline.storage_id)
            self._tasks.start(consumer.run(storage, foreign, timed=self._timed), f"consumer {key[0]} {key[1]}")
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
        entry = await self._catalog.entry(name)
        followed = self._followed.get(name)
        if followed is None:
            followed = self._followed[name] = FollowedTimelines(entry)
            following = supervised(partial(self._follow, name, followed), "timelines of an event type", name)
            followed.watch = start(following, f"timelines of {name}")
        elif order > followed.entry.active.order:
            self._learn(followed, entry)
        return followed

    def _learn(self, followed: FollowedTimelines, entry: CatalogEntry) -> None:
        self._become_real(followed, entry)
        followed.learn(entry)
        for progress in followed.partitions.values():
            self._cross_borders(followed, progress)
        self._arrange(list(followed.partitions.values()))

    async def _follow(self, name: str, followed: FollowedTimelines) -> None:
        while True:
            try:
                await self._catalog.wait_for_change(name, followed.entry.timelines)
                entry = await self._catalog.entry(name)
            except NotFound:
                break
            except Unavailable:
                await asyncio.sleep(RETRY_EVERY)
                continue
            if not followed.is_same(entry):
                break
            self._learn(followed, entry)
        self._gone.append(name)
        self._news.set()

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
