"""Timers as one part of a node: requests to set, cancel and look up, and the monitor of the processes that do the rest."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from meantime.clock import Clock
from meantime.coordination.session import Session
from meantime.database.pool import Database
from meantime.errors import StorageUnavailable
from meantime.supervision import kept_running
from meantime.timers.kafka_topics import admin_of, topics_ready
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.options import TimersOptions
from meantime.timers.request_producer import RequestProducer, open_request_producer
from meantime.timers.requesting import TimerRequests
from meantime.timers.status import TimersMonitor

ELECTION = "oscillator"
AGAIN_AFTER = 1.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Timers:
    """What the API uses."""

    requests: TimerRequests
    monitor: TimersMonitor


@asynccontextmanager
async def open_timers(database: Database, session: Session, clock: Clock, options: TimersOptions) -> AsyncIterator[Timers]:
    """Waits for nothing: without Kafka or PostgreSQL calls that need them answer 503, and mend themselves."""
    store = LedgerStore(database)
    async with AsyncExitStack() as opened:
        producer = await opened.enter_async_context(open_request_producer(options.limits.max_request_bytes + 65_536))
        requests, monitor = TimerRequests(producer, store, clock, options), TimersMonitor(store, session, ELECTION, clock)
        await opened.enter_async_context(kept_running(partial(_connect, producer, requests, options), "timers storage"))
        await opened.enter_async_context(kept_running(monitor.run, "timers monitor"))
        yield Timers(requests, monitor)


async def _connect(producer: RequestProducer, requests: TimerRequests, options: TimersOptions) -> None:
    """Once it is known where timers live; a storage that cannot be used may be registered anew."""
    while True:
        storage = await options.storage()
        try:
            producer.connect(storage)
            requests.targets.connect(storage)
            await topics_ready(admin_of(storage), options.topics)
        except StorageUnavailable as error:
            log.warning("timers_storage_unusable", error=error.detail)
            await asyncio.sleep(AGAIN_AFTER)
        else:
            return
