"""Streams as one part of a node: everything of the write side, put together and running.

`open_streams` waits for nothing: without ZooKeeper, Kafka or PostgreSQL the node is up, calls that need them answer 503, and
all of it mends itself. Closing lets running switches and what is in flight come to their end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from meantime.clock import Clock
from meantime.coordination.barrier import VersionBarrier, open_barrier
from meantime.coordination.session import Session
from meantime.coordination.switch_steps import SwitchSteps
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.errors import MeantimeError
from meantime.kafka.admin import Admins
from meantime.kafka.producer import Producers
from meantime.kafka.settings import Storage
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.event_types import EventTypes
from meantime.streams.catalog.storage_store import StorageStore
from meantime.streams.catalog.storages import Storages
from meantime.streams.catalog.store import Store
from meantime.streams.catalog.timeline_topics import TimelineTopics
from meantime.streams.publishing.gate import Gate
from meantime.streams.publishing.lock_reaction import Reaction
from meantime.streams.publishing.publisher import Publisher, PublisherParts
from meantime.streams.publishing.refusals import Refusals
from meantime.streams.publishing.standing import Standing
from meantime.streams.switching.acknowledged import Acknowledged
from meantime.streams.switching.retention import Retention
from meantime.streams.switching.store import SwitchStore
from meantime.streams.switching.switches import Switches
from meantime.streams.switching.tools import SwitchOptions, SwitchTools
from meantime.tasks import running

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamsOptions:
    """`storages`: those to register at the start. `trusted`: whether this node may go by its
    clock (a node that may not cleans nothing up)."""

    node_id: str
    storages: Sequence[Storage]
    publish_wait_for: float = 30.0
    barrier_for: float = 15.0
    min_retention_ms: int = 3_600_000
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


class _Parts:
    """Everything that needs no ZooKeeper to be made; the barrier and what uses it come after."""

    def __init__(self, database: Database, listener: Listener, session: Session, clock: Clock, node_id: str) -> None:
        self.store = Store(database)
        self.switch_store = SwitchStore(self.store)
        self.catalog = Catalog(self.store, listener)
        self.gate = Gate()
        self.admins = Admins()
        self.producers = Producers()
        self.acknowledged = Acknowledged(self.switch_store)
        self.steps = SwitchSteps(session)
        self.standing = Standing(session, node_id)
        self.topics = TimelineTopics(self.store, self.catalog, self.admins, clock)
        self.refusals = Refusals(self.catalog, self.gate, self.switch_store, self.admins)
        self.session = session
        self.clock = clock
        self.switches: Switches | None = None

    def reaction(self) -> Reaction:
        return Reaction(self.catalog, self.gate, self.producers, self.acknowledged, self.steps, self._settle)

    async def _settle(self, event_type: str) -> None:
        """The barrier reacts with the help of the switches, which use the barrier."""
        if self.switches is not None:
            await self.switches.settle_forced(event_type)

    def streams(self, barrier: VersionBarrier, options: StreamsOptions) -> Streams:
        tools = self._tools(barrier, options)
        self.switches = Switches(tools)
        return Streams(
            catalog=self.catalog,
            admins=self.admins,
            event_types=EventTypes(
                self.store, self.catalog, self.topics, self.admins, self.clock, min_retention_ms=options.min_retention_ms
            ),
            storages=Storages(StorageStore(self.store), self.catalog, self.clock),
            publisher=self._publisher(options),
            switches=self.switches,
            retention=Retention(self.store, self.topics, tools, self.clock, options.trusted),
            barrier=barrier,
        )

    def _tools(self, barrier: VersionBarrier, options: StreamsOptions) -> SwitchTools:
        return SwitchTools(
            node_id=options.node_id,
            clock=self.clock,
            session=self.session,
            barrier=barrier,
            steps=self.steps,
            catalog=self.catalog,
            store=self.switch_store,
            topics=self.topics,
            admins=self.admins,
            options=SwitchOptions(barrier_for=options.barrier_for),
        )

    def _publisher(self, options: StreamsOptions) -> Publisher:
        return Publisher(
            PublisherParts(
                catalog=self.catalog,
                gate=self.gate,
                producers=self.producers,
                acknowledged=self.acknowledged,
                refusals=self.refusals,
                switches=self.switch_store,
                standing=self.standing,
                clock=self.clock,
                wait_for=options.publish_wait_for,
            )
        )


@asynccontextmanager
async def open_streams(
    database: Database, listener: Listener, session: Session, clock: Clock, options: StreamsOptions
) -> AsyncIterator[Streams]:
    parts = _Parts(database, listener, session, clock, options.node_id)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(parts.producers.close)
        opened.push_async_callback(_write_last, parts.acknowledged)
        barrier = await opened.enter_async_context(open_barrier(session, options.node_id, parts.reaction()))
        streams = parts.streams(barrier, options)
        for name, work in (
            ("acknowledged offsets", parts.acknowledged.run()),
            ("standing", parts.standing.run()),
            ("orphaned switches", streams.switches.run()),
            ("retention", streams.retention.run()),
            ("storages", _keep_storages(streams.storages, parts.catalog, parts.producers, options.storages)),
        ):
            await opened.enter_async_context(running(work, name=name))
        opened.push_async_callback(streams.switches.close)
        yield streams


async def _keep_storages(storages: Storages, catalog: Catalog, producers: Producers, configured: Sequence[Storage]) -> None:
    """Register what the node was started with, and stay connected to every storage that there is."""
    registered = False
    while True:
        catalog.storages_changed.clear()
        try:
            if not registered:
                await storages.register_configured(configured)
                registered = True
            producers.prepare(await catalog.reload_storages())
        except MeantimeError as error:
            log.info("storages_not_known_yet", error=error.detail)
            await asyncio.sleep(0.5)
            continue
        except Exception:
            log.exception("storages_failed")
            await asyncio.sleep(5.0)
            continue
        await catalog.storages_changed.wait()


async def _write_last(acknowledged: Acknowledged) -> None:
    try:
        await acknowledged.write()
    except MeantimeError as error:
        log.warning("acknowledged_offsets_not_written", error=error.detail)
