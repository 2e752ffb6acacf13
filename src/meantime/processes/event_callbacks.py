"""Callbacks into event types: the one place where timers and streams meet.

An event is published through the active timeline of its event type, by the same publisher and behind the same gate as any
other. It takes no part in the dispatcher's transaction: its topic may be in another cluster, and transactions take offsets,
which belong to events alone. So that it is published once all the same, the attempt is written down first, in a transaction
that Kafka refuses to a dispatcher that has been replaced. Whoever finds an attempt without an end looks into the timelines
whether the event is there. Under category `undefined` it is recognised by its bytes, else by its token.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import structlog

from meantime.clock import Clock
from meantime.coordination.session import Session
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.errors import UNREADABLE, Malformed, NotFound
from meantime.json_depth import MOST_DEEP, is_shallow
from meantime.kafka.consumer import values_since
from meantime.streams.catalog.catalog import Catalog, CatalogEntry
from meantime.streams.model import UNDEFINED
from meantime.streams.publishing.opening import open_publisher
from meantime.streams.publishing.publisher import Publisher
from meantime.streams.publishing.records import BatchItemResponse, BatchRejected
from meantime.timers.dispatching.held_timers import HeldTimer
from meantime.timers.rules import event_type_of

log = structlog.get_logger(__name__)

SETTLED_AFTER = 1.0
"""Seconds after which a dead publisher's last write has arrived or never will."""
SKEW_MS = 10_000

NO_EVENT = f"the callback is not a JSON object, or is nested deeper than {MOST_DEEP}"


class EventCallbacks:
    def __init__(self, publisher: Publisher, catalog: Catalog) -> None:
        self._publisher = publisher
        self._catalog = catalog

    async def publish(self, timers: list[HeldTimer], attempted: set[HeldTimer]) -> list[str | None]:
        """Publish timers of one event type; for each, why it was refused for good, or None when it is published.
        `attempted` may have been published before."""
        name = event_type_of(timers[0].future.topic) or ""
        refusals: dict[int, str] = {}
        left = dict(enumerate(timers))
        try:
            doubtful = {index for index, held in left.items() if held in attempted}
            while left:
                if doubtful:
                    await asyncio.sleep(SETTLED_AFTER)
                    left = await self._without_published(name, left, doubtful)
                left, doubtful = await self._publish(name, left, refusals)
        except NotFound as error:
            refusals |= dict.fromkeys(left, error.detail)
        return [refusals.get(index) for index in range(len(timers))]

    async def _publish(
        self, name: str, left: dict[int, HeldTimer], refusals: dict[int, str]
    ) -> tuple[dict[int, HeldTimer], set[int]]:
        """Send what is left; what is left after that, and which of it may have been written."""
        category = (await self._catalog.entry(name)).event_type.category
        events = {index: event_of(held, category) for index, held in left.items()}
        refusals |= {index: NO_EVENT for index, event in events.items() if event is None}
        good = {index: event for index, event in events.items() if event is not None}
        if not good:
            return {}, set()
        body = b"[" + b",".join(good.values()) + b"]"
        try:
            items = await self._publisher.publish(name, body, flow_id="timers")
        except BatchRejected as rejected:
            return self._rejected(left, list(good), rejected.items, refusals), set()
        except Malformed as error:
            if len(good) > 1:
                return await self._publish_halves(name, {index: left[index] for index in good}, refusals)
            refusals |= dict.fromkeys(good, error.detail)
            return {}, set()
        return self._unwritten(left, list(good), items or [])

    async def _publish_halves(
        self, name: str, left: dict[int, HeldTimer], refusals: dict[int, str]
    ) -> tuple[dict[int, HeldTimer], set[int]]:
        """They were refused together: find the one that is at fault."""
        timers, middle = list(left.items()), len(left) // 2
        first, doubtful = await self._publish(name, dict(timers[:middle]), refusals)
        second, also_doubtful = await self._publish(name, dict(timers[middle:]), refusals)
        return first | second, doubtful | also_doubtful

    @staticmethod
    def _rejected(
        left: dict[int, HeldTimer], sent: list[int], items: Sequence[BatchItemResponse], refusals: dict[int, str]
    ) -> dict[int, HeldTimer]:
        """Nothing was written: what is at fault is refused, the rest may go."""
        failed = {index: item.detail for index, item in zip(sent, items, strict=True) if item.publishing_status == "failed"}
        refusals |= failed
        return {index: left[index] for index in sent if index not in failed}

    @staticmethod
    def _unwritten(
        left: dict[int, HeldTimer], sent: list[int], items: Sequence[BatchItemResponse]
    ) -> tuple[dict[int, HeldTimer], set[int]]:
        pairs = zip(sent, items, strict=True) if items else ()
        missing = {index for index, item in pairs if item.publishing_status != "submitted"}
        if missing:
            log.warning("events_in_doubt", events=len(missing))
        return {index: left[index] for index in missing}, missing

    async def _without_published(self, name: str, left: dict[int, HeldTimer], doubtful: set[int]) -> dict[int, HeldTimer]:
        entry = await self._catalog.reload(name)
        suspects = {index: left[index] for index in doubtful}
        since_ms = min(held.second for held in suspects.values()) * 1000 - SKEW_MS
        found = await asyncio.to_thread(_traces, self._catalog, entry, since_ms)
        gone = set()
        for index, held in suspects.items():
            trace = trace_of(held, entry.event_type.category)
            if found[trace] > 0:
                found[trace] -= 1
                gone.add(index)
        log.info("attempts_checked", event_type=name, attempts=len(suspects), published=len(gone))
        return {index: held for index, held in left.items() if index not in gone}


Trace = tuple[str, int] | bytes


class _TracedMetadata(msgspec.Struct):
    timer_token: str
    timer_due: int


class _TracedEvent(msgspec.Struct):
    metadata: _TracedMetadata


def event_of(held: HeldTimer, category: str) -> bytes | None:
    """The event as it is published; None when the callback is none."""
    try:
        event = msgspec.json.decode(held.future.callback) if is_shallow(held.future.callback) else None
    except UNREADABLE:
        return None
    if not isinstance(event, dict):
        return None
    metadata = event.get("metadata")
    if category == UNDEFINED or not isinstance(metadata, dict):
        return held.future.callback
    event["metadata"] = metadata | {"timer_token": held.token, "timer_due": held.second}
    return msgspec.json.encode(event)


def trace_of(held: HeldTimer, category: str) -> Trace:
    return held.future.callback.strip() if category == UNDEFINED else (held.token, held.second)


def _traces(catalog: Catalog, entry: CatalogEntry, since_ms: int) -> Counter[Trace]:
    """What is in the timelines that were written to since an instant."""
    found: Counter[Trace] = Counter()
    for timeline in entry.timelines:
        closed = timeline.closed_at_ms is not None and timeline.closed_at_ms < since_ms
        if not timeline.deleted and not closed:
            storage = catalog.storage(timeline.storage_id)
            values = values_since(storage, timeline.topic, timeline.partitions, since_ms)
            found.update(_traces_in(values, entry.event_type.category))
    return found


def _traces_in(values: Iterator[bytes], category: str) -> Iterator[Trace]:
    for value in values:
        if category == UNDEFINED:
            yield value.strip()
            continue
        try:
            metadata = msgspec.json.decode(value, type=_TracedEvent).metadata
        except UNREADABLE:
            continue
        yield (metadata.timer_token, metadata.timer_due)


@asynccontextmanager
async def open_callbacks(
    database: Database, listener: Listener, session: Session, clock: Clock, name: str
) -> AsyncIterator[EventCallbacks]:
    """A dispatcher honours the locks of switches as a node does, and no switch waits for it."""
    async with open_publisher(database, listener, session, clock, name, counted=False) as opened:
        yield EventCallbacks(opened.publisher, opened.catalog)
