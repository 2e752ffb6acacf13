"""Messages in PostgreSQL: set-based statements, arrays in, one answer per message out.

Each mutation checks its conditions inside its statement. What a statement does not return did not meet them; the caller
looks at the positions to say why. All arrays are ordered by id, so that concurrent statements lock rows in one order.
"""

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import msgspec
from psycopg.errors import UniqueViolation

from meantime.database.arrays import bools, byte_strings, float8s, int4s, int8s, texts
from meantime.database.queries import load
from meantime.database.statements import Rows, Statements
from meantime.topics.model import Due, Lease, NewMessage, Position, RetryPolicy, StoredMessage, Topic

Key = tuple[int, str]
"""(topic_id, id)"""

FIRST_MS, LAST_MS = -(1 << 62), 1 << 62
NO_VERSION = -1
ANY_DRIFT_MS = 60_000
"""What is due by the clock of any node is due before this much later by the clock of any other."""
ANY_VERSION = 0
KEPT_REASONS = 10
"""So many failed attempts of a message are remembered, the latest."""
_NO_POLICY = RetryPolicy()


class HolderRow(msgspec.Struct, frozen=True):
    """One lease that a consumer wants to extend, release or delete."""

    topic_id: int
    id: str
    version: int
    consumer_id: str
    at_ms: int = 0
    dedupe_ms: int = 0
    retry: RetryPolicy | None = None
    """When it is due again, in place of an instant."""
    reason: str = ""


class OwnerRow(msgspec.Struct, frozen=True):
    """One message that a producer group wants to move or delete; version 0 is any."""

    topic_id: int
    id: str
    version: int
    producer_group: str
    at_ms: int = 0
    dedupe_ms: int = 0


class LeaseDemand(msgspec.Struct, frozen=True):
    """How many messages (`room`) a consumer can take now, and for how long each is leased."""

    consumer_id: str
    lease_ms: int
    room: int


class Window(msgspec.Struct, frozen=True):
    """Which due messages may be leased: from `floor_ms` to `due_ms`, in these buckets or (None) in all. `exclusive` when no
    other node is known to lease from the topic."""

    floor_ms: int
    due_ms: int
    buckets: tuple[int, ...] | None
    exclusive: bool = False


class MessageStore:
    def __init__(self, statements: Statements, remember_ms: int) -> None:
        self._statements = statements
        self._remember_ms = remember_ms
        self._sql = load("meantime.topics.storage", "messages.sql")
        self._careful = 0

    async def insert(self, topic: Topic, messages: Sequence[NewMessage], now_ms: int) -> set[str] | None:
        """The ids that were created; None when the topic is no longer as given. Ids must be distinct.

        New ids are the rule, and a plain insert is a third cheaper than one that expects conflicts. After a conflict
        the next batches are careful.
        """
        rows = sorted(messages, key=attrgetter("id"))
        if not self._careful:
            try:
                return {row.id for row in rows} if await self._insert(topic, rows, now_ms) else None
            except UniqueViolation:
                self._careful = 64
        self._careful -= 1
        params = _creation(topic, rows) | _each(rows) | {"now_ms": now_ms}
        return {row[0] for row in await self._statements.run(self._sql["upsert_messages"], params)}

    async def _insert(self, topic: Topic, rows: Sequence[NewMessage], now_ms: int) -> int:
        kinds = set(map(attrgetter("at_ms", "is_json", "producer_group"), rows))
        if len(kinds) > 1:
            params = _creation(topic, rows) | _each(rows)
            return await self._statements.count(self._sql["insert_messages"], params)
        at_ms, is_json, group = kinds.pop()
        params = _creation(topic, rows) | {"at_ms": at_ms, "now_ms": now_ms, "is_json": is_json, "producer_group": group}
        return await self._statements.count(self._sql["insert_messages_alike"], params)

    async def lease_due(
        self, topic: Topic, demands: Sequence[LeaseDemand], turns: Sequence[int], window: Window, now_ms: int
    ) -> list[Lease]:
        """Lease what is due, in time order; message n goes to `demands[turns[n]]`."""
        params = {
            "topic_id": topic.topic_id,
            "now_ms": now_ms,
            "floor_ms": window.floor_ms,
            "due_ms": window.due_ms,
            "everywhere": window.buckets is None,
            "buckets": int4s(window.buckets or ()),
            "limit": len(turns),
            "max_attempts": topic.settings.max_attempts,
        }
        if len(demands) == 1:
            (demand,) = demands
            params |= {"consumer_id": demand.consumer_id, "lease_ms": demand.lease_ms}
            sql = self._sql["lease_due_exclusive" if window.exclusive else "lease_due"]
            return _own_leases(await self._statements.run(sql, params), demand, now_ms)
        params |= {
            "turns": int4s([turn + 1 for turn in turns]),
            "consumers": texts([demand.consumer_id for demand in demands]),
            "leases_ms": int8s([demand.lease_ms for demand in demands]),
        }
        return _leases(await self._statements.run(self._sql["lease_due_shared"], params))

    async def lease_known(self, topic: Topic, known: Sequence[tuple[Due, LeaseDemand]], now_ms: int) -> list[Lease]:
        """Lease what was prefetched, each for its consumer, as far as the version still holds."""
        pairs = sorted(known, key=lambda pair: pair[0].id)
        params = {
            "topic_ids": int4s([topic.topic_id] * len(pairs)),
            "ids": texts([due.id for due, _ in pairs]),
            "versions": int8s([due.version for due, _ in pairs]),
            "consumers": texts([demand.consumer_id for _, demand in pairs]),
            "leases_ms": int8s([demand.lease_ms for _, demand in pairs]),
            "max_attempts": topic.settings.max_attempts,
            "now_ms": now_ms,
        }
        return _leases(await self._statements.run(self._sql["lease_known"], params))

    async def upcoming(self, topic: Topic, floor_ms: int, until_ms: int, limit: int) -> list[Due]:
        params = {"topic_id": topic.topic_id, "floor_ms": floor_ms, "until_ms": until_ms, "limit": limit}
        return [Due(*row) for row in await self._statements.run(self._sql["upcoming"], params)]

    async def busy_topics(self, floors: Mapping[int, int], until_ms: int) -> set[int]:
        """Those of these topics, given with their floors, in which something is or becomes due until then."""
        params = {"topic_ids": int4s(list(floors)), "floors": int8s(list(floors.values())), "until_ms": until_ms}
        return {row[0] for row in await self._statements.run(self._sql["busy_topics"], params)}

    async def held(self, topic: Topic, consumer_id: str, now_ms: int) -> list[Lease]:
        params = {"topic_id": topic.topic_id, "consumer_id": consumer_id, "now_ms": now_ms}
        return [Lease(*row) for row in await self._statements.run(self._sql["held"], params)]

    async def held_ends(self, topic: Topic, consumers: Sequence[str], now_ms: int) -> dict[str, dict[str, int]]:
        """When each lease of each of these consumers ends."""
        params = {"topic_id": topic.topic_id, "consumers": texts(consumers), "now_ms": now_ms}
        ends: dict[str, dict[str, int]] = {}
        for consumer_id, message_id, end_ms in await self._statements.run(self._sql["held_ends"], params):
            ends.setdefault(consumer_id, {})[message_id] = end_ms
        return ends

    async def extend(self, rows: Sequence[HolderRow], now_ms: int) -> Rows:
        """(topic_id, id, version, at_ms, stage) of those that were extended."""
        return await self._statements.run(self._sql["extend"], _holders(rows, now_ms) | _instants(rows))

    async def release(self, rows: Sequence[HolderRow], now_ms: int) -> Rows:
        """(topic_id, id, version, at_ms, stage) of those that were released."""
        params = _holders(rows, now_ms) | _instants(rows) | _retries(rows)
        return await self._statements.run(self._sql["release"], params)

    async def delete_held(self, rows: Sequence[HolderRow], now_ms: int) -> set[Key]:
        remembered = [row for row in rows if row.dedupe_ms > 0]
        plain = [row for row in rows if row.dedupe_ms == 0] if remembered else rows
        deleted: set[Key] = set()
        if plain:
            deleted.update(await self._delete_plain(plain, now_ms))
        if remembered:
            params = _holders(remembered, now_ms) | self._memory(remembered, now_ms, least_ms=0)
            deleted.update(await self._statements.run(self._sql["mark_held"], params))
        return deleted

    async def _delete_plain(self, rows: Sequence[HolderRow], now_ms: int) -> Rows:
        kinds = set(map(attrgetter("topic_id", "consumer_id", "version"), rows))
        if len(kinds) > 1:
            return await self._statements.run(self._sql["delete_held"], _holders(rows, now_ms))
        topic_id, consumer_id, version = kinds.pop()
        params = {"topic_id": topic_id, "consumer_id": consumer_id, "version": version, "now_ms": now_ms}
        return await self._statements.run(self._sql["delete_held_alike"], params | {"ids": texts([row.id for row in rows])})

    async def move(self, rows: Sequence[OwnerRow], now_ms: int) -> Rows:
        """(topic_id, id, version, at_ms) of those that were moved."""
        return await self._statements.run(self._sql["move"], _owners(rows, now_ms) | _instants(rows))

    async def delete_owned(self, rows: Sequence[OwnerRow], now_ms: int) -> set[Key]:
        params = _owners(rows, now_ms) | self._memory(rows, now_ms, least_ms=self._remember_ms)
        return {(row[0], row[1]) for row in await self._statements.run(self._sql["delete_owned"], params)}

    async def positions(self, keys: Sequence[Key]) -> dict[Key, Position]:
        params = {"topic_ids": int4s([key[0] for key in keys]), "ids": texts([key[1] for key in keys])}
        found = await self._statements.run(self._sql["positions"], params)
        return {(row[0], row[1]): Position(*row[1:]) for row in found}

    async def message(self, topic: Topic, message_id: str) -> StoredMessage | None:
        rows = await self._statements.run(self._sql["message"], {"topic_id": topic.topic_id, "id": message_id})
        return StoredMessage(*rows[0]) if rows else None

    async def of_group(self, topic: Topic, group: str, after: str, limit: int, now_ms: int) -> list[StoredMessage]:
        params = {
            "topic_id": topic.topic_id,
            "producer_group": group,
            "after": after,
            "limit": limit,
            "soon_ms": now_ms + ANY_DRIFT_MS,
        }
        rows = await self._statements.run(self._sql["messages_of_group"], params, prepare=False)
        return [StoredMessage(*row) for row in rows]

    def _memory(self, rows: Sequence[HolderRow] | Sequence[OwnerRow], now_ms: int, least_ms: int) -> dict[str, Any]:
        """Until when a deleted id counts as taken, and until when it is known at all."""
        return {
            "knowns": int8s([now_ms + row.dedupe_ms for row in rows]),
            "forgets": int8s([now_ms + max(row.dedupe_ms, least_ms) for row in rows]),
        }


def _creation(topic: Topic, rows: Sequence[NewMessage]) -> dict[str, Any]:
    return {
        "topic_id": topic.topic_id,
        "revision": topic.revision,
        "ids": texts([row.id for row in rows]),
        "buckets": int4s([row.bucket_id for row in rows]),
        "bodies": byte_strings([row.body for row in rows]),
    }


def _each(rows: Sequence[NewMessage]) -> dict[str, Any]:
    return {
        "ats": int8s([row.at_ms for row in rows]),
        "kinds": bools([row.is_json for row in rows]),
        "groups": texts([row.producer_group for row in rows]),
    }


def _holders(rows: Sequence[HolderRow], now_ms: int) -> dict[str, Any]:
    return {"consumers": texts([row.consumer_id for row in rows]), **_keys(rows, now_ms)}


def _retries(rows: Sequence[HolderRow]) -> dict[str, Any]:
    policies = [row.retry or _NO_POLICY for row in rows]
    return {
        "delays_ms": int8s([policy.delay_ms for policy in policies]),
        "factors": float8s([policy.factor for policy in policies]),
        "longest_ms": int8s([policy.max_ms for policy in policies]),
        "jitters": float8s([policy.jitter for policy in policies]),
        "reasons": texts([row.reason for row in rows]),
        "kept": KEPT_REASONS,
    }


def _owners(rows: Sequence[OwnerRow], now_ms: int) -> dict[str, Any]:
    return {"groups": texts([row.producer_group for row in rows]), **_keys(rows, now_ms)}


def _keys(rows: Sequence[HolderRow] | Sequence[OwnerRow], now_ms: int) -> dict[str, Any]:
    return {
        "topic_ids": int4s([row.topic_id for row in rows]),
        "ids": texts([row.id for row in rows]),
        "versions": int8s([row.version for row in rows]),
        "now_ms": now_ms,
    }


def _instants(rows: Sequence[HolderRow] | Sequence[OwnerRow]) -> dict[str, Any]:
    return {"ats": int8s([row.at_ms for row in rows])}


def _own_leases(rows: Rows, demand: LeaseDemand, now_ms: int) -> list[Lease]:
    """Of one consumer: what is the same for all was not asked for."""
    end_ms, consumer_id = now_ms + demand.lease_ms, demand.consumer_id
    leases = [
        Lease(id, version, end_ms, due_ms, wished_ms, attempts, consumer_id, group, is_json, body, letter, history, schedule)
        for id, version, due_ms, wished_ms, attempts, group, is_json, body, letter, history, schedule in rows
    ]
    leases.sort(key=attrgetter("due_at_ms"))
    return leases


def _leases(rows: Rows) -> list[Lease]:
    return sorted([Lease(*row) for row in rows], key=attrgetter("due_at_ms"))
