"""Ranges of offsets: what lies between two places of an event type, cut at the borders of its timelines and into tasks.

Pure. A range never crosses a timeline, and nothing beyond the end of a closed timeline is in any.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from meantime.errors import BadCursor
from meantime.pipelines.event_types.layout import Cursors, EventTypeLayout
from meantime.streams.cursors import Cursor, last_offset

LEAST_PER_TASK = 20_000


@dataclass(frozen=True, slots=True)
class Range:
    """Records `first` to `end - 1` of a partition of the topic of one timeline."""

    storage_id: str
    topic: str
    order: int
    partition: int
    first: int
    end: int

    @property
    def count(self) -> int:
        return self.end - self.first


def between(layout: EventTypeLayout, start: Cursors, stop: Cursors) -> list[Range]:
    """Everything after `start` up to and with `stop`, partition by partition."""
    return [found for partition in stop for found in _of_partition(layout, partition, start[partition], stop[partition])]


def _of_partition(layout: EventTypeLayout, partition: str, start: Cursor, stop: Cursor) -> Iterable[Range]:
    track = layout.track(partition)
    begin, final = track.index_of(start.order), track.index_of(stop.order)
    for index in range(begin, final + 1):
        timeline = layout.timelines[index]
        first = start.offset + 1 if index == begin else 0
        last = stop.offset if index == final else last_offset(timeline, int(partition))
        if last is None or first > last:
            continue
        if timeline.deleted:
            raise BadCursor("expired", f"timeline {timeline.order} of {layout.event_type!r} has been cleaned up")
        yield Range(timeline.storage_id, timeline.topic, timeline.order, int(partition), first, last + 1)


def lags(layout: EventTypeLayout, start: Cursors) -> dict[str, int]:
    """How much there is to read after `start`, by partition."""
    return {
        partition: max(0, layout.track(partition).distance(start[partition], newest))
        for partition, newest in layout.newest.items()
    }


def advanced(layout: EventTypeLayout, start: Cursors, most: int | None) -> dict[str, Cursor]:
    """Where a batch of at most so many events ends; every partition gets its share of them."""
    waiting = lags(layout, start)
    if most is None or sum(waiting.values()) <= most:
        steps: Mapping[str, int] = waiting
    else:
        steps = shares(waiting, most)
    return {name: layout.track(name).shifted(start[name], step) if step else start[name] for name, step in steps.items()}


def shares(waiting: Mapping[str, int], most: int) -> dict[str, int]:
    """`most` divided in proportion to what waits; at least one for the longest, so that a batch always moves on."""
    total = sum(waiting.values())
    found = {name: count * most // total for name, count in waiting.items()}
    if not any(found.values()):
        found[max(waiting, key=lambda name: waiting[name])] = 1
    return found


def tasks(ranges: Sequence[Range], parallelism: int) -> list[tuple[Range, ...]]:
    """Ranges put together for tasks of about equal size, each of one storage."""
    total = sum(one.count for one in ranges)
    size = max(LEAST_PER_TASK, -(-total // parallelism))
    found: list[list[Range]] = []
    room = 0
    for piece in sorted(ranges, key=lambda one: (one.storage_id, one.partition, one.order)):
        left = piece
        while left.count:
            if room == 0 or found[-1][0].storage_id != left.storage_id:
                found.append([])
                room = size
            taken = min(room, left.count)
            found[-1].append(replace(left, end=left.first + taken))
            left = replace(left, first=left.first + taken)
            room -= taken
    return [tuple(task) for task in found]
