"""Timers as one part of a node: setting, cancelling, looking up, and watching over the processes that do the rest."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import structlog

from meantime.clock import Clock
from meantime.coordination.session import Session
from meantime.database.pool import Database
from meantime.errors import NotFound, StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.tasks import running
from meantime.timers.kafka_topics import admin_of, topics_ready
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.model import Identity, Limits, Standing
from meantime.timers.request_parsing import Wishes
from meantime.timers.request_producer import RequestWriter, open_requests
from meantime.timers.requesting import Setting
from meantime.timers.status import TimersStatus, Watching
from meantime.timers.topics import Topic

ELECTION = "oscillator"
LOOK_EVERY = 1.0

log = structlog.get_logger(__name__)

FindStorage = Callable[[], Awaitable[Storage]]


@dataclass(frozen=True, slots=True)
class TimersOptions:
    """`storage` finds where timers live; `trusted` raises when this node's clock may be wrong."""

    storage: FindStorage
    limits: Limits
    topics: tuple[Topic, ...]
    trusted: Callable[[], None]


class Timers:
    """What the API uses."""

    def __init__(self, setting: Setting, watching: Watching) -> None:
        self._setting = setting
        self._watching = watching

    async def set(self, body: bytes) -> Wishes:
        return await self._setting.set(body)

    async def cancel(self, token: str, at: int | None = None) -> Identity:
        return await self._setting.cancel(token, at)

    async def show(self, token: str, at: int | None = None) -> Standing:
        return await self._setting.show(token, at)

    async def load(self, start: int, end: int, step: int) -> list[tuple[int, int]]:
        return await self._setting.load(start, end, step)

    async def status(self) -> TimersStatus:
        return await self._watching.status()


@asynccontextmanager
async def open_timers(database: Database, session: Session, clock: Clock, options: TimersOptions) -> AsyncIterator[Timers]:
    """Waits for nothing: without Kafka or PostgreSQL calls that need them answer 503, and mend themselves."""
    store = LedgerStore(database)
    async with AsyncExitStack() as opened:
        writer = await opened.enter_async_context(open_requests(options.limits.max_request_bytes + 65_536))
        watching = Watching(store, session, ELECTION, clock)
        await opened.enter_async_context(running(_connect(writer, options), name="timers storage"))
        await opened.enter_async_context(running(watching.run(), name="timers watch"))
        yield Timers(Setting(writer, store, clock, options.limits, options.trusted), watching)


async def _connect(writer: RequestWriter, options: TimersOptions) -> None:
    storage = await found(options.storage)
    writer.connect(storage)
    await topics_ready(admin_of(storage), options.topics)


async def found(find: FindStorage) -> Storage:
    """The storage of timers, waited for until it is registered."""
    while True:
        try:
            return await find()
        except (NotFound, StorageUnavailable) as error:
            log.warning("timers_storage_unknown", error=error.detail)
            await asyncio.sleep(LOOK_EVERY)
