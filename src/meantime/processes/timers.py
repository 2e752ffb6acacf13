"""The composition root of the processes that timers are made of: oscillator, dispatcher, ledger.

As with nodes, nothing waits for ZooKeeper, Kafka or PostgreSQL to be there; each process mends itself when they come.
"""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial

import structlog
import uvloop

from meantime import logs
from meantime.clock import Clock
from meantime.cluster.observer import open_observed_clock
from meantime.config import Config
from meantime.coordination.election import Election, Leadership
from meantime.coordination.session import Session, open_session
from meantime.database.listener import open_listener
from meantime.database.pool import Database, open_database
from meantime.errors import StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.pipelines.timers.intake import FuturesOptions
from meantime.pipelines.timers.running import Engine, run_futures
from meantime.processes.health_port import open_health_port
from meantime.processes.options import peer_options, service_clocks, session_options
from meantime.processes.storages import timers_storage
from meantime.runtime import spare_collector, step_back
from meantime.supervision import kept_running
from meantime.tasks import end
from meantime.timers.dispatching.background_work import BackgroundWork
from meantime.timers.dispatching.dispatcher_options import DispatcherOptions
from meantime.timers.dispatching.supervisor import DispatcherSetup, DispatcherSupervisor
from meantime.timers.kafka_topics import admin_of, partitions_of, topics_ready
from meantime.timers.ledger.account import LedgerWriter
from meantime.timers.ledger.reader import LedgerOptions, LedgerReader
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.options import limits_of, topics_of
from meantime.timers.oscillator import AHEAD_S, Oscillator, Tick
from meantime.timers.oscillator_topic import open_oscillator_topic
from meantime.timers.reports import OscillatorReport
from meantime.timers.timers import ELECTION
from meantime.timers.topics import DUE

log = structlog.get_logger(__name__)

FORGET_EVERY = 30.0
REMEMBER_TICKS_FOR = 60


@dataclass(frozen=True, slots=True)
class Base:
    """What every process of timers stands on."""

    config: Config
    name: str
    storage: Storage
    session: Session
    clock: Clock
    database: Database
    store: LedgerStore


def run(work: Callable[[Base], Awaitable[None]], config: Config, name: str, health_port: int | None = None) -> None:
    """Run one of the processes below until SIGTERM or SIGINT."""
    logs.configure(config.log_level, config.log_format, process=name)
    uvloop.run(_until_stopped(work, config, name, health_port))


async def _until_stopped(
    work: Callable[[Base], Awaitable[None]], config: Config, name: str, health_port: int | None
) -> None:
    async with open_health_port(health_port) as health, open_base(config, name) as base:
        health.ready = True
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        working, stopping = asyncio.ensure_future(work(base)), asyncio.create_task(stop.wait())
        log.info("started")
        await asyncio.wait({working, stopping}, return_when=asyncio.FIRST_COMPLETED)
        outcome, _ = await end(working, stopping)
        if isinstance(outcome, Exception):
            raise outcome
    log.info("stopped")


@asynccontextmanager
async def open_base(config: Config, name: str) -> AsyncIterator[Base]:
    async with AsyncExitStack() as opened:
        database = await opened.enter_async_context(open_database(config.postgres, size=4))
        session = await opened.enter_async_context(open_session(session_options(config)))
        services = service_clocks(database, session)
        clock = await opened.enter_async_context(open_observed_clock(session, services, peer_options(config)))
        storage = await timers_storage(config, database)
        await topics_ready(admin_of(storage), topics_of(config))
        yield Base(config, name, storage, session, clock, database, LedgerStore(database))


async def oscillator(base: Base) -> None:
    """Stand for election, and write ticks when elected."""
    lead_s = base.config.timers_lead
    oscillating = Oscillator(partial(open_oscillator_topic, base.storage), base.clock, lead_s, base.store.last_tick)

    async def report(tick: Tick) -> None:
        with suppress(StorageUnavailable):
            await base.store.report(base.name, tick.written_at_ms, OscillatorReport(tick.last, tick.written_at_ms, lead_s))

    async def lead(_: Leadership) -> None:
        await oscillating.lead(report)

    await Election(base.session, ELECTION, base.name).run(lead)


async def dispatcher(base: Base) -> None:
    # It takes a while, and the other processes have no use for it.
    from meantime.processes.event_callbacks import open_callbacks
    from meantime.streams.catalog.adopted_topics import AdoptedTopics
    from meantime.streams.catalog.store import Store

    shares = await _shares(base)
    remember_ms = base.config.timers_remember * 1000
    config = base.config
    async with AsyncExitStack() as opened:
        listener = await opened.enter_async_context(open_listener(base.config.postgres))
        adopted = AdoptedTopics(Store(base.database), listener, base.storage.id)
        await opened.enter_async_context(kept_running(adopted.run, "adopted topics"))
        options = DispatcherOptions(
            shares, config.timers_lead, limits_of(config), near_s=config.timers_near, adopted=lambda: adopted.names
        )
        callbacks = await opened.enter_async_context(
            open_callbacks(base.database, listener, base.session, base.clock, base.name)
        )
        background = BackgroundWork(base.store, callbacks, base.clock, remember_ms)
        supervisor = DispatcherSupervisor(DispatcherSetup(base.name, base.storage, base.clock, options), background)
        await opened.enter_async_context(kept_running(background.follow_join, "timers join"))
        await opened.enter_async_context(kept_running(partial(supervisor.report, base.store), "timers report"))
        await adopted.known(within=5.0)
        await supervisor.run()


async def futures(base: Base, engine: Engine, checkpoint: str, batch_every: float) -> None:
    shares = await _shares(base)
    now_ms = base.clock.now_ms()
    options = FuturesOptions(
        storage=base.storage,
        checkpoint=checkpoint,
        shares=shares,
        limits=limits_of(base.config),
        batch_every=batch_every,
        remember_ticks_s=base.config.timers_lead + REMEMBER_TICKS_FOR,
        ticks_ahead_s=base.config.timers_lead + AHEAD_S,
        started_ms=now_ms,
        # Spark asks the machine for the time.
        behind_s=max(0, round(now_ms / 1000 - time.time())),
    )
    await run_futures(options, engine, base.store, base.name, base.clock.now_ms)


async def ledger(base: Base) -> None:
    """Keep the ledger at low priority: dispatchers and the Spark job come first."""
    step_back(15)
    spare_collector(50_000, 50, 50)
    reader = LedgerReader(base.storage, LedgerWriter(base.store), base.store, LedgerOptions(limits_of(base.config)))
    try:
        async with (
            kept_running(partial(_forget, base), "timers forget"),
            kept_running(partial(_report, base, reader), "timers report"),
        ):
            await reader.run()
    finally:
        reader.close()


async def _shares(base: Base) -> int:
    """Partitions that were added to `timer-due` have no part in it."""
    partitions = await asyncio.to_thread(partitions_of, admin_of(base.storage), DUE)
    shares = await base.store.agreed_shares(partitions)
    if shares != partitions:
        log.warning("partitions_left_unused", topic=DUE, partitions=partitions, shares=shares)
    return shares


async def _forget(base: Base) -> None:
    """Forget what ended long ago, a little at a time."""
    while True:
        with suppress(StorageUnavailable):
            now_ms = base.clock.now_ms()
            for _ in range(100):
                if not await base.store.forget(now_ms // 1000 - base.config.timers_remember):
                    break
                await asyncio.sleep(0.1)
            await base.store.forget_reports(now_ms - 86_400_000)
        await asyncio.sleep(FORGET_EVERY)


async def _report(base: Base, reader: LedgerReader) -> None:
    while True:
        await asyncio.sleep(2.0)
        with suppress(StorageUnavailable):
            await base.store.report(base.name, base.clock.now_ms(), await reader.report())
