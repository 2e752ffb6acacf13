"""A publisher with everything that it works with, the same for nodes and for other processes.

A node is *counted*: initiators of switches wait until it has acknowledged their lock. A process that is not counted reacts
to locks in the same way, but nobody waits for it; so it makes sure in the database that what it has written lies inside its
timeline, batch by batch, before it says that it is written. What it writes all the same is before the seal, or is refused
by it and sent on to the next timeline.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from meantime.clock import Clock
from meantime.coordination.barrier import VersionBarrier, open_barrier
from meantime.coordination.liveness import SessionLiveness
from meantime.coordination.session import Session
from meantime.coordination.switch_steps import SwitchSteps
from meantime.database.listener import Listener
from meantime.database.pool import Database
from meantime.errors import MeantimeError
from meantime.kafka.admin import Admins
from meantime.kafka.producer import Producers
from meantime.kafka.settings import Storage
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.store import Store
from meantime.streams.publishing.gate import PublishGate
from meantime.streams.publishing.lock_reaction import LockReaction
from meantime.streams.publishing.publisher import Publisher, PublisherParts
from meantime.streams.publishing.refusals import Refusals
from meantime.streams.switching.acknowledged import AcknowledgedOffsets
from meantime.streams.switching.store import SwitchStore
from meantime.supervision import kept_running

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class OpenPublisher:
    """The publisher, and what other parts of the process share with it."""

    publisher: Publisher
    catalog: Catalog
    store: Store
    switch_store: SwitchStore
    admins: Admins
    producers: Producers
    steps: SwitchSteps
    reaction: LockReaction
    barrier: VersionBarrier

    def let_go_of_others(self, storages: Iterable[Storage]) -> None:
        """Close the clients of storages that are not among these: they were deleted."""
        ids = {storage.id for storage in storages}
        self.admins.keep(ids)
        self.producers.keep(ids)

    async def follow_storages(self) -> None:
        """Close the clients of storages that are deleted; nodes do it when they connect to new ones."""
        while True:
            seen = self.catalog.storages_changed.count
            self.let_go_of_others(await self.catalog.reload_storages())
            await self.catalog.storages_changed.beyond(seen)


@asynccontextmanager
async def open_publisher(
    database: Database,
    listener: Listener,
    session: Session,
    clock: Clock,
    name: str,
    *,
    counted: bool = False,
    wait_for: float = 30.0,
    deliver_for: float = 15.0,
    permitted: Callable[[], None] = lambda: None,
) -> AsyncIterator[OpenPublisher]:
    """Publish as `name`; only nodes are `counted`. `wait_for`: seconds that a publish waits for a switch; `deliver_for`: how
    long Kafka's client tries to write; `permitted` is asked before anything is handed to it."""
    store = Store(database)
    switch_store = SwitchStore(store)
    catalog, gate, admins, producers = Catalog(store, listener), PublishGate(), Admins(), Producers(deliver_for=deliver_for)
    acknowledged, steps = AcknowledgedOffsets(switch_store), SwitchSteps(session)
    liveness = SessionLiveness(session, session.timeout)
    reaction = LockReaction(catalog, gate, producers, acknowledged, steps, switch_store)
    publisher = Publisher(
        PublisherParts(
            catalog=catalog,
            gate=gate,
            producers=producers,
            acknowledged=acknowledged,
            refusals=Refusals(catalog, gate, switch_store, admins),
            switches=switch_store,
            liveness=liveness,
            clock=clock,
            wait_for=wait_for,
            permitted=permitted,
        )
    )
    async with AsyncExitStack() as opened:
        opened.push_async_callback(producers.close)
        opened.push_async_callback(_write_last, acknowledged)
        opened.push_async_callback(reaction.end)
        barrier = await opened.enter_async_context(open_barrier(session, name, reaction, counted=counted))
        await opened.enter_async_context(kept_running(acknowledged.run, "acknowledged offsets"))
        if counted:
            proving = partial(liveness.run, session.layout.acknowledgement(name), may_be_missing=True)
            await opened.enter_async_context(kept_running(proving, "liveness"))
        base = OpenPublisher(publisher, catalog, store, switch_store, admins, producers, steps, reaction, barrier)
        if not counted:
            await opened.enter_async_context(kept_running(base.follow_storages, "storages"))
        yield base


async def _write_last(acknowledged: AcknowledgedOffsets) -> None:
    try:
        await acknowledged.write()
    except MeantimeError as error:
        log.warning("acknowledged_offsets_not_written", error=error.detail)
