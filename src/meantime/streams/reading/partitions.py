"""Questions about an event type's partitions: where they begin and end, and how far apart places in them are."""

from collections.abc import Sequence
from dataclasses import dataclass

from meantime.errors import BadCursor, NotFound
from meantime.streams.cursors import Cursor, NamedPosition, PartitionTimelines, parse, parse_partition, partition_timelines
from meantime.streams.reading.offsets import PartitionState, TimelineOffsets
from meantime.streams.reading.reader import GivenCursor, Reading


@dataclass(frozen=True, slots=True)
class ShiftedCursor:
    partition: str
    cursor: Cursor


async def partition_states(
    reading: Reading, name: str, consumed: Sequence[GivenCursor] = (), written_from_ms: int | None = None
) -> list[PartitionState]:
    """All partitions; those named in `consumed` also with what is left to read after it."""
    offsets = reading.offsets(await reading.catalog.entry(name))
    places = dict(_parsed(offsets, given) for given in consumed)
    return [await offsets.state(p, places.get(p), written_from_ms) for p in range(offsets.entry.event_type.partitions)]


async def partition_state(reading: Reading, name: str, partition: str, consumed: str | None = None) -> PartitionState:
    offsets = reading.offsets(await reading.catalog.entry(name))
    try:
        number = parse_partition(partition, offsets.entry.event_type.partitions)
    except BadCursor as unknown:
        raise NotFound(f"event type {name!r}: {unknown.detail}") from None
    return await offsets.state(number, None if consumed is None else parse(consumed))


async def lags(reading: Reading, name: str, cursors: Sequence[GivenCursor]) -> list[PartitionState]:
    offsets = reading.offsets(await reading.catalog.entry(name))
    return [await offsets.state(*_parsed(offsets, given)) for given in cursors]


async def distances(reading: Reading, name: str, pairs: Sequence[tuple[GivenCursor, GivenCursor]]) -> list[int]:
    offsets = reading.offsets(await reading.catalog.entry(name))
    return [await _distance(offsets, *pair) for pair in pairs]


async def shifted(reading: Reading, name: str, shifts: Sequence[tuple[GivenCursor, int]]) -> list[ShiftedCursor]:
    offsets = reading.offsets(await reading.catalog.entry(name))
    return [await _shifted(offsets, *shift) for shift in shifts]


async def _distance(offsets: TimelineOffsets, initial: GivenCursor, final: GivenCursor) -> int:
    (partition, first), (other, second) = _parsed(offsets, initial), _parsed(offsets, final)
    if partition != other:
        raise BadCursor("different_partitions", f"{initial.partition!r} and {final.partition!r} are different partitions")
    known = await _track(offsets, partition, first, second)
    return known.distance(known.resolved(first), known.resolved(second))


async def _shifted(offsets: TimelineOffsets, given: GivenCursor, by: int) -> ShiftedCursor:
    partition, place = _parsed(offsets, given)
    known = await _track(offsets, partition, place)
    return ShiftedCursor(str(partition), known.shifted(known.resolved(place), by))


async def _track(offsets: TimelineOffsets, partition: int, *places: Cursor | NamedPosition) -> PartitionTimelines:
    """Kafka is asked only where a place is named and not counted."""
    if any(isinstance(place, NamedPosition) for place in places):
        return await offsets.with_oldest(partition)
    return partition_timelines(offsets.entry.timelines, partition)


def _parsed(offsets: TimelineOffsets, given: GivenCursor) -> tuple[int, Cursor | NamedPosition]:
    partition = parse_partition(given.partition or "", offsets.entry.event_type.partitions)
    return partition, parse(given.offset or "")
