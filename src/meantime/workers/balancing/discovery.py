"""Which queues there are: the partitions of the event types that the application has jobs for.

New event types and new partitions are found without a restart. Every worker looks; the first to see a partition makes its
queue. An event type that was waited for is processed from its beginning: all of it has come after the start.
"""

import asyncio
from collections.abc import Mapping

import structlog

from meantime.errors import CorruptRecord, Forbidden, MeantimeError, NotFound, Unauthenticated
from meantime.sdk.async_client import AsyncClient
from meantime.workers.balancing.first_start import FirstStart, start_first
from meantime.workers.model import QueueSource
from meantime.workers.store import AppStore

log = structlog.get_logger(__name__)

LOOK_EVERY = 5.0
WAIT_EVERY = 1.0
"""Seconds between looks for an event type that is not there yet."""


class Discovery:
    def __init__(self, client: AsyncClient, store: AppStore, starts: Mapping[str, FirstStart]) -> None:
        """`starts`: where to begin, by event type."""
        self._client = client
        self._store = store
        self._starts = dict(starts)
        self._sources: dict[str, QueueSource] = {}
        self._allowed = False

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            for event_type in sorted(self._starts):
                group.create_task(self._follow(event_type))

    def of(self, queue: str) -> QueueSource | None:
        return self._sources.get(queue)

    async def eligible(self, queues: list[str]) -> list[str]:
        """Those that the application has a job for."""
        unknown = [queue for queue in queues if queue not in self._sources]
        await asyncio.gather(*map(self._learn, unknown))
        return [queue for queue in queues if queue in self._sources and self._is_mine(self._sources[queue])]

    def _is_mine(self, source: QueueSource) -> bool:
        return source.event_type in self._starts

    async def _learn(self, queue: str) -> None:
        try:
            source = (await self._store.queue(queue)).record.source
        except (NotFound, CorruptRecord) as error:
            log.error("queue_unreadable", queue=queue, detail=error.detail)
            return
        if source.event_type:
            self._sources[queue] = source

    async def _follow(self, event_type: str) -> None:
        missing = False
        while True:
            try:
                await self._look(event_type)
                missing = False
            except NotFound:
                if not missing:
                    log.warning("event_type_unknown", event_type=event_type, hint="waiting for it to be created")
                missing = True
                if self._starts[event_type] == "end":
                    self._starts[event_type] = "begin"
            except (Unauthenticated, Forbidden):
                if not self._allowed:
                    raise
                log.exception("not_allowed_any_more", event_type=event_type)
            except MeantimeError as error:
                log.warning("partitions_unknown", event_type=event_type, detail=error.detail)
            await asyncio.sleep(WAIT_EVERY if missing else LOOK_EVERY)

    async def _look(self, event_type: str) -> None:
        partitions = await self._client.partitions(event_type)
        self._allowed = True
        sources = [QueueSource(event_type, partition.partition) for partition in partitions]
        self._sources |= {source.queue: source for source in sources}
        await self._store.session.wait_connected()
        known = frozenset(await self._store.queues())
        missing = [source for source in sources if source.queue not in known]
        if not missing:
            return
        await self._store.ensure()
        if len(missing) == len(sources):
            await start_first(self._client, self._store, event_type, self._starts[event_type], partitions)
        elif created := await self._store.create_queues(sources, known):
            log.info("queues_made", event_type=event_type, queues=created)
