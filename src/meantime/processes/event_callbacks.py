"""Callbacks into event types: the one place where timers and streams meet.

An event is published through the active timeline of its event type, by the same publisher and behind the same gate as any
other. It takes no part in the dispatcher's transaction: its topic may be in another cluster, and transactions take offsets,
which belong to events alone. So that it is published once all the same, the attempt is written down first, in a transaction
that Kafka refuses to a dispatcher that has been replaced, and holds for a few seconds only, within which nobody else can
have the timer. Whoever finds an attempt without an end waits until it cannot lead to anything any more, and looks into the
timelines whether the event is there. Under category `undefined` it is recognised by its bytes, else by its token.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar

import msgspec
import structlog

from meantime.clock import Clock
from meantime.coordination.session import Session
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.errors import UNREADABLE, Malformed, NotFound
from meantime.kafka.consumer import values_since
from meantime.processes.event_checks import NO_EVENT, event_of
from meantime.streams.catalog.catalog import Catalog, CatalogEntry
from meantime.streams.model import UNDEFINED
from meantime.streams.publishing.opening import open_publisher
from meantime.streams.publishing.publisher import Publisher
from meantime.streams.publishing.records import BatchItemResponse, BatchRejected
from meantime.timers.dispatching.background_work import PublishResult
from meantime.timers.dispatching.ended_timers import DELIVERED_FOR, PERMITTED_FOR
from meantime.timers.dispatching.held_timers import HeldTimer
from meantime.timers.model import TimerId
from meantime.timers.rules import event_type_of

log = structlog.get_logger(__name__)

WAIT_FOR = PERMITTED_FOR
"""Seconds that a callback waits for a switch; it is attempted anew after that."""
SKEW_MS = 10_000

REQUIRE: ContextVar[Callable[[], None]] = ContextVar("require")
"""What the publish that is under way has to ask before it writes."""


class EventCallbacks:
    def __init__(self, publisher: Publisher, catalog: Catalog) -> None:
        self._publisher = publisher
        self._catalog = catalog

    async def publish(self, timers: list[HeldTimer], require: Callable[[], None]) -> PublishResult:
        """Publish timers of one event type. `require` raises when that is not allowed any more."""
        name = event_type_of(timers[0].future.topic) or ""
        refused: dict[int, str] = {}
        doubtful: set[int] = set()
        left = dict(enumerate(timers))
        asked = REQUIRE.set(require)
        try:
            while left:
                left = await self._publish(name, left, refused, doubtful)
        except NotFound as error:
            refused |= dict.fromkeys(left, error.detail)
        finally:
            REQUIRE.reset(asked)
        return PublishResult(refused, doubtful)

    async def published(self, timers: list[HeldTimer]) -> set[int]:
        """Those of one event type that are in its timelines."""
        name = event_type_of(timers[0].future.topic) or ""
        try:
            entry = await self._catalog.reload(name)
        except NotFound:
            return set()
        since_ms = min(held.second for held in timers) * 1000 - SKEW_MS
        found = await asyncio.to_thread(_traces, self._catalog, entry, since_ms)
        there = set()
        for index, held in enumerate(timers):
            trace = trace_of(held, entry.event_type.category)
            if found[trace] > 0:
                found[trace] -= 1
                there.add(index)
        log.info("attempts_checked", event_type=name, attempts=len(timers), published=len(there))
        return there

    async def _publish(
        self, name: str, left: dict[int, HeldTimer], refused: dict[int, str], doubtful: set[int]
    ) -> dict[int, HeldTimer]:
        """Send what is left; what is left after that, of which nothing was written."""
        category = (await self._catalog.entry(name)).event_type.category
        events = {
            index: event_of(TimerId(held.token, held.second), held.future.callback, category) for index, held in left.items()
        }
        refused |= {index: NO_EVENT for index, event in events.items() if event is None}
        good = {index: event for index, event in events.items() if event is not None}
        if not good:
            return {}
        body = b"[" + b",".join(good.values()) + b"]"
        try:
            items = await self._publisher.publish(name, body, flow_id="timers")
        except BatchRejected as rejected:
            return self._rejected(left, list(good), rejected.items, refused)
        except Malformed as error:
            if len(good) > 1:
                return await self._publish_halves(name, {index: left[index] for index in good}, refused, doubtful)
            refused |= dict.fromkeys(good, error.detail)
            return {}
        doubtful |= _unwritten(list(good), items or [])
        return {}

    async def _publish_halves(
        self, name: str, left: dict[int, HeldTimer], refused: dict[int, str], doubtful: set[int]
    ) -> dict[int, HeldTimer]:
        """They were refused together: find the one that is at fault."""
        timers, middle = list(left.items()), len(left) // 2
        first = await self._publish(name, dict(timers[:middle]), refused, doubtful)
        return first | await self._publish(name, dict(timers[middle:]), refused, doubtful)

    @staticmethod
    def _rejected(
        left: dict[int, HeldTimer], sent: list[int], items: Sequence[BatchItemResponse], refused: dict[int, str]
    ) -> dict[int, HeldTimer]:
        """Nothing was written: what is at fault is refused, the rest may go."""
        failed = {index: item.detail for index, item in zip(sent, items, strict=True) if item.publishing_status == "failed"}
        refused |= failed
        return {index: left[index] for index in sent if index not in failed}


def _unwritten(sent: list[int], items: Sequence[BatchItemResponse]) -> set[int]:
    pairs = zip(sent, items, strict=True) if items else ()
    missing = {index for index, item in pairs if item.publishing_status != "submitted"}
    if missing:
        log.warning("events_in_doubt", events=len(missing))
    return missing


Trace = tuple[str, int] | bytes


class _TracedMetadata(msgspec.Struct):
    timer_token: str
    timer_due: int


class _TracedEvent(msgspec.Struct):
    metadata: _TracedMetadata


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


def _require() -> None:
    REQUIRE.get()()


@asynccontextmanager
async def open_callbacks(
    database: Database, listener: Listener, session: Session, clock: Clock, name: str
) -> AsyncIterator[EventCallbacks]:
    """A dispatcher honours the locks of switches as a node does, and no switch waits for it."""
    publishing = open_publisher(
        database,
        listener,
        session,
        clock,
        name,
        counted=False,
        wait_for=WAIT_FOR,
        deliver_for=DELIVERED_FOR,
        permitted=_require,
    )
    async with publishing as opened:
        yield EventCallbacks(opened.publisher, opened.catalog)
