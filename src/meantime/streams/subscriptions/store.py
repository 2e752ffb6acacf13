"""Subscriptions and their committed cursors in PostgreSQL: what has been committed is never lost.

A commit names its stream, and moves a cursor only while that stream holds the partition: a stream that lost it to another
one cannot commit any more. Committed orders start at 1: a fake timeline gets that number at its first switch.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import msgspec
from psycopg.types.json import Jsonb

from meantime.database.pool import Database
from meantime.database.queries import load
from meantime.streams.cursors import Cursor
from meantime.streams.model import PartitionKey
from meantime.streams.subscriptions.model import Committed, GivenSubscriptionCursor, Subscription, SubscriptionDraft

COMMITS_CHANNEL = "meantime_commits"
SUBSCRIPTIONS_CHANNEL = "meantime_subscriptions"


@dataclass(frozen=True, slots=True)
class CommitResult:
    """What a commit did to a partition: who held it, where it was before, whether it has moved."""

    stream_id: UUID | None
    before: Cursor
    moved: bool


class SubscriptionStore:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._queries = load("meantime.streams.subscriptions", "queries.sql")

    async def insert(self, id: UUID, draft: SubscriptionDraft, now_ms: int) -> tuple[Subscription | None, bool]:
        """The subscription, and whether it is a new one; None when an event type does not exist."""
        params = _draft(draft) | {"id": id, "now_ms": now_ms}
        async with self._database.transaction() as connection:
            shared = await connection.execute(self._queries["share_event_types"], params)
            if shared.rowcount != len(draft.event_types):
                return None, False
            inserted = await connection.execute(self._queries["insert_subscription"], params)
        row = await self._database.fetch_one(self._queries["same_subscription"], params)
        return (None if row is None else _subscription(row)), inserted.rowcount == 1

    async def same(self, draft: SubscriptionDraft) -> Subscription | None:
        row = await self._database.fetch_one(self._queries["same_subscription"], _draft(draft))
        return None if row is None else _subscription(row)

    async def subscription(self, id: UUID) -> Subscription | None:
        row = await self._database.fetch_one(self._queries["subscription"], {"id": id})
        return None if row is None else _subscription(row)

    async def subscriptions(
        self, owning_application: str | None, event_types: Collection[str], offset: int, limit: int
    ) -> list[Subscription]:
        params = {
            "owning_application": owning_application,
            "event_types": list(event_types),
            "offset": offset,
            "limit": limit,
        }
        return [_subscription(row) for row in await self._database.fetch_all(self._queries["subscriptions"], params)]

    async def update_access(self, id: UUID, access: Any, now_ms: int) -> None:
        params = {"id": id, "access": None if access is None else Jsonb(access), "now_ms": now_ms}
        await self._database.execute(self._queries["update_access"], params)

    async def delete(self, id: UUID) -> bool:
        return bool(await self._database.fetch_all(self._queries["delete_subscription"], {"id": id}))

    async def cursors(self, id: UUID) -> dict[PartitionKey, Committed]:
        rows = await self._database.fetch_all(self._queries["cursors"], {"id": id})
        return {(row["event_type"], row["partition"]): _committed(row) for row in rows}

    async def all_cursors(self) -> list[tuple[str, str, PartitionKey, Cursor]]:
        """Of all subscriptions that were ever read, each with its application and group."""
        rows = await self._database.fetch_all(self._queries["all_cursors"])
        return [
            (
                row["owning_application"],
                row["consumer_group"],
                (row["event_type"], row["partition"]),
                Cursor(row["ord"], row["committed_offset"]),
            )
            for row in rows
        ]

    async def unread(self) -> list[Subscription]:
        """Those that nobody has ever read."""
        return [_subscription(row) for row in await self._database.fetch_all(self._queries["unread_subscriptions"])]

    async def initialise(self, id: UUID, places: Mapping[PartitionKey, Cursor]) -> None:
        await self._database.execute(self._queries["initialise_cursors"], {"id": id} | _arrays(places))

    async def reset(self, id: UUID, places: Mapping[PartitionKey, Cursor]) -> None:
        await self._database.execute(self._queries["reset_cursors"], {"id": id} | _arrays(places))

    async def claim(
        self, id: UUID, key: PartitionKey, stream_id: UUID, node_id: str, claim: int, *, forced: bool = False
    ) -> Cursor | None:
        """Make the stream the one that may commit; where it has to go on, or None when a newer claim stands."""
        params = {"id": id, "event_type": key[0], "partition": key[1], "stream_id": stream_id}
        params |= {"node_id": node_id, "claim": claim, "forced": forced}
        row = await self._database.fetch_one(self._queries["claim_cursor"], params)
        return None if row is None else Cursor(row["ord"], row["committed_offset"])

    async def release(self, id: UUID, key: PartitionKey, stream_id: UUID) -> None:
        params = {"id": id, "event_type": key[0], "partition": key[1], "stream_id": stream_id}
        await self._database.execute(self._queries["release_cursor"], params)

    async def commit(
        self, id: UUID, stream_id: UUID, node_id: str, places: Mapping[PartitionKey, Cursor]
    ) -> dict[PartitionKey, CommitResult]:
        params = {"id": id, "stream_id": stream_id, "node_id": node_id} | _arrays(places)
        rows = await self._database.fetch_all(self._queries["commit_cursors"], params)
        return {(row["event_type"], row["partition"]): _moved(row) for row in rows}


def stored(cursor: Cursor) -> Cursor:
    """How a cursor is kept: the fake timeline under the number that it will get."""
    return Cursor(max(cursor.order, 1), cursor.offset)


def _arrays(places: Mapping[PartitionKey, Cursor]) -> dict[str, Sequence[str] | Sequence[int]]:
    kept = [stored(cursor) for cursor in places.values()]
    return {
        "event_types": [event_type for event_type, _ in places],
        "partitions": [partition for _, partition in places],
        "ords": [cursor.order for cursor in kept],
        "offsets": [cursor.offset for cursor in kept],
    }


def _draft(draft: SubscriptionDraft) -> dict[str, Any]:
    event_types = sorted(set(draft.event_types))
    return {
        "owning_application": draft.owning_application,
        "event_types": event_types,
        "event_types_key": ",".join(event_types),
        "consumer_group": draft.consumer_group,
        "read_from": draft.read_from,
        "initial_cursors": Jsonb(msgspec.to_builtins(draft.initial_cursors)),
        "access": None if draft.access is None else Jsonb(draft.access),
    }


def _subscription(row: Mapping[str, Any]) -> Subscription:
    return Subscription(
        id=row["id"],
        owning_application=row["owning_application"],
        event_types=tuple(row["event_types"]),
        consumer_group=row["consumer_group"],
        read_from=row["read_from"],
        initial_cursors=tuple(GivenSubscriptionCursor(**place) for place in row["initial_cursors"]),
        access=row["access"],
        created_at_ms=row["created_at_ms"],
        updated_at_ms=row["updated_at_ms"],
    )


def _committed(row: Mapping[str, Any]) -> Committed:
    key = (row["event_type"], row["partition"])
    return Committed(key, Cursor(row["ord"], row["committed_offset"]), row["stream_id"], row["node_id"])


def _moved(row: Mapping[str, Any]) -> CommitResult:
    return CommitResult(row["stream_id"], Cursor(row["ord"] or 0, row["committed_offset"] or 0), row["moved"])
