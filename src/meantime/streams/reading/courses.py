"""The way of an event type's partitions along its timelines, as one stream knows it."""

import asyncio

from meantime.streams.catalog.catalog import Entry
from meantime.streams.cursors import last_offset
from meantime.streams.model import Timeline
from meantime.streams.reading.shared_consumer import Feed, Key

AHEAD = 3
"""How many further timelines have their consumers opened before anybody gets there."""


class Course:
    """An event type's timelines as they are known now, and the partitions that walk along them."""

    def __init__(self, entry: Entry) -> None:
        self.feeds: dict[Key, Feed] = {}
        self.watch: asyncio.Task[None] | None = None
        self.learn(entry)

    def learn(self, entry: Entry) -> None:
        self.entry = entry
        self._by_order = {timeline.order: timeline for timeline in entry.timelines}

    @property
    def first_order(self) -> int:
        return self.entry.timelines[0].order

    def timeline(self, order: int) -> Timeline:
        return self._by_order[order]

    def last(self, feed: Feed) -> int | None:
        """Where the timeline that the feed is in ends; None while it is active."""
        return last_offset(self._by_order[feed.order], feed.key[1])

    def ahead(self, feed: Feed) -> list[Timeline]:
        """The timeline that the feed is in, and what lies before it; empty stretches are stepped over."""
        partition = feed.key[1]
        current = self.timeline(feed.order)
        further = [
            timeline
            for timeline in self.entry.timelines
            if timeline.order > feed.order and not timeline.deleted and last_offset(timeline, partition) != -1
        ]
        return [current, *further[:AHEAD]]

    def is_same(self, entry: Entry) -> bool:
        """Whether it is still that event type and not another one of the same name."""
        return entry.event_type.created_at_ms == self.entry.event_type.created_at_ms
