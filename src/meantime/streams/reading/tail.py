"""One Kafka consumer of a node for the ends of all partitions of a storage that its streams wait at.

    opened by the first follower ──► polled, its runs given to all who follow ──► nobody follows for a while ──► closed

A stream that has read everything follows here instead of keeping a consumer of its own. No follower holds the others back:
the tail waits for one a moment at most, then lets it *fall*, and it reads for itself from where it is. The same happens to
all followers of a partition that cannot be read on, and to everybody when the tail itself fails.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar

import structlog
from prometheus_client import Counter

from meantime.kafka.consumer import Mark, Run, RunReader
from meantime.kafka.settings import Storage, client_config
from meantime.metrics import REGISTRY
from meantime.streams.reading.tail_partition import TailFollower, TailPartition, TopicPartition, size_of
from meantime.tasks import TaskSet

log = structlog.get_logger(__name__)

FELL_BEHIND = Counter(
    "meantime_streams_fell_behind_total",
    "Partitions of streams at their end whose readers were too slow, so that they got consumers of their own.",
    registry=REGISTRY,
)

T = TypeVar("T")

POLL_FOR: Final = 0.05
"""How long the thread waits for a record; a partition that is new waits for this much longer at most."""

LINGER_FOR: Final = 5.0
RECENT_BYTES: Final = 4 << 20
"""Most bytes of recent runs that are kept, so that streams can join which are a moment behind."""

STUCK_AFTER: Final = 10.0
"""Seconds after which a partition has been read up to where a stream was that came to follow it; longer is a failure."""

MANY: Final = 200
"""So many records at once mean that more wait: they are read on while streams deal with these."""

TURNS: Final = 2
PAUSE: Final = 0.01
PAUSES: Final = 10
"""How long, and how often, the tail waits for followers for whom too much waits."""


class TailConsumer:
    """Everything here happens on the event loop; only the calls of Kafka's consumer are made in threads, one after the
    other."""

    def __init__(self, storage: Storage, threads: Executor, *, timed: bool = False) -> None:
        self.storage = storage
        self.stopped = False
        self._threads = threads
        self._timed = timed
        self._partitions: dict[TopicPartition, TailPartition] = {}
        self._assigned: dict[TopicPartition, TailPartition] = {}
        self._changed = asyncio.Event()
        self._recent: deque[TailPartition] = deque()
        self._recent_bytes = 0
        self._doubted: set[TopicPartition] = set()

    def attach(self, follower: TailFollower, first: int, *, foreign: bool = False) -> bool:
        """Follow from the record `first` on; False if the tail is further already than what it remembers."""
        partition = self._partitions.get(follower.place)
        if partition is None:
            partition = self._partitions[follower.place] = TailPartition(first, foreign=foreign)
            self._changed.set()
        elif partition.live and first > partition.next and follower.place not in self._doubted:
            self._doubted.add(follower.place)
            asyncio.get_running_loop().call_later(STUCK_AFTER, self._check, follower.place, partition, first)
        return partition.join(follower, first)

    def detach(self, follower: TailFollower) -> None:
        partition = self._partitions.get(follower.place)
        if partition is not None and follower in partition.followers:
            partition.followers.remove(follower)
            if not partition.followers:
                del self._partitions[follower.place]
                self._changed.set()

    def stop(self) -> None:
        self.stopped = True
        self._changed.set()

    async def run(self) -> None:
        """Until nobody has followed for a while."""
        reader: RunReader | None = None
        try:
            reader = await self._in_thread(partial(RunReader, self.storage, timed=self._timed))
            while await self._is_needed():
                if self._changed.is_set():
                    await self._assign(reader)
                else:
                    runs = await self._in_thread(reader.take, POLL_FOR)
                    late = self._fan_out(runs)
                    if late or 0 < sum(len(run.values) for run in runs) < MANY:
                        await self._let_streams_run()
                    await self._wait_for(late)
        except Exception as error:
            log.warning("tail_failed", storage=self.storage.id, error=str(error), exc_info=True)
        finally:
            self.stopped = True
            for place in list(self._partitions):
                self._give_up(place)
            if reader is not None:
                await self._in_thread(reader.close)

    async def _is_needed(self) -> bool:
        if not self._partitions and not self._assigned and not self.stopped:
            with suppress(TimeoutError):
                async with asyncio.timeout(LINGER_FOR):
                    await self._changed.wait()
        return not self.stopped and bool(self._partitions or self._assigned)

    async def _assign(self, reader: RunReader) -> None:
        """Make the consumer read what is followed, and nothing else."""
        self._changed.clear()
        left = [place for place, known in self._assigned.items() if self._partitions.get(place) is not known]
        if left:
            await self._in_thread(reader.remove, left)
            for place in left:
                del self._assigned[place]
        new = {place: known for place, known in self._partitions.items() if place not in self._assigned}
        if new:
            places = [(*place, known.next) for place, known in new.items()]
            for known in new.values():
                known.live = True  # from here on `next` is fixed, and nothing is taken before the consumer has it
            self._assigned |= new
            await self._in_thread(reader.add, places, [place[0] for place, known in new.items() if known.foreign])

    def _fan_out(self, runs: list[Run]) -> set[TailFollower]:
        """Those who have not taken what came before."""
        late: set[TailFollower] = set()
        for run in runs:
            place = (run.topic, run.partition)
            partition = self._partitions.get(place)
            if partition is None or partition is not self._assigned.get(place):
                continue
            if run.mark in (Mark.LOST, Mark.FAILED):
                self._give_up(place)
            elif partition.is_new(run):
                size = size_of(run)
                late.update(partition.accept(run, size))
                self._remember(partition, size)
        return late

    def _remember(self, partition: TailPartition, size: int) -> None:
        self._recent.append(partition)
        self._recent_bytes += size
        while self._recent_bytes > RECENT_BYTES:
            self._recent_bytes -= self._recent.popleft().forget_oldest()

    async def _let_streams_run(self) -> None:
        """A thread that polls at once would only take the interpreter from them. Meanwhile more comes together, which is
        cheaper to hand out."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def _wait_for(self, late: set[TailFollower]) -> None:
        """Streams whose clients read get to it as soon as the event loop has turned a few times."""
        full = [follower for follower in late if follower.full]
        for _ in range(PAUSES):
            if not full:
                return
            await asyncio.sleep(PAUSE)
            full = [follower for follower in full if follower.full]
        for follower in full:
            self.detach(follower)
            follower.fall()
            FELL_BEHIND.inc()

    def _check(self, place: TopicPartition, partition: TailPartition, expected: int) -> None:
        """A stream has seen records that must have come here by now."""
        self._doubted.discard(place)
        if self._partitions.get(place) is partition and partition.next < expected:
            log.warning("tail_stuck", storage=self.storage.id, topic=place[0], partition=place[1], at=partition.next)
            self._give_up(place)

    def _give_up(self, place: TopicPartition) -> None:
        """Nobody can follow this partition any further."""
        followers = self._partitions.pop(place).followers
        self._changed.set()
        for follower in followers:
            follower.fall()

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)


class Tails:
    """The tails of a node: one for each storage, and another one for streams that want to know when events were written."""

    def __init__(self, threads: Executor, tasks: TaskSet) -> None:
        self._threads = threads
        self._tasks = tasks
        self._tails: dict[tuple[str, bool], TailConsumer] = {}

    def attach(self, storage: Storage, follower: TailFollower, first: int, *, timed: bool, foreign: bool) -> bool:
        """Follow from the record `first` on; False if the tail is further already than what it remembers."""
        return self._tail(storage, timed).attach(follower, first, foreign=foreign)

    def detach(self, storage_id: str, follower: TailFollower, *, timed: bool) -> None:
        if (tail := self._tails.get((storage_id, timed))) is not None:
            tail.detach(follower)

    def stop(self) -> None:
        for tail in self._tails.values():
            tail.stop()

    def _tail(self, storage: Storage, timed: bool) -> TailConsumer:
        """The one that runs, or a new one. When the settings of a storage change, those who follow start again."""
        tail = self._tails.get((storage.id, timed))
        if tail is not None and client_config(tail.storage) != client_config(storage):
            tail.stop()
        if tail is None or tail.stopped:
            tail = self._tails[storage.id, timed] = TailConsumer(storage, self._threads, timed=timed)
            self._tasks.start(tail.run(), f"tail of {storage.id}")
        return tail
