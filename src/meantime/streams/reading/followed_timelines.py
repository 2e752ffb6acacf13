"""The timelines of an event type as a stream knows them, and how far each of its partitions has come along them."""

from meantime.streams.catalog.catalog import CatalogEntry
from meantime.streams.cursors import Cursor, last_offset, partition_timelines
from meantime.streams.model import PartitionKey, Timeline
from meantime.streams.reading.shared_consumer import PartitionProgress

AHEAD = 3
"""How many further timelines have their consumers opened before anybody gets there."""


class FollowedTimelines:
    """An event type's timelines as they are known now, and how far each partition has been read along them."""

    def __init__(self, entry: CatalogEntry) -> None:
        self.partitions: dict[PartitionKey, PartitionProgress] = {}
        self.learn(entry)

    def learn(self, entry: CatalogEntry) -> None:
        self.entry = entry
        self._by_order = {timeline.order: timeline for timeline in entry.timelines}

    @property
    def first_order(self) -> int:
        return self.entry.timelines[0].order

    def is_foreign(self, timeline: Timeline) -> bool:
        """Whether others have written its topic, in whatever form."""
        return timeline.topic == self.entry.event_type.adopt_topic

    def timeline(self, order: int) -> Timeline:
        return self._by_order[order]

    def last(self, progress: PartitionProgress) -> int | None:
        """Where the timeline that the partition is in ends; None while it is active."""
        return last_offset(self._by_order[progress.order], progress.key[1])

    def cross_borders(self, progress: PartitionProgress) -> bool:
        """Step over the borders that have been reached; whether there was one."""
        last = self.last(progress)
        reached = progress.reached if last is None else min(progress.reached, last)
        settled = partition_timelines(self.entry.timelines, progress.key[1]).settled(Cursor(progress.order, reached))
        crossed = settled.order != progress.order
        progress.order, progress.reached = settled.order, settled.offset
        return crossed

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
