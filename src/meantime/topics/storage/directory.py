"""The topics themselves and their consumers, in PostgreSQL."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from meantime.database.arrays import int4s, texts
from meantime.database.queries import load
from meantime.database.statements import Statements
from meantime.topics.model import Consumer, RetryPolicy, Settings, Topic


@dataclass(frozen=True, slots=True)
class DeletedTopic:
    """A deleted topic whose messages are being removed."""

    topic_id: int
    deleted_at_ms: int


class TopicStore:
    def __init__(self, statements: Statements) -> None:
        self._statements = statements
        self._sql = load("meantime.topics.storage", "directory.sql")

    async def all(self) -> list[Topic]:
        return [_topic(row) for row in await self._statements.run(self._sql["all_topics"], {})]

    async def find(self, name: str) -> Topic | DeletedTopic | None:
        rows = await self._statements.run(self._sql["topic"], {"name": name})
        if not rows:
            return None
        *row, deleted_at_ms = rows[0]
        return _topic(row) if deleted_at_ms is None else DeletedTopic(row[0], deleted_at_ms)

    async def add(self, name: str, settings: Settings, now_ms: int) -> bool:
        """False when there is one of that name already."""
        params = {"name": name, "now_ms": now_ms, **_columns(settings)}
        return bool(await self._statements.run(self._sql["add_topic"], params))

    async def change(self, topic: Topic, settings: Settings) -> bool:
        """False when another node has changed it meanwhile."""
        params = {"topic_id": topic.topic_id, "revision": topic.revision, **_columns(settings)}
        return bool(await self._statements.run(self._sql["change_topic"], params))

    async def mark_deleted(self, name: str, now_ms: int) -> bool:
        return bool(await self._statements.run(self._sql["condemn_topic"], {"name": name, "now_ms": now_ms}))

    async def all_deleted(self) -> list[DeletedTopic]:
        return [DeletedTopic(*row) for row in await self._statements.run(self._sql["condemned_topics"], {})]

    async def drop(self, topic_id: int, before_ms: int) -> None:
        await self._statements.count_patiently(self._sql["drop_topic"], {"topic_id": topic_id, "before_ms": before_ms})


@dataclass(frozen=True, slots=True)
class NodeSession:
    """One run of a node's process."""

    node_id: str
    session_id: str


ConsumerKey = tuple[int, str]
"""(topic_id, consumer_id)"""


class ConsumerRegistry:
    """The consumers of the whole cluster. One whose node has not renewed its registration since `silent_ms` is gone."""

    def __init__(self, statements: Statements, session: NodeSession) -> None:
        self._statements = statements
        self._session = {"node_id": session.node_id, "session_id": session.session_id}
        self._sql = load("meantime.topics.storage", "directory.sql")

    async def claim(self, streams: Mapping[ConsumerKey, int], now_ms: int, silent_ms: int) -> set[ConsumerKey]:
        """Those of these streams, given with their buffers, whose consumers have none yet, here or elsewhere."""
        keys = sorted(streams)
        params = _keys(keys) | {"buffers": int4s([streams[key] for key in keys]), "now_ms": now_ms, "silent_ms": silent_ms}
        rows = await self._statements.run(self._sql["claim_consumers"], params | self._session)
        return {(row[0], row[1]) for row in rows}

    async def note_pulls(self, pulls: Sequence[ConsumerKey], now_ms: int) -> None:
        await self._statements.run(self._sql["note_consumers"], _keys(pulls) | {"now_ms": now_ms} | self._session)

    async def renew(self, now_ms: int) -> set[ConsumerKey]:
        """The streams of this process that are still its own."""
        rows = await self._statements.run(self._sql["beat"], {"now_ms": now_ms} | self._session)
        return {(row[0], row[1]) for row in rows}

    async def release(self, keys: Collection[ConsumerKey]) -> None:
        """End streams of this process."""
        await self._statements.run(self._sql["release_consumers"], _keys(sorted(keys)) | self._session)

    async def forget_earlier_sessions(self) -> None:
        await self._statements.run(self._sql["forget_node"], self._session)

    async def forget_session(self) -> None:
        await self._statements.run(self._sql["forget_session"], self._session)

    async def forget_silent(self, silent_ms: int) -> None:
        await self._statements.run(self._sql["forget_silent"], {"silent_ms": silent_ms})

    async def consumers(self, silent_ms: int) -> list[Consumer]:
        return [Consumer(*row) for row in await self._statements.run(self._sql["consumers"], {"silent_ms": silent_ms})]


def _keys(keys: Sequence[ConsumerKey]) -> dict[str, Any]:
    return {"topic_ids": int4s([key[0] for key in keys]), "consumers": texts([key[1] for key in keys])}


def _topic(row: Sequence[Any]) -> Topic:
    topic_id, name, revision, *settings = row
    found = dict(zip(Settings.__struct_fields__, settings, strict=True))
    return Topic(topic_id, name, revision, Settings(**found | {"retry": msgspec.convert(found["retry"], RetryPolicy)}))


def _columns(settings: Settings) -> dict[str, Any]:
    return msgspec.structs.asdict(settings) | {"retry": msgspec.json.encode(settings.retry).decode()}
