"""Event types, timelines and storages in PostgreSQL.

Every change to an event type notifies the channel `meantime_event_types` with its name in the same transaction, so nodes
hear of it exactly when it can be read.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from meantime.database.pool import Connection, Database
from meantime.database.queries import load
from meantime.errors import Conflict, NotFound, StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.streams.catalog.archive_hold import ARCHIVED_TIMELINE
from meantime.streams.model import EventType, Timeline, shown_adoption

EVENT_TYPES_CHANNEL = "meantime_event_types"
STORAGES_CHANNEL = "meantime_storages"


class Store:
    """Reads for the catalog; the writes of event types."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.queries = load("meantime.streams.catalog", "queries.sql")

    async def event_type(self, name: str) -> tuple[EventType, tuple[Timeline, ...], str] | None:
        """With its timelines, and the versions of the rows that were read."""
        rows = await self.database.fetch_all(self.queries["event_type_with_timelines"], {"name": name})
        if not rows:
            return None
        event_type = _event_type(rows[0])
        timelines = tuple(_timeline(row) for row in rows if row["id"] is not None)
        return event_type, timelines or (_fake_timeline(event_type),), rows[0]["row_versions"]

    async def row_versions(self, names: Iterable[str]) -> dict[str, str]:
        """Those of the event types that there are: the same text for as long as nobody changes one."""
        rows = await self.database.fetch_all(self.queries["row_versions_of"], {"names": list(names)})
        return {row["name"]: row["row_versions"] for row in rows}

    async def existing(self, names: Iterable[str]) -> set[str]:
        """Those of the names that event types have."""
        rows = await self.database.fetch_all(self.queries["existing_event_types"], {"names": list(names)})
        return {row["name"] for row in rows}

    async def event_type_documents(self) -> list[dict[str, Any]]:
        rows = await self.database.fetch_all(self.queries["event_type_documents"])
        return [row["document"] | shown_adoption(row["adopt_topic"], row["adopt_storage_id"]) for row in rows]

    async def adopted_topics(self, storage_id: str) -> frozenset[str]:
        """In this storage, or in another one that is the same Kafka cluster."""
        rows = await self.database.fetch_all(self.queries["adopted_topics"], {"storage_id": storage_id})
        return frozenset(row["adopt_topic"] for row in rows)

    async def storages(self) -> tuple[Storage, ...]:
        return tuple(_storage(row) for row in await self.database.fetch_all(self.queries["storages"]))

    async def insert_event_type(self, event_type: EventType, first: Timeline | None) -> bool:
        """Declare it, with its first timeline unless it adopts a topic; False when the name is taken."""
        async with self.database.transaction() as connection:
            cursor = await connection.execute(self.queries["insert_event_type"], _declaration(event_type))
            if cursor.rowcount == 0:
                return False
            if first is not None:
                await self.insert_timeline(connection, first, made_here=True)
            await self.notify(connection, event_type.name)
        return True

    async def insert_timeline(self, connection: Connection, timeline: Timeline, *, made_here: bool) -> None:
        """Give a topic its timeline. One that was made for it is taken off the list of topics to drop; if it is not there
        any more, making it took too long and another node has dropped it."""
        await connection.execute(self.queries["insert_timeline"], _timeline_params(timeline))
        place = {"storage_id": timeline.storage_id, "topic": timeline.topic}
        spared = await connection.execute(self.queries["spare_topic"], place)
        if made_here and spared.rowcount == 0:
            raise StorageUnavailable("the new topic was given up because it took too long to make")

    async def update_event_type(self, event_type: EventType, believed_version: int) -> bool:
        async with self.database.transaction() as connection:
            params = _declaration(event_type) | {"version": believed_version}
            cursor = await connection.execute(self.queries["update_event_type"], params)
            if cursor.rowcount == 0:
                return False
            await connection.execute(
                self.queries["move_cleanup"], {"name": event_type.name, "retention_ms": event_type.retention_ms}
            )
            await self.notify(connection, event_type.name)
        return True

    async def delete_event_type(self, name: str, now_ms: int) -> list[tuple[str, str]]:
        """Delete it and schedule its topics to be dropped, which are returned; `Conflict` while it is needed."""
        async with self.database.transaction() as connection:
            locked = await connection.execute(self.queries["lock_event_type"], {"name": name})
            if await locked.fetchone() is None:
                raise NotFound(f"event type {name!r} does not exist")
            await self._refuse_while_needed(connection, name)
            rows = await (await connection.execute(self.queries["topics_of"], {"name": name})).fetchall()
            for row in rows:
                await connection.execute(self.queries["doom_topic"], {**row, "not_before_ms": now_ms})
            await connection.execute(self.queries["delete_event_type"], {"name": name})
            await self.notify(connection, name)
        return [(row["storage_id"], row["topic"]) for row in rows]

    async def _refuse_while_needed(self, connection: Connection, name: str) -> None:
        row = await (await connection.execute(self.queries["needs"], {"name": name})).fetchone()
        assert row is not None
        if row["subscriptions"]:
            more = (
                f" and {row['subscriptions'] - len(row['named'])} more" if row["subscriptions"] > len(row["named"]) else ""
            )
            raise Conflict(
                f"event type {name!r} has subscriptions; delete them first: {', '.join(row['named'])}{more}",
                subscriptions=row["named"],
            )
        if row["switches"]:
            raise Conflict(f"a switch of event type {name!r} is running")

    async def note_ends(self, storage_id: str, topic: str, offsets: list[int]) -> None:
        params = {
            "storage_ids": [storage_id] * len(offsets),
            "topics": [topic] * len(offsets),
            "partitions": list(range(len(offsets))),
            "offsets": offsets,
        }
        await self.database.execute(self.queries["raise_acknowledged"], params)

    async def notify(self, connection: Connection, name: str) -> None:
        await connection.execute(self.queries["notify_event_type"], {"name": name})

    # Topics to drop

    async def schedule_drop(self, storage_id: str, topic: str, not_before_ms: int) -> None:
        params = {"storage_id": storage_id, "topic": topic, "not_before_ms": not_before_ms}
        await self.database.execute(self.queries["doom_topic"], params)

    async def scheduled_drops(self, now_ms: int) -> list[tuple[str, str]]:
        rows = await self.database.fetch_all(self.queries["doomed_topics"], {"now_ms": now_ms})
        return [(row["storage_id"], row["topic"]) for row in rows]

    async def expire_timelines(self, now_ms: int) -> list[tuple[str, str, str]]:
        """Mark closed timelines whose time is over as deleted, and schedule the drop of their topics, which are returned."""
        async with self.database.transaction() as connection:
            params = {"now_ms": now_ms, "mark": ARCHIVED_TIMELINE}
            rows = await (await connection.execute(self.queries["expired_timelines"], params)).fetchall()
            for row in rows:
                place = {"storage_id": row["storage_id"], "topic": row["topic"]}
                await connection.execute(self.queries["doom_topic"], {**place, "not_before_ms": now_ms})
                await self.notify(connection, row["event_type"])
        return [(row["event_type"], row["storage_id"], row["topic"]) for row in rows]

    async def held(self) -> list[tuple[str, str]]:
        """Topics of closed timelines that are kept for an archive."""
        rows = await self.database.fetch_all(self.queries["held_timelines"], {"mark": ARCHIVED_TIMELINE})
        return [(row["storage_id"], row["topic"]) for row in rows]

    async def unsealed(self) -> list[tuple[str, str]]:
        rows = await self.database.fetch_all(self.queries["unsealed_timelines"])
        return [(row["storage_id"], row["topic"]) for row in rows]

    async def mark_sealed(self, storage_id: str, topic: str) -> None:
        await self.database.execute(self.queries["mark_sealed"], {"storage_id": storage_id, "topic": topic})

    async def forget_topic(self, storage_id: str, topic: str) -> None:
        """The topic is gone, and with it all that was known of it."""
        place = {"storage_id": storage_id, "topic": topic}
        await self.database.execute(self.queries["forget_acknowledged"], place)
        await self.database.execute(self.queries["spare_topic"], place)


def _event_type(row: Mapping[str, Any]) -> EventType:
    document: dict[str, Any] = row["document"] | shown_adoption(row["adopt_topic"], row["adopt_storage_id"])
    return EventType(
        name=row["name"],
        category=row["category"],
        partition_strategy=document["partition_strategy"],
        partition_key_fields=tuple(document["partition_key_fields"]),
        partitions=row["declared_partitions"],
        retention_ms=row["retention_ms"],
        cleanup_policy=row["cleanup_policy"],
        adopt_topic=row["adopt_topic"],
        document=document,
        version=row["version"],
        adopt_storage_id=row["adopt_storage_id"],
        created_at_ms=row["declared_at_ms"],
        updated_at_ms=row["updated_at_ms"],
    )


def _timeline(row: Mapping[str, Any]) -> Timeline:
    offsets = row["latest_offsets"]
    return Timeline(
        id=row["id"],
        event_type=row["event_type"],
        order=row["ord"],
        storage_id=row["storage_id"],
        topic=row["topic"],
        partitions=row["partitions"],
        created_at_ms=row["created_at_ms"],
        switched_at_ms=row["switched_at_ms"],
        closed_at_ms=row["closed_at_ms"],
        latest_offsets=None if offsets is None else tuple(offsets),
        cleaned_up_at_ms=row["cleaned_up_at_ms"],
        deleted=row["deleted"],
    )


def _fake_timeline(event_type: EventType) -> Timeline:
    """What serves an event type that has no timeline in the database: the topic it adopted, in memory only."""
    assert event_type.adopt_topic is not None
    assert event_type.adopt_storage_id is not None
    return Timeline(
        id=None,
        event_type=event_type.name,
        order=0,
        storage_id=event_type.adopt_storage_id,
        topic=event_type.adopt_topic,
        partitions=event_type.partitions,
        created_at_ms=event_type.created_at_ms,
        switched_at_ms=event_type.created_at_ms,
    )


def _timeline_params(timeline: Timeline) -> dict[str, UUID | str | int | None]:
    return {
        "id": timeline.id,
        "event_type": timeline.event_type,
        "ord": timeline.order,
        "storage_id": timeline.storage_id,
        "topic": timeline.topic,
        "partitions": timeline.partitions,
        "created_at_ms": timeline.created_at_ms,
        "switched_at_ms": timeline.switched_at_ms,
    }


def _declaration(event_type: EventType) -> dict[str, Any]:
    return {
        "name": event_type.name,
        "document": Jsonb(event_type.document),
        "category": event_type.category,
        "partitions": event_type.partitions,
        "retention_ms": event_type.retention_ms,
        "cleanup_policy": event_type.cleanup_policy,
        "adopt_topic": event_type.adopt_topic,
        "adopt_storage_id": event_type.adopt_storage_id,
        "now_ms": event_type.updated_at_ms,
    }


def _storage(row: Mapping[str, Any]) -> Storage:
    return Storage(
        id=row["id"],
        bootstrap_servers=row["bootstrap_servers"],
        settings=row["settings"],
        default=row["is_default"],
        storage_type=row["storage_type"],
    )
