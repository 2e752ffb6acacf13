"""Subscriptions: their life, the streams on this node, commits from anywhere.

Streams hear of commits that reached another node through PostgreSQL; while that is not listening they ask every second.
"""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import structlog

from meantime.clock import Clock
from meantime.coordination.session import Session
from meantime.database.pool import Database
from meantime.errors import BadCursor, CoordinationLost, Invalid, NotFound, Unavailable
from meantime.streams.catalog.catalog import ChangeNotifications
from meantime.streams.cursors import Cursor, NamedPosition, parse, parse_partition
from meantime.streams.model import PartitionKey
from meantime.streams.reading.limits import MOST_COMMIT_FOR
from meantime.streams.reading.offsets import TimelineOffsets
from meantime.streams.reading.reader import Reading
from meantime.streams.subscriptions.model import (
    Committed,
    GivenSubscriptionCursor,
    Subscription,
    SubscriptionDraft,
    SubscriptionStreamOptions,
)
from meantime.streams.subscriptions.store import COMMITS_CHANNEL, SUBSCRIPTIONS_CHANNEL, SubscriptionStore
from meantime.streams.subscriptions.stream import SubscriptionStream
from meantime.streams.subscriptions.stream_ids import new_stream_id
from meantime.streams.subscriptions.stream_registry import StreamRegistry
from meantime.supervision import kept_running, supervised
from meantime.tasks import TaskSet

log = structlog.get_logger(__name__)

MOST_PARTITIONS = 100
ASK_EVERY = 1.0
AT_ONCE = 8
"""How many streams ask PostgreSQL for something of their own at a time: half of the connections that a node has."""

TURN_WITHIN = 60.0


class Subscriptions:
    def __init__(
        self,
        reading: Reading,
        store: SubscriptionStore,
        session: Session,
        news: ChangeNotifications,
        clock: Clock,
        node_id: str,
    ) -> None:
        self.reading = reading
        self.store = store
        self.session = session
        self.node_id = node_id
        self.streams: dict[UUID, SubscriptionStream] = {}
        self._news = news
        self.clock = clock
        self._tasks = TaskSet()
        self._turns = asyncio.Semaphore(AT_ONCE)
        news.subscribe(COMMITS_CHANNEL, self._on_commit)
        news.subscribe(SUBSCRIPTIONS_CHANNEL, self._on_deletion)

    # Life

    async def create(self, draft: SubscriptionDraft) -> tuple[Subscription, bool]:
        """The subscription, and whether it is new: owner, event types and group make it the same one."""
        known = await self.store.same(draft)
        if known is not None:
            return known, False
        await self._check(draft)
        made, new = await self.store.insert(uuid4(), draft, self.clock.now_ms())
        if made is None:
            raise Invalid("failed to create subscription, event type(s) not found")
        return made, new

    async def get(self, id: str) -> Subscription:
        with suppress(ValueError):
            if (found := await self.store.subscription(UUID(id))) is not None:
                return found
        raise NotFound(f"subscription {id!r} does not exist")

    async def page(
        self, owning_application: str | None, event_types: Collection[str], offset: int, limit: int
    ) -> list[Subscription]:
        if any("\x00" in name for name in [owning_application or "", *event_types]):
            return []
        return await self.store.subscriptions(owning_application, event_types, offset, limit)

    async def update_access(self, subscription: Subscription, access: Any) -> None:
        """Who may use it. All its streams end: those who still may open them again."""
        await self.store.update_access(subscription.id, access, self.clock.now_ms())
        registry = self.registry(subscription.id)
        async with registry.reset():
            await registry.until_empty(wait_for=MOST_COMMIT_FOR)

    async def delete(self, subscription: Subscription) -> None:
        if not await self.store.delete(subscription.id):
            raise NotFound(f"subscription {str(subscription.id)!r} does not exist")
        self._on_deletion(str(subscription.id))
        self._tasks.start(self._clear_away(subscription.id), f"clear away {subscription.id}")

    async def keys(self, subscription: Subscription) -> list[PartitionKey]:
        """All partitions of all its event types."""
        return [
            (name, partition)
            for name in subscription.event_types
            for partition in range((await self.reading.catalog.event_type(name)).partitions)
        ]

    # Streams

    async def open_stream(self, subscription: Subscription, options: SubscriptionStreamOptions) -> SubscriptionStream:
        self.reading.enter()
        try:
            stream = SubscriptionStream(
                self, subscription, options, self.registry(subscription.id), new_stream_id(options.key_id)
            )
            async with self.turn():
                await self.initialised(subscription)
            await stream.join()
        except BaseException:
            self.reading.leave()
            raise
        self.streams[stream.id] = stream
        self._tasks.start(self._run(stream), f"subscription stream {stream.id}")
        return stream

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Ask PostgreSQL for something when it is one's turn: of many that come at once none finds all connections taken."""
        try:
            async with asyncio.timeout(TURN_WITHIN):
                await self._turns.acquire()
        except TimeoutError:
            raise Unavailable("too many streams of subscriptions are being opened", retry_after=5) from None
        try:
            yield
        finally:
            self._turns.release()

    def registry(self, id: UUID) -> StreamRegistry:
        return StreamRegistry(self.session, id)

    async def _run(self, stream: SubscriptionStream) -> None:
        try:
            await stream.run()
        finally:
            self.streams.pop(stream.id, None)

    # Cursors

    async def initialised(self, subscription: Subscription) -> dict[PartitionKey, Committed]:
        """The committed cursors; where a partition has none yet, it begins where the subscription says."""
        known = await self.store.cursors(subscription.id)
        if known.keys() >= set(await self.keys(subscription)):
            return known
        lookups: dict[str, TimelineOffsets] = {}
        beginnings = await self.beginnings(subscription)
        places = {key: await self._initial(lookups, key, place) for key, place in beginnings.items() if key not in known}
        await self.store.initialise(subscription.id, places)
        return await self.store.cursors(subscription.id)

    async def beginnings(self, subscription: Subscription) -> dict[PartitionKey, Cursor | NamedPosition]:
        """Where whoever is the first to read a partition begins."""
        given = dict(await self._parsed(subscription.event_types, subscription.initial_cursors))
        usual = NamedPosition.END if subscription.read_from == "end" else NamedPosition.BEGIN
        return {key: given.get(key, usual) for key in await self.keys(subscription)}

    async def reset(self, subscription: Subscription, cursors: Sequence[GivenSubscriptionCursor]) -> None:
        """Close all streams and move the cursors; what was not named stays where it is."""
        lookups: dict[str, TimelineOffsets] = {}
        places: dict[PartitionKey, Cursor] = {}
        for key, place in await self._parsed(subscription.event_types, cursors):
            places[key] = await (await self._offsets(lookups, key[0])).readable(key[1], place)
        await self.initialised(subscription)
        if not places:
            return
        registry = self.registry(subscription.id)
        async with registry.reset():
            if not await registry.until_empty(wait_for=MOST_COMMIT_FOR):
                raise Unavailable("some streams of this subscription did not end in time")
            await self.store.reset(subscription.id, places)

    async def refresh(self, stream: SubscriptionStream) -> None:
        """Tell a stream what has been committed, after news may have been missed."""
        async with self.turn():
            cursors = await self.store.cursors(stream.subscription.id)
        if not cursors:
            stream.end("the subscription was deleted")
        for key, committed in cursors.items():
            if committed.stream_id == stream.id:
                stream.commit(key, committed.cursor)

    # News

    def _on_commit(self, payload: str | None, /) -> None:
        if payload is None:
            for stream in self.streams.values():
                refreshing = supervised(partial(self.refresh, stream), "subscription refresh", str(stream.id))
                self._tasks.start(refreshing, f"refresh {stream.id}")
            return
        stream_id, event_type, partition, order, offset = payload.split(" ")
        if (found := self.streams.get(UUID(stream_id))) is not None:
            found.commit((event_type, int(partition)), Cursor(int(order), int(offset)))

    def _on_deletion(self, payload: str | None, /) -> None:
        for stream in list(self.streams.values()):
            if str(stream.subscription.id) == payload:
                stream.end("the subscription was deleted")

    async def refresh_while_not_listening(self) -> None:
        """PostgreSQL notifies of commits on other nodes; without a connection to it they are asked for."""
        while True:
            await asyncio.sleep(ASK_EVERY)
            if not self._news.connected:
                for stream in list(self.streams.values()):
                    with suppress(Unavailable):
                        await self.refresh(stream)

    async def _clear_away(self, id: UUID) -> None:
        registry = self.registry(id)
        with suppress(CoordinationLost):
            if await registry.until_empty(wait_for=30.0):
                await registry.remove()

    async def stop(self) -> None:
        """End all streams. What they sent can still be committed on other nodes, until somebody takes a partition."""
        await self._tasks.end()

    # Checks

    async def _check(self, draft: SubscriptionDraft) -> None:
        partitions = 0
        for name in draft.event_types:
            try:
                partitions += (await self.reading.catalog.event_type(name)).partitions
            except NotFound:
                raise Invalid(f"failed to create subscription, event type(s) not found: {name!r}") from None
        if partitions > MOST_PARTITIONS:
            raise Invalid(f"the event types have {partitions} partitions together; at most {MOST_PARTITIONS} are allowed")
        if draft.read_from == "cursors":
            await self._check_initial(draft, partitions)

    async def _check_initial(self, draft: SubscriptionDraft, partitions: int) -> None:
        given = await self._parsed(draft.event_types, draft.initial_cursors)
        if len(dict(given)) != len(given):
            raise Invalid("initial_cursors names a partition twice")
        if len(given) != partitions:
            raise Invalid("initial_cursors has to name every partition of every event type")
        lookups: dict[str, TimelineOffsets] = {}
        for key, place in given:
            await (await self._offsets(lookups, key[0])).readable(key[1], place)

    async def _parsed(
        self, event_types: Collection[str], cursors: Sequence[GivenSubscriptionCursor]
    ) -> list[tuple[PartitionKey, Cursor | NamedPosition]]:
        return [await self.parsed(event_types, given) for given in cursors]

    async def parsed(
        self, event_types: Collection[str], given: GivenSubscriptionCursor
    ) -> tuple[PartitionKey, Cursor | NamedPosition]:
        if given.event_type not in event_types or given.event_type is None:
            raise BadCursor("unknown_event_type", f"{given.event_type!r} does not belong to the subscription")
        partitions = (await self.reading.catalog.event_type(given.event_type)).partitions
        partition = parse_partition(given.partition or "", partitions)
        return (given.event_type, partition), parse(given.offset or "")

    async def _initial(
        self, lookups: dict[str, TimelineOffsets], key: PartitionKey, place: Cursor | NamedPosition
    ) -> Cursor:
        offsets = await self._offsets(lookups, key[0])
        try:
            return await offsets.readable(key[1], place)
        except BadCursor as bad:
            log.warning("initial_cursor_is_gone", event_type=key[0], partition=key[1], why=bad.reason)
            return await offsets.readable(key[1], NamedPosition.BEGIN)

    async def _offsets(self, lookups: dict[str, TimelineOffsets], name: str) -> TimelineOffsets:
        if name not in lookups:
            lookups[name] = self.reading.offsets(await self.reading.catalog.entry(name))
        return lookups[name]


@asynccontextmanager
async def open_subscriptions(
    reading: Reading, database: Database, session: Session, news: ChangeNotifications, clock: Clock, *, node_id: str
) -> AsyncIterator[Subscriptions]:
    """Everything a node needs to serve subscriptions; `news` is the node's listener to PostgreSQL."""
    subscriptions = Subscriptions(reading, SubscriptionStore(database), session, news, clock, node_id)
    async with kept_running(subscriptions.refresh_while_not_listening, "subscriptions"):
        try:
            yield subscriptions
        finally:
            await subscriptions.stop()
