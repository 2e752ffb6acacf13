"""Reading with cursors that the client keeps: open streams, each over any number of timelines on one connection.

A stream ends by its own limits, when its event type is deleted, or when the reader was so slow that what it would read next
has expired; the next request is then told where it can go on. A stream that nobody reads costs nobody anything: it takes no
more than its bounded buffers.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client import Gauge

from meantime.errors import BadCursor, CursorsUnavailable, Unavailable
from meantime.kafka.admin import Admins
from meantime.kafka.consumer import written_at_ms
from meantime.metrics import REGISTRY, NamedCounter
from meantime.streams.catalog.catalog import Catalog, CatalogEntry
from meantime.streams.cursors import Cursor, parse, parse_partition
from meantime.streams.model import PartitionKey, Timeline
from meantime.streams.reading.batching import StreamBatcher
from meantime.streams.reading.consumer_slots import ConsumerSlots
from meantime.streams.reading.event_source import EventSource, NodeReading, Received
from meantime.streams.reading.lags import Lags
from meantime.streams.reading.limits import StreamLimits
from meantime.streams.reading.offsets import OffsetLookups, TimelineOffsets
from meantime.streams.reading.tail import Tails
from meantime.streams.reading.timeline_watch import TimelineWatches
from meantime.tasks import TaskSet

log = structlog.get_logger(__name__)

OPEN_STREAMS = Gauge("meantime_streams_open", "Event streams open on this node.", registry=REGISTRY)
STREAMED = NamedCounter("meantime_events_streamed_total", "Events sent to readers.", "event_type")
REGISTRY.register(STREAMED)

MOST_CONSUMERS = 256
"""Kafka consumers of streams that are behind; when there are more such streams, they take turns."""

MOST_STREAMS = 4096
CLOSE_WITHIN = 5.0
GRACE_FOR = 15.0
"""How long after its timeout a client has to read the rest of its stream."""


@dataclass(frozen=True, slots=True)
class GivenCursor:
    """A place as a client said it; None where it said nothing."""

    partition: str | None
    offset: str | None


class Reading:
    """What the open streams of a node share: the catalog, the threads that wait for Kafka, the tails of its storages, and a
    limit on their number."""

    def __init__(
        self, catalog: Catalog, admins: Admins, threads: ThreadPoolExecutor, max_streams: int, max_consumers: int
    ) -> None:
        self.catalog = catalog
        self._lookups = OffsetLookups(catalog, admins)
        self.lags = Lags(catalog, admins, self._lookups)
        self._threads = threads
        self._max_streams = max_streams
        self._open = 0
        self._tasks = TaskSet()
        self._node = NodeReading(
            catalog,
            threads,
            self._tasks,
            ConsumerSlots(max_consumers),
            Tails(threads, self._tasks),
            TimelineWatches(catalog),
        )

    async def open_stream(self, name: str, cursors: Sequence[GivenCursor], limits: StreamLimits) -> "EventStream":
        """A stream from these cursors on; without any, from the end of every partition."""
        begin, offsets = await self._starts(await self.catalog.entry(name), cursors)
        starts = {(name, partition): cursor for partition, cursor in begin.items()}
        self.enter()
        try:
            source = self.source(timed=limits.written_at)
            await source.add(starts, {key for key, cursor in starts.items() if offsets.at_end(key[1], cursor)})
        except BaseException:
            self.leave()
            raise
        return EventStream(self, name, source, StreamBatcher(starts, limits, _now()), limits)

    def offsets(self, entry: CatalogEntry) -> TimelineOffsets:
        return TimelineOffsets(entry, self._lookups)

    def source(self, *, timed: bool = False) -> EventSource:
        """With `timed`, every value knows when it was written."""
        return EventSource(self._node, timed=timed)

    async def written_at_ms(self, places: Mapping[PartitionKey, tuple[Timeline, int, int]]) -> dict[PartitionKey, int]:
        """When the events at these places (timeline, partition, offset) were written, as far as Kafka says it in time."""
        found: dict[PartitionKey, int] = {}
        for storage_id in {timeline.storage_id for timeline, _, _ in places.values()}:
            here = {key: place for key, place in places.items() if place[0].storage_id == storage_id}
            wanted = [(timeline.topic, partition, offset) for timeline, partition, offset in here.values()]
            storage = self.catalog.storage(storage_id)
            written = await asyncio.get_running_loop().run_in_executor(self._threads, written_at_ms, storage, wanted)
            for key, (timeline, partition, _) in here.items():
                if (timeline.topic, partition) in written:
                    found[key] = written[timeline.topic, partition]
        return found

    def enter(self) -> None:
        """Count one more stream, if there is room for it."""
        if self._open >= self._max_streams:
            raise Unavailable(f"this node has {self._max_streams} streams open, which is all that it may", retry_after=5)
        self._open += 1
        OPEN_STREAMS.inc()

    def leave(self) -> None:
        self._open -= 1
        OPEN_STREAMS.dec()

    async def finish(self) -> None:
        """Wait for the consumers of ended streams, and the tails, to be closed."""
        self._node.tails.stop()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_WITHIN):
                await self._tasks.finished()

    async def _starts(
        self, entry: CatalogEntry, cursors: Sequence[GivenCursor]
    ) -> tuple[dict[int, Cursor], TimelineOffsets]:
        offsets = self.offsets(entry)
        try:
            return await starts(offsets, cursors), offsets
        except CursorsUnavailable:
            # Another node may have shown a timeline that this one has not heard of yet.
            fresh = await self.catalog.reload(entry.event_type.name)
            if fresh.timelines == entry.timelines:
                raise
            offsets = self.offsets(fresh)
            return await starts(offsets, cursors), offsets


class EventStream:
    """One open stream. `chunks` is iterated once; `close` must be called whatever happens."""

    def __init__(
        self, reading: Reading, name: str, source: EventSource, batcher: StreamBatcher, limits: StreamLimits
    ) -> None:
        self._reading = reading
        self._source = source
        self._batcher = batcher
        self._ends_at = _now() + limits.timeout_for
        self._cut_for = limits.timeout_for + GRACE_FOR
        self._name = name
        self._closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        """Whole lines, some at a time."""
        while True:
            now = _now()
            if lines := self._batcher.lines(now):
                yield b"".join(lines)
            if self._batcher.finished or now >= self._ends_at:
                break
            received = await self._source.next(min(self._batcher.due_at(now), self._ends_at) - now)
            self._add(received)
            if received.gone or received.lost:
                log.info("stream_ended", deleted=received.gone, expired=[partition for _, partition in received.lost])
                break
        yield b"".join(self._batcher.rest(_now()))

    async def cut(self) -> None:
        """The end of a stream whose client does not read."""
        await asyncio.sleep(self._cut_for)

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._source.close()
            self._reading.leave()

    def _add(self, received: Received) -> None:
        now = _now()
        for chunk in received.chunks:
            self._batcher.add(chunk.key, chunk.order, chunk.first, chunk.values, now)
            STREAMED.add(self._name, len(chunk.values))


async def starts(offsets: TimelineOffsets, cursors: Sequence[GivenCursor]) -> dict[int, Cursor]:
    """Where each partition begins; every cursor that cannot be used is named in one error."""
    if not cursors:
        return {partition: await offsets.end(partition) for partition in range(offsets.entry.event_type.partitions)}
    found: dict[int, Cursor] = {}
    refused: list[dict[str, Any]] = []
    for given in cursors:
        try:
            partition = parse_partition(given.partition or "", offsets.entry.event_type.partitions)
            if partition in found:
                raise BadCursor("repeated", f"partition {given.partition!r} is named twice")
            found[partition] = await offsets.readable(partition, parse(given.offset or ""))
        except BadCursor as bad:
            refused.append(await _refusal(offsets, given, bad))
    if refused:
        raise CursorsUnavailable("; ".join(refusal["detail"] for refusal in refused[:5]), cursors=refused)
    return found


async def _refusal(offsets: TimelineOffsets, given: GivenCursor, bad: BadCursor) -> dict[str, Any]:
    oldest, restart_from = None, None
    if bad.reason != "unknown_partition":
        known = await offsets.with_oldest(int(given.partition or 0))
        oldest, restart_from = str(known.oldest()), str(known.restart_from())
    return {
        "partition": given.partition,
        "offset": given.offset,
        "reason": bad.reason,
        "detail": bad.detail,
        "oldest_available_offset": oldest,
        "restart_from": restart_from,
    }


def _now() -> float:
    return asyncio.get_running_loop().time()


@asynccontextmanager
async def open_reading(
    catalog: Catalog, admins: Admins, *, max_streams: int = MOST_STREAMS, max_consumers: int = MOST_CONSUMERS
) -> AsyncIterator[Reading]:
    """Everything a node needs to serve streams. `max_streams` counts low-level streams and subscriptions together. A
    consumer needs a thread while it waits for Kafka, a stream that follows the tail needs none."""
    with ThreadPoolExecutor(max_workers=max_consumers + 64, thread_name_prefix="reading") as threads:
        reading = Reading(catalog, admins, threads, max_streams, max_consumers)
        try:
            yield reading
        finally:
            await reading.finish()
