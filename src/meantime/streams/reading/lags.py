"""How many events lie after many places at once: two questions to each storage, however many event types there are.

Only a place in a timeline that was left, with events after it there, is asked for by itself.
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from typing import TypeVar

from meantime.errors import BadCursor, NotFound
from meantime.kafka.admin import Admins
from meantime.streams.catalog.catalog import Catalog, CatalogEntry
from meantime.streams.cursors import Cursor, NamedPosition, partition_timelines
from meantime.streams.model import PartitionKey, Timeline
from meantime.streams.reading.offsets import OffsetLookups, TimelineOffsets

AT_ONCE = 500
"""So many are counted before others have their turn."""

Name = TypeVar("Name")
Place = tuple[PartitionKey, Cursor | NamedPosition]
Ends = dict[tuple[str, str, int], tuple[int, int]]
"""Where a partition of a topic of a storage begins and ends."""


class Lags:
    def __init__(self, catalog: Catalog, admins: Admins, lookups: OffsetLookups) -> None:
        self._catalog = catalog
        self._admins = admins
        self._lookups = lookups

    async def of(self, places: Mapping[Name, Place]) -> dict[Name, int]:
        """Those that are not known at the moment are left out."""
        entries = await self._entries({event_type for (event_type, _), _ in places.values()})
        ends = await self._ends([entry.active for entry in entries.values()])
        found: dict[Name, int] = {}
        for number, (name, ((event_type, partition), place)) in enumerate(places.items()):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            if (entry := entries.get(event_type)) is None:
                continue
            edges = ends.get((entry.active.storage_id, entry.active.topic, partition))
            if edges is None:
                continue
            found[name] = await self._lag(entry, partition, place, edges)
        return found

    async def _entries(self, names: set[str]) -> dict[str, CatalogEntry]:
        found = {}
        for name in names:
            try:
                found[name] = await self._catalog.entry(name)
            except NotFound:
                continue
        return found

    async def _ends(self, timelines: list[Timeline]) -> Ends:
        by_storage: dict[str, dict[str, int]] = defaultdict(dict)
        for timeline in timelines:
            by_storage[timeline.storage_id][timeline.topic] = timeline.partitions
        found: Ends = {}
        for storage_id, topics in by_storage.items():
            admin = self._admins.of(self._catalog.storage(storage_id))
            first = await admin.offsets_of(topics, latest=False)
            last = await admin.offsets_of(topics, latest=True)
            found |= {(storage_id, *place): (first[place], last[place]) for place in first.keys() & last.keys()}
        return found

    async def _lag(self, entry: CatalogEntry, partition: int, place: Cursor | NamedPosition, edges: tuple[int, int]) -> int:
        if place is NamedPosition.END:
            return 0
        first, end = edges
        offset = _in_active(entry, partition, place)
        if offset is not None:
            return max(0, end - max(offset + 1, first))
        offsets = TimelineOffsets(entry, self._lookups)
        try:
            return await offsets.lag(partition, place)
        except BadCursor:
            return await offsets.lag(partition, NamedPosition.BEGIN)


def _in_active(entry: CatalogEntry, partition: int, place: Cursor | NamedPosition) -> int | None:
    """The offset in the active timeline that the place is at; None when it is, or may be, in another one."""
    if isinstance(place, NamedPosition):
        return -1 if all(timeline.deleted for timeline in entry.timelines[:-1]) else None
    try:
        settled = partition_timelines(entry.timelines, partition).settled(place)
    except BadCursor:
        return None
    return settled.offset if settled.order == entry.active.order else None
