"""Where the timelines of an event type begin and end right now: asked of Kafka as far as a question needs it, once each."""

from collections.abc import Iterable
from dataclasses import dataclass

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


class TimelineOffsets:
    """What is known of one event type during one request."""

    def __init__(self, entry: CatalogEntry, catalog: Catalog, admins: Admins) -> None:
        self.entry = entry
        self._catalog = catalog
        self._admins = admins
        self._starts: dict[int, list[int]] = {}
        self._ends: list[int] | None = None

    async def end(self, partition: int) -> Cursor:
        return (await self._track(partition)).newest()

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

    async def state(self, partition: int, consumed: Cursor | NamedPosition | None = None) -> PartitionState:
        known = await self.with_oldest(partition)
        unconsumed = None if consumed is None else await self.lag(partition, consumed)
        return PartitionState(partition, known.oldest(), known.newest(), unconsumed)

    async def states(self, partitions: Iterable[int]) -> list[PartitionState]:
        return [await self.state(partition) for partition in partitions]

    async def _track(self, partition: int) -> PartitionTimelines:
        if self._ends is None:
            active = self.entry.active
            self._ends = await self._admin(active).end_offsets(active.topic, active.partitions)
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
            self._starts[order] = await self._admin(timeline).start_offsets(timeline.topic, timeline.partitions)
        except NotFound:
            if timeline.latest_offsets is None:
                raise
            self._starts[order] = [last + 1 for last in timeline.latest_offsets]

    def _admin(self, timeline: Timeline) -> Admin:
        return self._admins.of(self._catalog.storage(timeline.storage_id))
