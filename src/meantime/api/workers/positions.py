"""Positions and lag of queues in their partitions; joins what workers and streams know."""

import asyncio
from collections.abc import Sequence

import msgspec

from meantime.errors import UNREADABLE, MeantimeError, NotFound
from meantime.streams.cursors import parse, parse_partition
from meantime.streams.reading.limits import StreamLimits
from meantime.streams.reading.partitions import shifted
from meantime.streams.reading.reader import GivenCursor, Reading
from meantime.streams.streams import Streams
from meantime.workers.inspection import QueueState
from meantime.workers.model import QueueSource
from meantime.workers.rules import last_of

LOOK_FOR = 2.0
"""Seconds to spend on finding out when the message at a cursor was written."""


async def lags(reading: Reading, states: Sequence[QueueState]) -> dict[str, int]:
    """How many messages are left to do, by queue; queues whose lag is not known are left out."""
    event_types = sorted({state.record.event_type for state in states if state.record.event_type})
    found = await asyncio.gather(*(_lags_of(reading, event_type, states) for event_type in event_types))
    return {queue: lag for part in found for queue, lag in part.items()}


async def _lags_of(reading: Reading, event_type: str, states: Sequence[QueueState]) -> dict[str, int]:
    try:
        offsets = reading.offsets(await reading.catalog.entry(event_type))
    except MeantimeError:
        return {}
    found = {}
    for state in states:
        if state.record.event_type != event_type:
            continue
        try:
            partition = parse_partition(state.record.partition, offsets.entry.event_type.partitions)
            found[state.queue] = await offsets.lag(partition, parse(state.record.cursor or "BEGIN"))
        except MeantimeError:
            continue
    return found


async def source_of(streams: Streams, state: QueueState) -> QueueSource:
    """Where the queue's messages come from; if its record cannot be read, its id still tells."""
    if state.record.event_type:
        return state.record.source
    for document in await streams.event_types.all():
        event_type = await streams.catalog.event_type(str(document["name"]))
        for partition in range(event_type.partitions):
            source = QueueSource(event_type.name, str(partition))
            if source.queue == state.queue:
                return source
    raise NotFound(f"the queue {state.queue} belongs to no event type that there is")


async def readable(reading: Reading, source: QueueSource, cursor: str) -> str:
    """The cursor in its full form, if a reader can go on after it."""
    offsets = reading.offsets(await reading.catalog.entry(source.event_type))
    partition = parse_partition(source.partition, offsets.entry.event_type.partitions)
    return str(await offsets.readable(partition, parse(cursor)))


async def last_at(reading: Reading, source: QueueSource, cursor: str) -> str:
    """The time of the message at the cursor, or nothing where there is none or it cannot be read any more."""
    limits = StreamLimits(stream_limit=1, flush_for=LOOK_FOR, timeout_for=LOOK_FOR, written_at=True)
    try:
        (before,) = await shifted(reading, source.event_type, [(GivenCursor(source.partition, cursor), -1)])
        stream = await reading.open_stream(source.event_type, [GivenCursor(source.partition, str(before.cursor))], limits)
    except MeantimeError:
        return ""
    try:
        lines = b"".join([chunk async for chunk in stream.chunks()]).splitlines()
    finally:
        stream.close()
    try:
        written = msgspec.json.decode(lines[0]).get("written_at_ms") if lines else None
    except UNREADABLE:  # what a Kafka client has put into the topic need not be JSON
        return ""
    return last_of(written[0]) if written else ""
