"""The topics of timelines: made before they are needed, dropped when nobody needs them, never left behind.

A topic is put on the list of topics to drop before it is made, and taken off it by the transaction that gives it a timeline.
A node that dies in between leaves the entry behind, and any node drops the topic later.
"""

import asyncio
from uuid import uuid4

import structlog

from meantime.clock import Clock
from meantime.errors import MeantimeError, NotFound
from meantime.kafka.admin import Admins
from meantime.kafka.sealing import REFUSES_THE_FUTURE
from meantime.kafka.settings import Storage
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.store import Store
from meantime.streams.model import EventType

log = structlog.get_logger(__name__)

MAKE_WITHIN_MS = 120_000
DROP_WITHIN = 5.0


def new_topic_name(event_type: str, order: int) -> str:
    return topic_name(event_type, order, uuid4().hex[:8])


def topic_name(event_type: str, order: int, unique: str) -> str:
    """Kafka allows 249 characters, an event type has up to 255; the unique part keeps shortened names apart."""
    return f"{event_type[:200]}.{order}.{unique}"


def settings_of(event_type: EventType) -> dict[str, str]:
    return {
        "cleanup.policy": event_type.cleanup_policy.replace("_and_", ","),
        "retention.ms": str(event_type.retention_ms),
        **REFUSES_THE_FUTURE,
    }


class TimelineTopics:
    def __init__(self, store: Store, catalog: Catalog, admins: Admins, clock: Clock) -> None:
        self._store = store
        self._catalog = catalog
        self._admins = admins
        self._clock = clock

    async def make(self, storage: Storage, topic: str, event_type: EventType) -> None:
        await self._store.schedule_drop(storage.id, topic, self._clock.now_ms() + MAKE_WITHIN_MS)
        await self._admins.of(storage).create(topic, event_type.partitions, settings_of(event_type))

    async def drop(self, storage_id: str, topic: str) -> None:
        """Now if its storage answers, otherwise later by any node."""
        await self._store.schedule_drop(storage_id, topic, self._clock.now_ms())
        await self.drop_scheduled(storage_id, topic)

    async def drop_scheduled(self, storage_id: str, topic: str) -> None:
        try:
            async with asyncio.timeout(DROP_WITHIN):
                await self._admins.of(self._catalog.storage(storage_id)).drop(topic)
        except (TimeoutError, MeantimeError) as error:
            if not isinstance(error, NotFound):
                log.warning("topic_not_dropped_yet", storage_id=storage_id, topic=topic, error=str(error))
            return
        await self._store.forget_topic(storage_id, topic)
        log.info("topic_dropped", storage_id=storage_id, topic=topic)

    async def retain(self, storage_id: str, topic: str, retention_ms: int) -> None:
        """Tell the storage of a new retention."""
        await self._admins.of(self._catalog.storage(storage_id)).change(topic, {"retention.ms": str(retention_ms)})
