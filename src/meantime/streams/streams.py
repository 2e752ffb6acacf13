"""Streams as one part of a node, both sides of it: publishing and switching, reading and subscriptions.

`open_streams` waits for nothing: without ZooKeeper, Kafka or PostgreSQL the node is up, calls that need them answer 503, and
all of it mends itself. Closing lets running switches and what is in flight come to their end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial

import structlog

from meantime.clock import Clock
from meantime.coordination.barrier import VersionBarrier
from meantime.coordination.session import Session
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.errors import MeantimeError
from meantime.kafka.admin import Admins
from meantime.kafka.settings import Storage
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.deleted_event_types import LOOK_EVERY, DeletedEventTypes
from meantime.streams.catalog.event_types import EventTypes
from meantime.streams.catalog.storage_store import StorageStore
from meantime.streams.catalog.storages import Storages
from meantime.streams.catalog.timeline_topics import TimelineTopics
from meantime.streams.publishing.opening import OpenPublisher, open_publisher
from meantime.streams.publishing.publisher import Publisher
from meantime.streams.reading.reader import MOST_STREAMS, STREAMED, Reading, open_reading
from meantime.streams.subscriptions.subscriptions import Subscriptions, open_subscriptions
from meantime.streams.switching.retention import Retention
from meantime.streams.switching.switches import Switches
from meantime.streams.switching.tools import SwitchOptions, SwitchTools
from meantime.supervision import Duty, kept_running, on_duty

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamsOptions:
    """`storages`: those to register at the start. `needed_storages`: those that nobody may delete, each with what it is
    needed for. `max_streams`: how many streams of readers may be open at a time. `trusted`: whether this node may go by its
    clock (a node that may not cleans nothing up)."""

    node_id: str
    storages: Sequence[Storage]
    needed_storages: Mapping[str, str] = field(default_factory=dict)
    publish_wait_for: float = 30.0
    barrier_for: float = 15.0
    overtake_after: float = 0.3
    min_retention_ms: int = 3_600_000
    max_streams: int = MOST_STREAMS
    trusted: Callable[[], bool] = lambda: True


@dataclass(frozen=True, slots=True)
class Streams:
    """What the API and the other parts of a node use."""

    catalog: Catalog
    admins: Admins
    event_types: EventTypes
    storages: Storages
    publisher: Publisher
    switches: Switches
    retention: Retention
    barrier: VersionBarrier
    reading: Reading
    subscriptions: Subscriptions


@asynccontextmanager
async def open_streams(
    database: Database, listener: Listener, session: Session, clock: Clock, options: StreamsOptions
) -> AsyncIterator[Streams]:
    node_id = options.node_id
    async with AsyncExitStack() as opened:
        base = await opened.enter_async_context(
            open_publisher(database, listener, session, clock, node_id, counted=True, wait_for=options.publish_wait_for)
        )
        topics = TimelineTopics(base.store, base.catalog, base.admins, clock)
        tools = _switch_tools(base, topics, session, clock, options)
        switches = Switches(tools)
        base.reaction.settle = switches.settle_forced
        retention = Retention(base.store, topics, tools, clock, options.trusted)
        storages = Storages(StorageStore(base.store), base.catalog, clock, options.needed_storages)
        keeping_storages = partial(_keep_storages, storages, base, options.storages)
        await opened.enter_async_context(kept_running(switches.run, "orphaned switches"))
        await opened.enter_async_context(kept_running(retention.run, "retention"))
        await opened.enter_async_context(kept_running(keeping_storages, "storages"))
        opened.push_async_callback(switches.close)
        reading = await opened.enter_async_context(open_reading(base.catalog, base.admins, max_streams=options.max_streams))
        subscriptions = await opened.enter_async_context(
            open_subscriptions(reading, database, session, listener, clock, node_id=node_id)
        )
        deleted = DeletedEventTypes(base.store, listener, partial(_kept, base.publisher), partial(_forget, base.publisher))
        await opened.enter_async_context(on_duty([Duty("deleted event types", deleted.run_once, LOOK_EVERY)]))
        min_retention_ms = options.min_retention_ms
        yield Streams(
            catalog=base.catalog,
            admins=base.admins,
            event_types=EventTypes(base.store, base.catalog, topics, base.admins, clock, min_retention_ms=min_retention_ms),
            storages=storages,
            publisher=base.publisher,
            switches=switches,
            retention=retention,
            barrier=base.barrier,
            reading=reading,
            subscriptions=subscriptions,
        )


def _switch_tools(
    base: OpenPublisher, topics: TimelineTopics, session: Session, clock: Clock, options: StreamsOptions
) -> SwitchTools:
    return SwitchTools(
        node_id=options.node_id,
        clock=clock,
        session=session,
        barrier=base.barrier,
        steps=base.steps,
        catalog=base.catalog,
        store=base.switch_store,
        topics=topics,
        admins=base.admins,
        options=SwitchOptions(options.barrier_for, options.overtake_after),
    )


def _kept(publisher: Publisher) -> set[str]:
    return publisher.kept() | STREAMED.names


def _forget(publisher: Publisher, name: str) -> None:
    publisher.forget(name)
    STREAMED.forget(name)


async def _keep_storages(storages: Storages, base: OpenPublisher, configured: Sequence[Storage]) -> None:
    """Register what the node was started with, and stay connected to every storage that there is, and to no other."""
    registered, catalog = False, base.catalog
    while True:
        seen = catalog.storages_changed.count
        try:
            if not registered:
                await storages.register_configured(configured)
                registered = True
            there = await catalog.reload_storages()
            base.let_go_of_others(there)
            base.producers.prepare(there)
        except MeantimeError as error:
            log.info("storages_not_known_yet", error=error.detail)
            await asyncio.sleep(0.5)
            continue
        except Exception:
            log.exception("storages_failed")
            await asyncio.sleep(5.0)
            continue
        await catalog.storages_changed.beyond(seen)
