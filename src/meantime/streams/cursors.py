"""Cursors: places in one partition of an event type, and the arithmetic of places over its timelines.

A cursor names the last event that was taken: `001-<order, 4 hex digits>-<offset, 18 digits>`, with offset `-1` before the
first event of a timeline. A fake timeline (order 0) writes its offset alone; order 0 always means the oldest timeline, so
such cursors stay valid when it becomes real. Nothing lies between the last event of a closed timeline and the place before
the first event of the next one: both are the same place, over any number of empty timelines. All of this is pure; a
`PartitionTimelines` is what a partition's timelines look like at one moment.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from meantime.errors import BadCursor
from meantime.streams.model import Timeline

BEFORE_FIRST: Final = -1

_VERSIONED = re.compile(r"001-([0-9a-fA-F]{4})-(-1|[0-9]{1,18})")
_PLAIN = re.compile(r"-1|[0-9]{1,18}")
_PARTITION = re.compile(r"0|[1-9][0-9]{0,5}")


class NamedPosition(Enum):
    """Places that have a name instead of an offset."""

    BEGIN = "begin"
    END = "end"


@dataclass(frozen=True, slots=True, order=True)
class Cursor:
    order: int
    offset: int

    def __str__(self) -> str:
        offset = "-1" if self.offset < 0 else f"{self.offset:018d}"
        return offset if self.order == 0 else f"001-{self.order:04x}-{offset}"


def parse(text: str) -> Cursor | NamedPosition:
    if versioned := _VERSIONED.fullmatch(text):
        return Cursor(int(versioned[1], 16), int(versioned[2]))
    if _PLAIN.fullmatch(text):
        return Cursor(0, int(text))
    if text.lower() in ("begin", "end"):
        return NamedPosition(text.lower())
    raise BadCursor("malformed", f"{text[:80]!r} is not an offset: use one that a batch or a partition showed, or BEGIN")


def parse_partition(text: str, partitions: int) -> int:
    if not _PARTITION.fullmatch(text) or int(text) >= partitions:
        raise BadCursor("unknown_partition", f"there is no partition {text[:80]!r}: they are '0' to '{partitions - 1}'")
    return int(text)


@dataclass(frozen=True, slots=True)
class TimelineRange:
    """One timeline as one partition has it. `first` is the oldest offset that can still be read; `last` is where a closed
    timeline ends, or the newest event of the active one, None where that is not known."""

    order: int
    last: int | None
    first: int = 0
    active: bool = False
    deleted: bool = False

    @property
    def readable(self) -> bool:
        return not self.deleted and (self.last is None or self.first <= self.last)


@dataclass(frozen=True, slots=True)
class PartitionTimelines:
    """A partition's stretches, oldest first; the last one is active."""

    stretches: tuple[TimelineRange, ...]

    def settled(self, cursor: Cursor) -> Cursor:
        """The same place, said with the newest timeline that it touches. Cursors compare when they are settled."""
        index, offset = self._settle(cursor)
        return Cursor(self.stretches[index].order, offset)

    def distance(self, initial: Cursor, final: Cursor) -> int:
        """How many events lie after `initial` up to and with `final`; negative backwards."""
        return self._position(final) - self._position(initial)

    def shifted(self, cursor: Cursor, by: int) -> Cursor:
        """The place so many events further on; backwards it keeps to its timeline as long as it can."""
        index, offset = self._known(cursor)
        offset += by
        while offset < BEFORE_FIRST:
            index, offset = self._step_back(index, offset)
        while (end := self._end(index)) is not None and offset > end:
            index, offset = index + 1, offset - end - 1
        return Cursor(self.stretches[index].order, offset)

    def readable(self, cursor: Cursor) -> Cursor:
        """The settled place, if every event after it can still be read."""
        index, offset = self._settle(cursor)
        stretch = self.stretches[index]
        if stretch.active and stretch.last is not None and offset > stretch.last:
            raise BadCursor("beyond_end", f"{cursor} lies beyond the end, which is {self.newest()}")
        if stretch.deleted or offset + 1 < stretch.first:
            raise BadCursor("expired", f"what follows {cursor} has expired; the oldest available is {self.oldest()}")
        return Cursor(stretch.order, offset)

    def lag(self, cursor: Cursor) -> int:
        """How many events after `cursor` there are to read."""
        return self.distance(self.readable(cursor), self.newest())

    def oldest(self) -> Cursor:
        """The first event that can still be read; where there is none, the next one that will be written."""
        for stretch in self.stretches:
            if stretch.readable:
                return Cursor(stretch.order, stretch.first)
        return Cursor(self.stretches[-1].order, self.stretches[-1].first)

    def restart_from(self) -> Cursor:
        """The exclusive cursor from which nothing that can still be read is lost."""
        oldest = self.oldest()
        return Cursor(oldest.order, oldest.offset - 1)

    def newest(self) -> Cursor:
        """The last event of the active timeline, or the place before its first."""
        active = self.stretches[-1]
        if active.last is None:
            raise ValueError("the end of the active timeline was not looked up")
        return Cursor(active.order, active.last)

    def resolved(self, place: Cursor | NamedPosition) -> Cursor:
        """A named place as a cursor."""
        if isinstance(place, Cursor):
            return place
        return self.restart_from() if place is NamedPosition.BEGIN else self.newest()

    def index_of(self, order: int) -> int:
        if order == 0:
            return 0
        for index, stretch in enumerate(self.stretches):
            if stretch.order == order:
                return index
        raise BadCursor("unknown_timeline", f"this event type has no timeline {order}: its newest is {self.newest_order}")

    @property
    def newest_order(self) -> int:
        return self.stretches[-1].order

    def _end(self, index: int) -> int | None:
        """Where the stretch ends for good; None while it is active."""
        stretch = self.stretches[index]
        return None if stretch.active else stretch.last

    def _known(self, cursor: Cursor) -> tuple[int, int]:
        """Where the cursor is, as it says it; settled if that timeline is gone."""
        index = self.index_of(cursor.order)
        end = self._end(index)
        if end is not None and cursor.offset > end:
            raise BadCursor("beyond_end", f"{cursor} lies beyond the end of its timeline, which is {end}")
        if not self.stretches[index].deleted:
            return index, cursor.offset
        index, offset = self._settle(cursor)
        if self.stretches[index].deleted:
            raise BadCursor("expired", f"the timeline of {cursor} has expired")
        return index, offset

    def _settle(self, cursor: Cursor) -> tuple[int, int]:
        index, offset = self.index_of(cursor.order), cursor.offset
        end = self._end(index)
        if end is not None and offset > end:
            raise BadCursor("beyond_end", f"{cursor} lies beyond the end of its timeline, which is {end}")
        while self._end(index) == offset:
            index, offset = index + 1, BEFORE_FIRST
        return index, offset

    def _position(self, cursor: Cursor) -> int:
        """The number of events ever written up to and with the cursor."""
        index, offset = self._known(cursor)
        return sum((stretch.last or 0) + 1 for stretch in self.stretches[:index]) + offset + 1

    def _step_back(self, index: int, offset: int) -> tuple[int, int]:
        if index == 0 or self.stretches[index - 1].deleted:
            raise BadCursor("before_beginning", "the shift leads to before the beginning")
        return index - 1, (self.stretches[index - 1].last or 0) + offset + 1


def partition_timelines(
    timelines: Sequence[Timeline], partition: int, *, lows: dict[int, int] | None = None, high: int | None = None
) -> PartitionTimelines:
    """The timelines as one partition has them. `lows` are the oldest available offsets by order where they are known, `high`
    is the offset that the next event of the active timeline will get."""
    lows = lows or {}
    return PartitionTimelines(
        tuple(
            TimelineRange(
                order=timeline.order,
                last=last_offset(timeline, partition) if timeline.closed else (None if high is None else high - 1),
                first=lows.get(timeline.order, 0),
                active=not timeline.closed,
                deleted=timeline.deleted,
            )
            for timeline in timelines
        )
    )


def last_offset(timeline: Timeline, partition: int) -> int | None:
    """Where a closed timeline ends; a partition that it did not have is empty there."""
    if timeline.latest_offsets is None:
        return None
    return timeline.latest_offsets[partition] if partition < len(timeline.latest_offsets) else BEFORE_FIRST
