"""One Kafka consumer of a stream, shared by its partitions: its thread now and then, and who reads what through it.

    opened ──► partitions are added ──► polled, chunk by chunk, while the gate is open ──► left ──► closed

At most one chunk waits to be processed, so a stream that is not read holds nothing but that and the consumer's own bounded
queue. A consumer that was opened ahead of its readers keeps its gate shut: it fills its queue and is then not polled.
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

T = TypeVar("T")

POLL_FOR = 0.2
"""How long a thread waits for a record; a consumer that is left is closed this much later at most."""

HELD_BYTES = 8 << 20
"""Most bytes that wait for partitions which are still behind this consumer's timeline."""

TopicPartition = tuple[str, int]


@dataclass(slots=True, eq=False)
class PartitionProgress:
    """Where one partition of a stream is: everything up to `reached` of timeline `order` has been delivered. `held` are
    runs of later timelines that came early."""

    key: PartitionKey
    order: int
    reached: int
    held: dict[int, list[Run]] = field(default_factory=dict)
    consumers: dict[int, "SharedConsumer"] = field(default_factory=dict)


class SharedConsumer:
    """Everything here happens on the event loop; only calls of Kafka's consumer are made in threads, one after the other,
    because it keeps other calls waiting while it is being polled."""

    def __init__(self, threads: Executor, deliver: Callable[["SharedConsumer", list[Run]], None]) -> None:
        self._threads = threads
        self._deliver = deliver
        self._gate = asyncio.Event()
        self._processed = asyncio.Event()
        self._left = False
        self._failure: Exception | None = None
        self._changes: list[tuple[list[TopicPlace], list[TopicPartition]]] = []
        self._live: set[TopicPartition] = set()
        self.places: dict[TopicPartition, tuple[PartitionProgress, int]] = {}
        self.held_bytes = 0

    def add(self, additions: list[tuple[PartitionProgress, int, TopicPlace]]) -> None:
        for progress, order, (topic, partition, _) in additions:
            self.places[topic, partition] = (progress, order)
            progress.consumers[order] = self
        self._changes.append(([place for _, _, place in additions], []))
        self.regulate()

    def drop(self, place: TopicPartition) -> None:
        """Read this no longer; the consumer is left when nothing remains."""
        if self.places.pop(place, None):
            self._live.discard(place)
            self._changes.append(([], [place]))
        if not self.places:
            self.leave()
        self.regulate()

    def reader_of(self, place: TopicPartition) -> tuple[PartitionProgress, int] | None:
        """Who reads this partition and in which timeline; None for what comes late for a reader that has gone."""
        return self.places.get(place) if place in self._live else None

    def regulate(self) -> None:
        """Take records only if a reader has got to this timeline, and not more than may wait for the others."""
        wanted = any(progress.order >= order for progress, order in self.places.values()) and self.held_bytes < HELD_BYTES
        if wanted or self._changes or self._left:
            self._gate.set()
        else:
            self._gate.clear()

    def check(self) -> None:
        """Raise if the consumer has failed for good."""
        if self._failure is not None:
            raise StorageUnavailable(f"the storage cannot be read any further: {self._failure}") from self._failure

    def processed(self) -> None:
        self._processed.set()

    def leave(self) -> None:
        self._left = True
        self._gate.set()
        self._processed.set()

    async def run(self, storage: Storage, foreign: list[str], *, timed: bool = False) -> None:
        """Take chunk after chunk until the consumer is left, then close it."""
        reader: RunReader | None = None
        try:
            reader = await self._in_thread(partial(RunReader, storage, foreign, timed=timed))
            while not self._left:
                await self._gate.wait()
                if self._changes:
                    await self._change(reader)
                elif not self._left:
                    await self._take(reader)
        except Exception as error:
            self._failure = error
            self._deliver(self, [])
        finally:
            if reader is not None:
                await self._in_thread(reader.close)

    async def _change(self, reader: RunReader) -> None:
        added, dropped = self._changes.pop(0)
        if added:
            await self._in_thread(reader.add, added)
            self._live |= {(topic, partition) for topic, partition, _ in added} & self.places.keys()
        if dropped:
            await self._in_thread(reader.remove, dropped)
        self.regulate()

    async def _take(self, reader: RunReader) -> None:
        runs = await self._in_thread(reader.take, POLL_FOR)
        if runs and not self._left:
            self._processed.clear()
            self._deliver(self, runs)
            await self._processed.wait()

    async def _in_thread(self, work: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work, *args)
