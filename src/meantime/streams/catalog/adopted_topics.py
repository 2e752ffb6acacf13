"""The Kafka topics that event types have adopted: they may have any name, and nobody but publishers may write there.

Topics that are made for timelines are known by their names (`names.TIMELINE_TOPIC`).
"""

import asyncio

import structlog

from meantime.errors import MeantimeError
from meantime.streams.catalog.catalog import ChangeNotifications
from meantime.streams.catalog.store import EVENT_TYPES_CHANNEL, Store

log = structlog.get_logger(__name__)

LOOK_EVERY = 10.0
AGAIN_AFTER = 0.5


class AdoptedTopics:
    """Those of one Kafka cluster, kept up to date by notifications."""

    def __init__(self, store: Store, news: ChangeNotifications, storage_id: str) -> None:
        self._store = store
        self._storage_id = storage_id
        self._changed = asyncio.Event()
        self._known = asyncio.Event()
        self.names: frozenset[str] = frozenset()
        news.subscribe(EVENT_TYPES_CHANNEL, self._on_event_type_changed)

    async def known(self, within: float) -> None:
        """Wait until they have been read once. Without PostgreSQL it goes on without them: most callbacks need neither."""
        try:
            async with asyncio.timeout(within):
                await self._known.wait()
        except TimeoutError:
            log.warning("adopted_topics_unknown", waited_for=within)

    async def run(self) -> None:
        """For ever. Many changes in a row are read at once."""
        while True:
            self._changed.clear()
            try:
                self.names = await self._store.adopted_topics(self._storage_id)
                self._known.set()
                await self._wait_for_change()
            except MeantimeError as error:
                log.info("adopted_topics_not_read", error=error.detail)
            await asyncio.sleep(AGAIN_AFTER)

    async def _wait_for_change(self) -> None:
        try:
            async with asyncio.timeout(LOOK_EVERY):
                await self._changed.wait()
        except TimeoutError:
            return

    def _on_event_type_changed(self, name: str | None, /) -> None:
        self._changed.set()
