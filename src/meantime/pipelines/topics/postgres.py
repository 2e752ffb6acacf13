"""Topics in PostgreSQL, for tasks: messages in by COPY, or by the statements of nodes where some exist; messages out by
ranges of buckets.

COPY costs a fraction of an insert but fails as a whole when one id exists. So a chunk that fails is looked at first: what
exists is left out, and the rest is inserted as nodes do it, which also knows ids that may be used again. Nodes are notified
of what becomes due, as they notify each other. A reader sees each range of buckets at one instant.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from operator import attrgetter
from typing import Any
from uuid import uuid4

import msgspec
import psycopg
from psycopg.errors import UniqueViolation

from meantime.database.arrays import texts
from meantime.database.connecting import LONG_WITHIN, connect
from meantime.database.queries import load
from meantime.database.statements import Statements, open_statements, rows_of
from meantime.errors import Conflict, NotFound, StorageUnavailable
from meantime.pipelines.topics.model import Reject, Tally
from meantime.topics.model import NewMessage, Topic
from meantime.topics.storage.directory import TopicStore
from meantime.topics.storage.messages import MessageStore
from meantime.topics.storage.notifications import CHANNEL, Arrived, NotificationBatch

PAGE = 10_000

COPIED = {
    "topic_id": "int4",
    "id": "text",
    "at_ms": "int8",
    "created_for_ms": "int8",
    "bucket_id": "int4",
    "producer_group": "text",
    "is_json": "bool",
    "body": "bytea",
    "version": "int4",
    "attempts": "int4",
    "stage": "int2",
}
"""Columns that COPY writes, with their types: in the binary format PostgreSQL casts nothing."""


class PostgresSink:
    """Writes to one topic over connections of its own."""

    chunk = 25_000

    def __init__(self, runner: asyncio.Runner, statements: Statements, topic: Topic, now_ms: int) -> None:
        self._runner = runner
        self._now_ms = now_ms
        self._statements = statements
        self._topic = topic
        self._messages = MessageStore(statements, remember_ms=0)
        self.refused: list[Reject] = []
        self._sql = load("meantime.pipelines.topics", "queries.sql")
        self._copy = self._sql["copy"].format(columns=", ".join(COPIED))
        self._sender = f"pipeline-{uuid4().hex}"
        self._all_new = True

    def write(self, messages: Sequence[NewMessage]) -> Tally:
        return self._runner.run(self._write(messages))

    async def _write(self, messages: Sequence[NewMessage]) -> Tally:
        rows = sorted(messages, key=attrgetter("id"))
        created = await self._copied(rows) if self._all_new else None
        if created is None:
            created = await self._merged(rows)
        # Where ids are found to exist, those of the next chunk most probably do too.
        self._all_new = created == len(rows)
        if created:
            await self._announce(min(message.at_ms for message in rows))
        return Tally(created, len(rows) - created)

    async def _copied(self, rows: Sequence[NewMessage]) -> int | None:
        """All of them, or None because one exists. The topic cannot be changed meanwhile."""
        try:
            async with self._statements.transaction() as connection:
                topic = {"topic_id": self._topic.topic_id, "revision": self._topic.revision}
                if not await rows_of(connection, self._sql["hold_topic"], topic):
                    raise self._outdated()
                async with connection.cursor().copy(self._copy) as copy:
                    copy.set_types(list(COPIED.values()))
                    for row in rows:
                        await copy.write_row(_copied_row(self._topic.topic_id, row))
        except UniqueViolation:
            return None
        return len(rows)

    async def _merged(self, rows: Sequence[NewMessage]) -> int:
        """How many were new. Looking first locks nothing and writes nothing for those that exist."""
        ids = texts([row.id for row in rows])
        params = {"topic_id": self._topic.topic_id, "ids": ids, "now_ms": self._now_ms}
        taken = {row[0] for row in await self._statements.run(self._sql["taken"], params)}
        left = [row for row in rows if row.id not in taken]
        created = await self._messages.insert(self._topic, left, self._now_ms) if left else set[str]()
        if created is None or (not created and await self._changed()):
            raise self._outdated()
        return len(created)

    async def _announce(self, soonest_ms: int) -> None:
        batch = NotificationBatch(self._sender, [Arrived(self._topic.topic_id, soonest_ms)])
        payload = msgspec.json.encode(batch).decode()
        await self._statements.run(self._sql["notify"], {"channel": CHANNEL, "payload": payload})

    async def _changed(self) -> bool:
        return await TopicStore(self._statements).find(self._topic.name) != self._topic

    def _outdated(self) -> Conflict:
        return Conflict(f"the settings of topic {self._topic.name!r} were changed meanwhile: write again")


def _copied_row(topic_id: int, row: NewMessage) -> tuple[Any, ...]:
    """The values of `COPIED`. A new message has version 1, no attempts and stage 0."""
    fields = topic_id, row.id, row.at_ms, row.at_ms, row.bucket_id, row.producer_group, row.is_json, row.body
    return (*fields, 1, 0, 0)


@contextmanager
def open_postgres_sink(uri: str, name: str, now_ms: int) -> Iterator[PostgresSink]:
    """`now_ms` is when the job began: whether a deleted id may be used again is judged by that instant in all tasks."""
    with asyncio.Runner() as runner:
        opening = open_statements(uri, size=2, wait_for=15.0, answer_within=LONG_WITHIN)
        statements = runner.run(opening.__aenter__())
        try:
            topic = runner.run(TopicStore(statements).find(name))
            if not isinstance(topic, Topic):
                raise NotFound(f"topic {name!r} does not exist")
            yield PostgresSink(runner, statements, topic, now_ms)
        finally:
            runner.run(opening.__aexit__(None, None, None))


def bucket_ranges(uri: str, name: str, parts: int) -> tuple[int, list[tuple[int, int]]]:
    """The id of a topic, and its buckets in so many ranges (first, last)."""
    with _connection(uri) as connection:
        row = connection.execute(load("meantime.pipelines.topics", "queries.sql")["topic"], {"name": name}).fetchone()
    if row is None:
        raise NotFound(f"topic {name!r} does not exist")
    topic_id, count = row
    borders = [index * count // parts for index in range(parts + 1)]
    return topic_id, [(first, end - 1) for first, end in pairwise(borders) if first < end]


def scan(uri: str, topic_id: int, buckets: tuple[int, int]) -> Iterator[tuple[Any, ...]]:
    """Rows of `queries.sql`'s `scan`."""
    query = load("meantime.pipelines.topics", "queries.sql")["scan"]
    params = {"topic_id": topic_id, "first": buckets[0], "last": buckets[1]}
    with _connection(uri) as connection, connection.cursor("scan") as cursor:
        cursor.itersize = PAGE
        cursor.execute(query, params, binary=True)
        yield from cursor


@contextmanager
def _connection(uri: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    try:
        with connect(uri, answer_within=LONG_WITHIN) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise StorageUnavailable(f"option 'postgres' leads to a database that does not answer: {error}") from error
