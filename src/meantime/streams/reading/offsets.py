"""Where the timelines of an event type begin and end right now: asked of Kafka as far as a question needs it, once each, and
once for all who want to know the same at the same time."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

from meantime.errors import NotFound
from meantime.kafka.admin import Admin, Admins
from meantime.streams.catalog.catalog import Catalog, CatalogEntry
from meantime.streams.cursors import Cursor, NamedPosition, PartitionTimelines, last_offset, partition_timelines
from meantime.streams.model import Timeline


@dataclass(frozen=True, slots=True)
class PartitionState:
    partition: int
    oldest: Cursor
    newest: Cursor
    unconsumed: int | None = None
    start_after: Cursor | None = None


class OffsetLookups:
    """The questions of a node. An answer is never older than its question: who asks while one is on its way shares the
    next."""

    def __init__(self, catalog: Catalog, admins: Admins) -> None:
        self._catalog = catalog
        self._admins = admins
        self._asked: dict[tuple[str, str, str], asyncio.Task[list[int]]] = {}
        self._next: dict[tuple[str, str, str], asyncio.Task[list[int]]] = {}

    async def starts(self, timeline: Timeline) -> list[int]:
        return await self._ask("starts", timeline, self._admin(timeline).start_offsets)

    async def ends(self, timeline: Timeline) -> list[int]:
        return await self._ask("ends", timeline, self._admin(timeline).end_offsets)

    async def written_from(self, timeline: Timeline, at_ms: int) -> list[int]:
        """The first offset of each partition that was written then or later; -1 where there is none."""
        ask = partial(self._admin(timeline).offsets_from, written_from_ms=at_ms)
        return await self._ask(f"written from {at_ms}", timeline, ask)

    async def _ask(
        self, what: str, timeline: Timeline, ask: Callable[[str, int], Coroutine[Any, Any, list[int]]]
    ) -> list[int]:
        key = (what, timeline.storage_id, timeline.topic)
        task = self._next.get(key)
        if task is None:
            asking = self._ask_after(self._asked.get(key), key, partial(ask, timeline.topic, timeline.partitions))
            task = self._next[key] = asyncio.create_task(asking, name=f"{what} of {timeline.topic}")
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _ask_after(
        self,
        before: "asyncio.Task[list[int]] | None",
        key: tuple[str, str, str],
        ask: Callable[[], Coroutine[Any, Any, list[int]]],
    ) -> list[int]:
        if before is not None:
            await asyncio.wait([before])
        task = self._asked[key] = self._next.pop(key)
        try:
            return await ask()
        finally:
            if self._asked.get(key) is task:
                del self._asked[key]

    def _admin(self, timeline: Timeline) -> Admin:
        return self._admins.of(self._catalog.storage(timeline.storage_id))


class TimelineOffsets:
    """What is known of one event type during one request."""

    def __init__(self, entry: CatalogEntry, lookups: OffsetLookups) -> None:
        self.entry = entry
        self._lookups = lookups
        self._starts: dict[int, list[int]] = {}
        self._ends: list[int] | None = None
        self._written_from: dict[tuple[int, int], list[int]] = {}

    async def end(self, partition: int) -> Cursor:
        return (await self._track(partition)).newest()

    def at_end(self, partition: int, cursor: Cursor) -> bool:
        """Whether nothing came after the cursor, as far as has been asked."""
        if self._ends is None or partition >= len(self._ends):
            return False
        return cursor == Cursor(self.entry.active.order, self._ends[partition] - 1)

    async def readable(self, partition: int, place: Cursor | NamedPosition) -> Cursor:
        """The settled place from which a reader can start; BadCursor where that would lose or skip something."""
        if isinstance(place, NamedPosition):
            known = await self.with_oldest(partition) if place is NamedPosition.BEGIN else await self._track(partition)
            return known.settled(known.resolved(place))
        known = await self._track(partition)
        await self._look_up_start(known.settled(place).order)
        return (await self._track(partition)).readable(place)

    async def lag(self, partition: int, place: Cursor | NamedPosition) -> int:
        start = await self.readable(partition, place)
        return (await self._track(partition)).lag(start)

    async def written_from(self, partition: int, at_ms: int) -> Cursor:
        """The place before the first event that was written then or later; the end where there is none."""
        for timeline in self.entry.timelines:
            last = last_offset(timeline, partition)
            if timeline.deleted or last == -1:
                continue
            key = timeline.order, at_ms
            if key not in self._written_from:
                self._written_from[key] = await self._lookups.written_from(timeline, at_ms)
            offsets = self._written_from[key]
            found = offsets[partition] if partition < len(offsets) else -1
            if found >= 0 and (last is None or found <= last):
                return await self.readable(partition, Cursor(timeline.order, found - 1))
        return await self.end(partition)

    async def with_oldest(self, partition: int) -> PartitionTimelines:
        """The timelines of a partition, with its oldest available event known."""
        for timeline in self.entry.timelines:
            if timeline.deleted or last_offset(timeline, partition) == -1:
                continue
            await self._look_up_start(timeline.order)
            known = await self._track(partition)
            if known.oldest().order <= timeline.order:
                return known
        return await self._track(partition)

    async def state(
        self, partition: int, consumed: Cursor | NamedPosition | None = None, written_from_ms: int | None = None
    ) -> PartitionState:
        """With what is left to read after `consumed`, or of what was written from an instant on."""
        known = await self.with_oldest(partition)
        start = None if written_from_ms is None else await self.written_from(partition, written_from_ms)
        after = consumed if consumed is not None else start
        unconsumed = None if after is None else await self.lag(partition, after)
        return PartitionState(partition, known.oldest(), known.newest(), unconsumed, start)

    async def states(self, partitions: Iterable[int]) -> list[PartitionState]:
        return [await self.state(partition) for partition in partitions]

    async def _track(self, partition: int) -> PartitionTimelines:
        if self._ends is None:
            self._ends = await self._lookups.ends(self.entry.active)
        lows = {order: starts[partition] for order, starts in self._starts.items() if partition < len(starts)}
        high = self._ends[partition] if partition < len(self._ends) else 0
        return partition_timelines(self.entry.timelines, partition, lows=lows, high=high)

    async def _look_up_start(self, order: int) -> None:
        if order in self._starts:
            return
        timeline = next(timeline for timeline in self.entry.timelines if timeline.order == order)
        if timeline.deleted:
            return
        try:
            self._starts[order] = await self._lookups.starts(timeline)
        except NotFound:
            if timeline.latest_offsets is None:
                raise
            self._starts[order] = [last + 1 for last in timeline.latest_offsets]
