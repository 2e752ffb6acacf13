"""Event types: declared, changed and deleted, together with the topics that hold their events."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from uuid import uuid4

import structlog

from meantime.clock import Clock
from meantime.errors import Conflict, Invalid, MeantimeError, NotFound, StorageUnavailable
from meantime.kafka.admin import Admins
from meantime.kafka.settings import Storage
from meantime.streams.catalog.archive_hold import waits_for_archive
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.declarations import MAX_PARTITIONS, declare, redeclare
from meantime.streams.catalog.store import Store
from meantime.streams.catalog.timeline_topics import TimelineTopics, new_topic_name
from meantime.streams.model import EventType, Timeline

log = structlog.get_logger(__name__)


class EventTypes:
    def __init__(
        self,
        store: Store,
        catalog: Catalog,
        topics: TimelineTopics,
        admins: Admins,
        clock: Clock,
        *,
        min_retention_ms: int,
    ) -> None:
        self._store = store
        self._catalog = catalog
        self._topics = topics
        self._admins = admins
        self._clock = clock
        self._min_retention_ms = min_retention_ms

    async def all(self) -> list[dict[str, Any]]:
        return await self._store.event_type_documents()

    async def get(self, name: str) -> EventType:
        """As it is in the database now, whatever this node remembers."""
        return (await self._catalog.reload(name)).event_type

    async def create(self, given: Mapping[str, Any]) -> EventType:
        event_type = declare(given, self._clock.now_ms(), self._min_retention_ms)
        await self._refuse_duplicate(event_type.name)
        if event_type.adopt_topic is not None:
            return await self._adopt(event_type, event_type.adopt_topic)
        return await self._create(event_type, await self._default_storage())

    async def _create(self, event_type: EventType, storage: Storage) -> EventType:
        topic = new_topic_name(event_type.name, 1)
        first = Timeline(
            id=uuid4(),
            event_type=event_type.name,
            order=1,
            storage_id=storage.id,
            topic=topic,
            partitions=event_type.partitions,
            created_at_ms=event_type.created_at_ms,
            switched_at_ms=event_type.created_at_ms,
        )
        created = False
        try:
            await self._topics.make(storage, topic, event_type)
            created = await self._store.insert_event_type(event_type, first)
        finally:
            if not created:
                await self._topics.drop(storage.id, topic)
        if not created:
            raise _duplicate(event_type.name)
        self._catalog.forget(event_type.name)
        log.info("event_type_created", event_type=event_type.name, storage_id=storage.id, topic=topic)
        return event_type

    async def _adopt(self, event_type: EventType, topic: str) -> EventType:
        """Serve a topic that is there already. Where it ends now is the least that a forced switch must keep."""
        storage = await self._storage_to_adopt_from(event_type)
        admin = self._admins.of(storage)
        partitions = await self._partitions_of(topic, storage)
        adopted = replace(event_type, partitions=partitions, adopt_storage_id=storage.id).with_adopted_shown()
        ends = await admin.end_offsets(topic, partitions)
        await self._store.note_ends(storage.id, topic, [end - 1 for end in ends])
        if not await self._store.insert_event_type(adopted, None):
            raise _duplicate(event_type.name)
        self._catalog.forget(event_type.name)
        log.info("topic_adopted", event_type=event_type.name, storage_id=storage.id, topic=topic)
        return adopted

    async def _partitions_of(self, topic: str, storage: Storage) -> int:
        try:
            partitions = await self._admins.of(storage).partitions(topic)
        except Invalid as error:
            raise Invalid(f"topic {topic!r} of storage {storage.id!r} cannot be adopted: {error.detail}") from error
        if not partitions:
            raise Invalid(f"storage {storage.id!r} has no topic {topic!r} to adopt")
        if partitions > MAX_PARTITIONS:
            raise Invalid(
                f"topic {topic!r} of storage {storage.id!r} has {partitions} partitions;"
                f" an event type has at most {MAX_PARTITIONS}"
            )
        return partitions

    async def update(self, name: str, given: Mapping[str, Any]) -> EventType:
        while True:
            current = await self.get(name)
            updated = redeclare(current, given, self._clock.now_ms(), self._min_retention_ms)
            async with self._catalog.announced(name):
                done = await self._store.update_event_type(updated, current.version)
            if done:
                break
        if updated.retention_ms != current.retention_ms:
            await self._retain(updated)
        return await self.get(name)

    async def _retain(self, event_type: EventType) -> None:
        """A storage that does not answer keeps its old retention; the planned dates have moved all the same."""
        for timeline in await self._catalog.timelines(event_type.name):
            if timeline.deleted or timeline.fake or (timeline.closed and waits_for_archive(event_type.document)):
                continue
            try:
                await self._topics.retain(timeline.storage_id, timeline.topic, event_type.retention_ms)
            except MeantimeError as error:
                log.warning("retention_not_told", topic=timeline.topic, storage_id=timeline.storage_id, error=error.detail)

    async def delete(self, name: str) -> None:
        """An adopted topic stays as long as its timeline is fake: nothing was ever made of it here."""
        async with self._catalog.announced(name):
            scheduled = await self._store.delete_event_type(name, self._clock.now_ms())
        for storage_id, topic in scheduled:
            await self._topics.drop_scheduled(storage_id, topic)
        log.info("event_type_deleted", event_type=name, topics=len(scheduled))

    async def _refuse_duplicate(self, name: str) -> None:
        try:
            await self._catalog.reload(name)
        except NotFound:
            return
        raise _duplicate(name)

    async def _storage_to_adopt_from(self, event_type: EventType) -> Storage:
        """Which one it was is kept with the event type: another default later does not move the topic."""
        storage = await self._default_storage()
        if event_type.adopt_storage_id is None:
            return storage
        try:
            return self._catalog.storage(event_type.adopt_storage_id)
        except NotFound as error:
            raise Invalid(error.detail) from error

    async def _default_storage(self) -> Storage:
        await self._catalog.reload_storages()
        try:
            return self._catalog.default_storage()
        except NotFound as error:
            raise StorageUnavailable("no storage is registered yet") from error


def _duplicate(name: str) -> Conflict:
    return Conflict(f"event type {name!r} exists already")
