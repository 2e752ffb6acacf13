"""Messages of a topic by what operators look for, a page at a time and without counting.

What is found is in the order of instants; where the beginning of the id is given, in the order of ids, because that is the
index that finds them.
"""

from typing import Any

import msgspec

from meantime.database.arrays import int4s, texts
from meantime.database.queries import load
from meantime.database.statements import Statements
from meantime.topics.model import MessageFilter, MessagePlace, MessageRanges, StoredMessage, Topic

_AFTER_ALL = "~"
"""Greater than every character that an id may have."""


class FoundKey(msgspec.Struct, frozen=True):
    """A message that may be changed, as it was found."""

    id: str
    version: int
    producer_group: str


class FilteredMessages:
    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._sql = load("meantime.topics.storage", "filtered.sql")

    async def by_instant(
        self, topic: Topic, wanted: MessageFilter, ranges: MessageRanges, after: MessagePlace, limit: int, *, bodies: bool
    ) -> list[StoredMessage]:
        """Those after the place of the one before."""
        params = _params(topic, wanted, ranges) | {
            "after_ms": after.at_ms,
            "after_bucket": after.bucket_id,
            "after": after.id,
            "limit": limit,
            "with_body": bodies,
        }
        return [StoredMessage(*row) for row in await self._statements.run(self._sql["by_instant"], params)]

    async def by_id(
        self, topic: Topic, wanted: MessageFilter, ranges: MessageRanges, after: str, limit: int, *, bodies: bool
    ) -> list[StoredMessage]:
        params = _params(topic, wanted, ranges) | _ids(wanted) | {"after": after, "limit": limit, "with_body": bodies}
        return [StoredMessage(*row) for row in await self._statements.run(self._sql["by_id"], params)]

    async def keys(
        self, topic: Topic, wanted: MessageFilter, ranges: MessageRanges, limit: int, now_ms: int
    ) -> list[FoundKey]:
        """Those that may be changed now, `limit` at most."""
        params = _params(topic, wanted, ranges) | {"now_ms": now_ms, "limit": limit}
        if wanted.ids is not None:
            name, params = "keys_of_ids", params | {"ids": texts(sorted(set(wanted.ids)))}
        elif wanted.id_prefix:
            name, params = "keys_by_id", params | _ids(wanted)
        else:
            name = "keys_by_instant"
        return [FoundKey(*row) for row in await self._statements.run(self._sql[name], params)]


def _params(topic: Topic, wanted: MessageFilter, ranges: MessageRanges) -> dict[str, Any]:
    return {
        "topic_id": topic.topic_id,
        "any_group": wanted.producer_group is None,
        "producer_group": wanted.producer_group or "",
        "free_from": ranges.free[0],
        "free_to": ranges.free[1],
        "leased_from": ranges.leased[0],
        "leased_to": ranges.leased[1],
        "leased_stages": int4s(list(ranges.leased_stages)),
        "dead_from": ranges.dead[0],
        "dead_to": ranges.dead[1],
    }


def _ids(wanted: MessageFilter) -> dict[str, str]:
    prefix = wanted.id_prefix or ""
    return {"first_id": prefix, "end_id": prefix + _AFTER_ALL}
