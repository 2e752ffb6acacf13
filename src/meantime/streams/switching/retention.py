"""The duty that cleans up: closed timelines whose time is over, topics that nobody needs, topics that were left unsealed.

Any node may do it at any time: what one has claimed in the database another does not find. Rows of timelines stay, so that
old cursors can be answered. A node that does not trust its clock cleans nothing up. A closed timeline that waits for an
archive is kept as a whole: its storage is told to delete none of its records by age.
"""

import asyncio
from collections.abc import Callable

import structlog

from meantime.clock import Clock
from meantime.errors import MeantimeError, NotFound
from meantime.streams.catalog.store import Store
from meantime.streams.catalog.timeline_topics import TimelineTopics
from meantime.streams.switching.tools import SwitchTools

log = structlog.get_logger(__name__)

CLEAN_EVERY = 2.0
KEEP_ALL_MS = -1


class Retention:
    def __init__(
        self, store: Store, topics: TimelineTopics, tools: SwitchTools, clock: Clock, trusted: Callable[[], bool]
    ) -> None:
        self._store = store
        self._topics = topics
        self._tools = tools
        self._clock = clock
        self._trusted = trusted
        self._holding: set[tuple[str, str]] = set()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(CLEAN_EVERY)
            try:
                await self.run_once()
            except MeantimeError as error:
                log.info("retention_put_off", error=error.detail)
            except Exception:
                log.exception("retention_failed")

    async def run_once(self) -> None:
        await self._hold()
        if not self._trusted():
            return
        for event_type, storage_id, topic in await self._store.expire_timelines(self._clock.now_ms()):
            log.info("timeline_cleaned_up", event_type=event_type, storage_id=storage_id, topic=topic)
        scheduled, unsealed = await self._store.scheduled_drops(self._clock.now_ms()), await self._store.unsealed()
        if scheduled or unsealed:
            await self._tools.catalog.reload_storages()
        for storage_id, topic in scheduled:
            await self._topics.drop_scheduled(storage_id, topic)
        for storage_id, topic in unsealed:
            await self._seal(storage_id, topic)

    async def _hold(self) -> None:
        held = set(await self._store.held())
        self._holding &= held
        if held - self._holding:
            await self._tools.catalog.reload_storages()
        for storage_id, topic in held - self._holding:
            try:
                await self._topics.retain(storage_id, topic, KEEP_ALL_MS)
            except MeantimeError as error:
                log.debug("topic_not_held_yet", storage_id=storage_id, topic=topic, error=error.detail)
                continue
            self._holding.add((storage_id, topic))

    async def _seal(self, storage_id: str, topic: str) -> None:
        """A forced switch left this topic in a dead storage; seal it as soon as the storage is back."""
        try:
            await self._tools.sealer(self._tools.catalog.storage(storage_id)).seal(topic)
        except NotFound:
            log.info("unsealed_topic_is_gone", storage_id=storage_id, topic=topic)
        except MeantimeError as error:
            log.debug("storage_still_dead", storage_id=storage_id, error=error.detail)
            return
        await self._store.mark_sealed(storage_id, topic)
        log.info("topic_sealed_late", storage_id=storage_id, topic=topic)
