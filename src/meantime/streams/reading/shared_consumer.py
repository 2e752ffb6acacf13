"""One Kafka consumer of a stream that is behind, shared by its partitions: its thread now and then, and who reads what
through it.

    waits for a slot ──► opened ──► polled, chunk by chunk, while it is wanted ──► left ──► closed
           └────────── closed ◄──── its turn is over and others wait

At most one chunk waits to be processed, so a stream that is not read holds nothing but that and the consumer's own bounded
queue. A consumer that was opened ahead of its readers is not wanted yet: it fills its queue and is then not polled.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from meantime.errors import StorageUnavailable
from meantime.kafka.consumer import Run, RunReader, TopicPlace
from meantime.kafka.settings import Storage
from meantime.streams.model import PartitionKey
from meantime.streams.reading.consumer_slots import ConsumerSlots
from meantime.streams.reading.tail_partition import TailFollower, TopicPartition

T = TypeVar("T")

POLL_FOR = 0.2
"""How long a thread waits for a record; a consumer that is left is closed this much later at most."""

HELD_BYTES = 8 << 20
"""Most bytes that wait for partitions which are still behind this consumer's timeline."""


@dataclass(slots=True, eq=False)
class PartitionProgress:
    """Where one partition of a stream is: everything up to `reached` of timeline `order` has been delivered. `held` are
    runs of later timelines that came early. One that has `caught_up` may follow the tail, unless it is too slow for it."""

    key: PartitionKey
    order: int
    reached: int
    caught_up: bool = False
    slow: bool = False
    tail: TailFollower | None = None
    held: dict[int, list[Run]] = field(default_factory=dict)
    consumers: dict[int, "SharedConsumer"] = field(default_factory=dict)


class SharedConsumer:
    """Everything here happens on the event loop; only calls of Kafka's consumer are made in threads, one after the other,
    because it keeps other calls waiting while it is being polled."""

    def __init__(
        self, threads: Executor, slots: ConsumerSlots, deliver: Callable[["SharedConsumer", list[Run]], None]
    ) -> None:
        self._threads = threads
        self._slots = slots
        self._deliver = deliver
        self._attention = asyncio.Event()
        self._left = False
        self._recalled = False
        self._wanted = False
        self._waits = False  # a chunk, to be processed; until then nothing else happens
        self._failure: Exception | None = None
        self._next: dict[TopicPartition, int] = {}
        self._assigned: set[TopicPartition] = set()
        self._dropped: set[TopicPartition] = set()
        self._live: set[TopicPartition] = set()
        self.places: dict[TopicPartition, tuple[PartitionProgress, int]] = {}
        self.held_bytes = 0

    def add(self, additions: list[tuple[PartitionProgress, int, TopicPlace]]) -> None:
        for progress, order, (topic, partition, first) in additions:
            self.places[topic, partition] = (progress, order)
            self._next[topic, partition] = first
            progress.consumers[order] = self
        self.regulate()
        self._attention.set()

    def drop(self, place: TopicPartition) -> None:
        """Read this no longer; the consumer is left when nothing remains."""
        if self.places.pop(place, None):
            del self._next[place]
            self._live.discard(place)
            if place in self._assigned:
                self._dropped.add(place)
        if not self.places:
            self.leave()
        self.regulate()
        self._attention.set()

    def reader_of(self, place: TopicPartition) -> tuple[PartitionProgress, int] | None:
        """Who reads this partition and in which timeline; None for what comes late for a reader that has gone."""
        return self.places.get(place) if place in self._live else None

    def regulate(self) -> None:
        """Take records only if a reader has got to this timeline, and not more than may wait for the others."""
        reached = any(progress.order >= order for progress, order in self.places.values())
        self._wanted = reached and self.held_bytes < HELD_BYTES
        if self._wanted:
            self._attention.set()

    def check(self) -> None:
        """Raise if the consumer has failed for good."""
        if self._failure is not None:
            raise StorageUnavailable(f"the storage cannot be read any further: {self._failure}") from self._failure

    def processed(self) -> None:
        self._waits = False
        self._attention.set()

    def leave(self) -> None:
        self._left = True
        self._attention.set()

    async def run(self, storage: Storage, foreign: list[str], *, timed: bool = False) -> None:
        """Take chunk after chunk until the consumer is left."""
        try:
            while not self._left:
                if self._waits:
                    await self._until_attention()
                    continue
                async with self._slots.slot(self._recall):
                    if not self._left:
                        await self._read(storage, foreign, timed=timed)
        except Exception as error:
            self._failure = error
            self._deliver(self, [])

    async def _read(self, storage: Storage, foreign: list[str], *, timed: bool) -> None:
        self._recalled = False
        reader = await self._in_thread(partial(RunReader, storage, timed=timed))
        try:
            while not (self._left or self._recalled):
                if self._waits:
                    await self._until_attention()
                elif self._dropped or self._assigned != self.places.keys():
                    await self._assign(reader, foreign)
                elif self._wanted:
                    await self._take(reader)
                else:
                    await self._until_attention()
        finally:
            self._assigned.clear()
            self._dropped.clear()
            await self._in_thread(reader.close)

    async def _assign(self, reader: RunReader, foreign: list[str]) -> None:
        """Make the consumer read the places that there are now."""
        dropped, self._dropped = self._dropped, set()
        if dropped:
            self._assigned -= dropped
            await self._in_thread(reader.remove, list(dropped))
        new = {place: first for place, first in self._next.items() if place not in self._assigned}
        if new:
            self._assigned |= new.keys()
            await self._in_thread(reader.add, [(*place, first) for place, first in new.items()], foreign)
            self._live |= new.keys() & self._next.keys() - self._dropped

    async def _take(self, reader: RunReader) -> None:
        runs = await self._in_thread(reader.take, POLL_FOR)
        for run in runs:
            if (run.topic, run.partition) in self._live:
                self._next[run.topic, run.partition] = max(run.end, self._next[run.topic, run.partition])
        if runs and not self._left:
            self._waits = True
            self._deliver(self, runs)

    def _recall(self) -> None:
        self._recalled = True
        self._attention.set()

    async def _until_attention(self) -> None:
        self._attention.clear()
        await self._attention.wait()

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
