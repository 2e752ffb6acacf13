"""Streams as one part of a node: everything of the write side, put together and running.

`open_streams` waits for nothing: without ZooKeeper, Kafka or PostgreSQL the node is up, calls that need them answer 503, and
all of it mends itself. Closing lets running switches and what is in flight come to their end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from meantime.clock import Clock
from meantime.coordination.barrier import VersionBarrier, open_barrier
from meantime.coordination.session import Session
from meantime.coordination.switching import SwitchSteps
from meantime.coordination.tasks import running
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.errors import MeantimeError
from meantime.streams.acknowledged import Acknowledged
from meantime.streams.catalog import Catalog
from meantime.streams.event_types import EventTypes
from meantime.streams.gate import Gate
from meantime.streams.kafka_admin import Admins
from meantime.streams.kafka_producer import Producers
from meantime.streams.postgres import Store
from meantime.streams.postgres_storages import StorageStore
from meantime.streams.postgres_switches import SwitchStore
from meantime.streams.publisher import Publisher, PublisherParts
from meantime.streams.reaction import Reaction
from meantime.streams.refusals import Refusals
from meantime.streams.retention import Retention
from meantime.streams.standing import Standing
from meantime.streams.storages import Storages
from meantime.streams.switch_tools import SwitchOptions, SwitchTools
from meantime.streams.switches import Switches
from meantime.streams.timeline_topics import TimelineTopics

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class StreamsOptions:
    """`kafka`: the clusters to register at the start, the first as `default`. `trusted`: whether this node may go by its
    clock (a node that may not cleans nothing up)."""

    node_id: str
    kafka: list[str]
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


class _Settle:
    """Breaks the circle between the barrier's reaction and the switches that use the barrier."""

    switches: Switches | None = None

    async def __call__(self, event_type: str) -> None:
        if self.switches is not None:
            await self.switches.settle_forced(event_type)


@asynccontextmanager
async def open_streams(
    database: Database, listener: Listener, session: Session, clock: Clock, options: StreamsOptions
) -> AsyncIterator[Streams]:
    store = Store(database)
    switch_store = SwitchStore(store)
    catalog, gate, admins, producers = Catalog(store, listener), Gate(), Admins(), Producers()
    acknowledged = Acknowledged(switch_store)
    steps, standing, settle = SwitchSteps(session), Standing(session, options.node_id), _Settle()
    topics = TimelineTopics(store, catalog, admins, clock)
    reaction = Reaction(catalog, gate, producers, acknowledged, steps, settle)
    async with AsyncExitStack() as opened:
        opened.push_async_callback(producers.close)
        opened.push_async_callback(_write_last, acknowledged)
        barrier = await opened.enter_async_context(open_barrier(session, options.node_id, reaction))
        tools = SwitchTools(
            node_id=options.node_id,
            clock=clock,
            session=session,
            barrier=barrier,
            steps=steps,
            catalog=catalog,
            store=switch_store,
            topics=topics,
            admins=admins,
            options=SwitchOptions(barrier_for=options.barrier_for),
        )
        streams = Streams(
            catalog=catalog,
            admins=admins,
            event_types=EventTypes(store, catalog, topics, admins, clock, min_retention_ms=options.min_retention_ms),
            storages=Storages(StorageStore(store), catalog, clock),
            publisher=Publisher(
                PublisherParts(
                    catalog=catalog,
                    gate=gate,
                    producers=producers,
                    acknowledged=acknowledged,
                    refusals=Refusals(catalog, gate, switch_store, admins),
                    switches=switch_store,
                    standing=standing,
                    clock=clock,
                    wait_for=options.publish_wait_for,
                )
            ),
            switches=Switches(tools),
            retention=Retention(store, topics, tools, clock, options.trusted),
            barrier=barrier,
        )
        settle.switches = streams.switches
        for name, work in (
            ("acknowledged offsets", acknowledged.run()),
            ("standing", standing.run()),
            ("orphaned switches", streams.switches.run()),
            ("retention", streams.retention.run()),
            ("storages", _keep_storages(streams.storages, catalog, producers, options.kafka)),
        ):
            await opened.enter_async_context(running(work, name=name))
        opened.push_async_callback(streams.switches.close)
        yield streams


async def _keep_storages(storages: Storages, catalog: Catalog, producers: Producers, configured: list[str]) -> None:
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
        await catalog.storages_changed.wait()


async def _write_last(acknowledged: Acknowledged) -> None:
    try:
        await acknowledged.write()
    except MeantimeError as error:
        log.warning("acknowledged_offsets_not_written", error=error.detail)
