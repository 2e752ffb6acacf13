"""Switches in PostgreSQL: the row that makes a switch resumable, and the one transaction that is its commit.

Every step is conditional on the epoch that its owner believes in; `Superseded` says that another owner has taken over.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import asdict, replace
from typing import Any
from uuid import UUID

from psycopg.types.json import Jsonb

from meantime.database.pool import Connection
from meantime.database.queries import load
from meantime.errors import Conflict, NotFound, UnknownReference
from meantime.streams.catalog.store import Store
from meantime.streams.model import Timeline
from meantime.streams.switching.acknowledged import StoragePartition
from meantime.streams.switching.model import Switch, SwitchAcknowledgement, SwitchOwner, SwitchPhase, SwitchState


class Superseded(Exception):
    """Another node has taken this switch over; it is no longer ours to do anything about."""


class SwitchStore:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._database = store.database
        self._queries = load("meantime.streams.switching", "queries.sql")

    async def begin(self, switch: Switch) -> None:
        """Claim the event type for this switch. Holding its row keeps deletion and healing out meanwhile."""
        async with self._database.transaction() as connection:
            await self._lock_event_type(connection, switch.event_type)
            cursor = await connection.execute(self._store.queries["share_storage"], {"id": switch.storage_id})
            if await cursor.fetchone() is None:
                raise UnknownReference(f"storage {switch.storage_id!r} does not exist")
            cursor = await connection.execute(self._queries["insert_switch"], _params(switch))
            if cursor.rowcount == 0:
                raise Conflict(f"a switch of event type {switch.event_type!r} is running")

    async def running(self, event_type: str) -> Switch | None:
        row = await self._database.fetch_one(self._queries["running_switch"], {"event_type": event_type})
        return _switch(row) if row else None

    async def all_running(self) -> list[Switch]:
        return [_switch(row) for row in await self._database.fetch_all(self._queries["running_switches"])]

    async def by_key(self, event_type: str, key: str, since_ms: int) -> Switch | None:
        params = {"event_type": event_type, "idempotency_key": key, "since_ms": since_ms}
        row = await self._database.fetch_one(self._queries["switch_by_key"], params)
        return _switch(row) if row else None

    async def of(self, event_type: str) -> list[Switch]:
        rows = await self._database.fetch_all(self._queries["switches_of"], {"event_type": event_type})
        return [_switch(row) for row in rows]

    async def get(self, id: UUID) -> Switch | None:
        row = await self._database.fetch_one(self._queries["switch_by_id"], {"id": id})
        return _switch(row) if row else None

    async def advance(self, switch: Switch, state: SwitchState, **changes: Any) -> Switch:
        row = await self._database.fetch_one(
            self._queries["advance_switch"], _params(replace(switch, state=state, **changes))
        )
        if row is None:
            raise Superseded
        return _switch(row)

    async def take_over(self, switch: Switch, owner: SwitchOwner) -> Switch | None:
        """The switch as it stands, now owned by `owner`; None when it is over or another node was quicker."""
        row = await self._database.fetch_one(self._queries["take_over_switch"], _params(replace(switch, owner=owner)))
        return _switch(row) if row else None

    async def commit(self, switch: Switch, active: Timeline, ends: tuple[int, ...] | None, now_ms: int) -> Switch:
        """Close the active timeline at `ends` and open the next, or do nothing.

        What nodes are known to have acknowledged is read here, so that nobody can acknowledge more in between; the timeline
        is never closed before it. A replica that was behind when it became the leader may still show less. `ends` is None
        when the storage is dead: then there is nothing else to go by.
        """
        async with self._database.transaction() as connection:
            await self._lock_event_type(connection, switch.event_type)
            cursor = await connection.execute(self._queries["commit_switch"], _params(switch))
            row = await cursor.fetchone()
            if row is None:
                raise Superseded
            order = await self._make_real(connection, switch, active)
            await self._close(connection, active, order, ends, now_ms)
            following = Timeline(
                id=switch.timeline_id,
                event_type=switch.event_type,
                order=order + 1,
                storage_id=switch.storage_id,
                topic=switch.new_topic,
                partitions=active.partitions,
                created_at_ms=switch.started_at_ms,
                switched_at_ms=now_ms,
            )
            await self._store.insert_timeline(connection, following, made_here=True)
            await self._store.notify(connection, switch.event_type)
        return _switch(row)

    async def _make_real(self, connection: Connection, switch: Switch, active: Timeline) -> int:
        """A fake timeline becomes the first real one, in the same topic; says the order of what is to be closed."""
        if not active.fake:
            return active.order
        real = replace(active, id=_first_id(switch), order=1)
        await self._store.insert_timeline(connection, real, made_here=False)
        return 1

    async def _close(
        self, connection: Connection, active: Timeline, order: int, ends: tuple[int, ...] | None, now_ms: int
    ) -> None:
        known = await self._acknowledged(connection, active)
        if ends is not None:
            known = tuple(map(max, ends, known))
        row = await (await connection.execute(self._queries["retention_of"], {"name": active.event_type})).fetchone()
        params = {
            "event_type": active.event_type,
            "ord": order,
            "latest_offsets": list(known),
            "sealed": ends is not None,
            "now_ms": now_ms,
            "retention_ms": row["retention_ms"] if row else 0,
        }
        cursor = await connection.execute(self._store.queries["close_timeline"], params)
        if cursor.rowcount != 1:
            raise Conflict(f"the active timeline of event type {active.event_type!r} has changed")

    async def acknowledged(self, active: Timeline) -> tuple[int, ...]:
        """The last offset of each partition that nodes have told to have acknowledged by now."""
        async with self._database.connection() as connection:
            return await self._acknowledged(connection, active)

    async def _acknowledged(self, connection: Connection, active: Timeline) -> tuple[int, ...]:
        params = {"storage_id": active.storage_id, "topic": active.topic}
        cursor = await connection.execute(self._store.queries["acknowledged"], params)
        known = {row["partition"]: row["acked_offset"] for row in await cursor.fetchall()}
        return tuple(known.get(partition, -1) for partition in range(active.partitions))

    @asynccontextmanager
    async def without_switch(self, timeline: Timeline) -> AsyncIterator[bool]:
        """While the block runs no switch of this event type can start; False when one runs or the timeline is not active."""
        async with self._database.transaction() as connection:
            await self._lock_event_type(connection, timeline.event_type)
            params = {"event_type": timeline.event_type}
            running = await (await connection.execute(self._queries["running_switch"], params)).fetchone()
            active = await (await connection.execute(self._queries["active_topic"], params)).fetchone()
            place = (timeline.storage_id, timeline.topic)
            yield running is None and (timeline.fake if active is None else (active["storage_id"], active["topic"]) == place)

    async def settings_before(self, timeline: Timeline) -> dict[str, str | None]:
        place = {"storage_id": timeline.storage_id, "topic": timeline.topic}
        row = await self._database.fetch_one(self._queries["last_failed_settings"], place)
        return dict(row["old_settings"]) if row else {}

    async def raise_acknowledged(self, offsets: Mapping[StoragePartition, int]) -> None:
        await self._database.execute(self._store.queries["raise_acknowledged"], _columns(offsets))

    async def acknowledge(self, timeline: Timeline, offsets: Mapping[int, int]) -> bool:
        """Write down what was written to an active timeline, at once; False when a switch has left it behind.

        For a node that initiators do not count: its answer to a publisher must not depend on having been asked.
        """
        async with self._database.transaction() as connection:
            await connection.execute(self._store.queries["share_event_type"], {"name": timeline.event_type})
            cursor = await connection.execute(self._queries["active_topic"], {"event_type": timeline.event_type})
            active = await cursor.fetchone()
            if active is not None and (active["storage_id"], active["topic"]) != (timeline.storage_id, timeline.topic):
                return await self._inside(connection, timeline, offsets)
            places = {
                StoragePartition(timeline.storage_id, timeline.topic, part): offset for part, offset in offsets.items()
            }
            await connection.execute(self._store.queries["raise_acknowledged"], _columns(places))
        return True

    async def _inside(self, connection: Connection, timeline: Timeline, offsets: Mapping[int, int]) -> bool:
        cursor = await connection.execute(
            self._queries["ends_of_topic"], {"event_type": timeline.event_type, "topic": timeline.topic}
        )
        row = await cursor.fetchone()
        return row is not None and all(offset <= row["latest_offsets"][part] for part, offset in offsets.items())

    async def _lock_event_type(self, connection: Connection, name: str) -> None:
        cursor = await connection.execute(self._store.queries["lock_event_type"], {"name": name})
        if await cursor.fetchone() is None:
            raise NotFound(f"event type {name!r} does not exist")


def _first_id(switch: Switch) -> UUID:
    """Derived, so that it needs no column: the id that the fake timeline gets when it is made real."""
    return UUID(int=switch.timeline_id.int ^ 1)


def _columns(offsets: Mapping[StoragePartition, int]) -> dict[str, list[Any]]:
    return {
        "storage_ids": [place.storage_id for place in offsets],
        "topics": [place.topic for place in offsets],
        "partitions": [place.partition for place in offsets],
        "offsets": list(offsets.values()),
    }


def _params(switch: Switch) -> dict[str, Any]:
    return {
        "id": switch.id,
        "event_type": switch.event_type,
        "state": switch.state.value,
        "epoch": switch.epoch,
        "owner": switch.owner.node_id,
        "owner_session": switch.owner.session,
        "force": switch.force,
        "old_storage_id": switch.old_storage_id,
        "old_topic": switch.old_topic,
        "old_settings": Jsonb(switch.old_settings),
        "storage_id": switch.storage_id,
        "new_topic": switch.new_topic,
        "timeline_id": switch.timeline_id,
        "idempotency_key": switch.idempotency_key,
        "started_at_ms": switch.started_at_ms,
        "finished_at_ms": switch.finished_at_ms,
        "stall_ms": switch.stall_ms,
        "error": switch.error,
        "overtaken": list(switch.overtaken),
        "phases": Jsonb([asdict(phase) for phase in switch.phases]),
        "acknowledged": Jsonb([asdict(one) for one in switch.acknowledged]),
    }


def _switch(row: Mapping[str, Any]) -> Switch:
    made = ("owner", "state", "overtaken", "phases", "acknowledged")
    return Switch(
        **{name: row[name] for name in Switch.__slots__ if name not in made},
        state=SwitchState(row["state"]),
        owner=SwitchOwner(row["owner"], row["owner_session"]),
        overtaken=tuple(row["overtaken"]),
        phases=tuple(SwitchPhase(**one) for one in row["phases"]),
        acknowledged=tuple(SwitchAcknowledgement(**one) for one in row["acknowledged"]),
    )
