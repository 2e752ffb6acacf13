"""Topics in PostgreSQL, for tasks: messages in by the same statements that nodes use, messages out by ranges of buckets.

Nodes are told of what becomes due, as they tell each other. A reader sees each range of buckets at one instant.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any
from uuid import uuid4

import msgspec
import psycopg

from meantime.database.queries import load
from meantime.errors import Conflict, NotFound, StorageUnavailable
from meantime.pipelines.delivery import Tally
from meantime.topics.model import NewMessage, Topic
from meantime.topics.postgres import Messages
from meantime.topics.postgres_directory import Directory
from meantime.topics.postgres_pool import Statements, open_statements
from meantime.topics.wakeups import CHANNEL, Arrived, Letter

PAGE = 10_000


class Direct:
    """Writes to one topic over a connection of its own."""

    def __init__(self, runner: asyncio.Runner, statements: Statements, topic: Topic, now_ms: int) -> None:
        self._runner = runner
        self._now_ms = now_ms
        self._statements = statements
        self._topic = topic
        self._messages = Messages(statements, remember_ms=0)
        self._notify = load("meantime.pipelines", "queries.sql")["notify"]
        self._sender = f"pipeline-{uuid4().hex}"

    def deliver(self, messages: Sequence[NewMessage]) -> Tally:
        return self._runner.run(self._deliver(messages))

    async def _deliver(self, messages: Sequence[NewMessage]) -> Tally:
        created = await self._messages.insert(self._topic, messages, self._now_ms)
        if created is None or (not created and await self._changed()):
            raise Conflict(f"the settings of topic {self._topic.name!r} were changed meanwhile: write again")
        if created:
            soonest = min(message.at_ms for message in messages)
            letter = Letter(self._sender, [Arrived(self._topic.topic_id, soonest)])
            await self._statements.run(self._notify, {"channel": CHANNEL, "payload": msgspec.json.encode(letter).decode()})
        return Tally(len(created), len(messages) - len(created))

    async def _changed(self) -> bool:
        return await Directory(self._statements).find(self._topic.name) != self._topic


@contextmanager
def open_direct(uri: str, name: str, now_ms: int) -> Iterator[Direct]:
    """`now_ms` is when the job began: whether a deleted id may be used again is judged by that instant in all tasks."""
    with asyncio.Runner() as runner:
        opening = open_statements(uri, size=2, wait_for=15.0)
        statements = runner.run(opening.__aenter__())
        try:
            topic = runner.run(Directory(statements).find(name))
            if not isinstance(topic, Topic):
                raise NotFound(f"topic {name!r} does not exist")
            yield Direct(runner, statements, topic, now_ms)
        finally:
            runner.run(opening.__aexit__(None, None, None))


def bucket_ranges(uri: str, name: str, parts: int) -> tuple[int, list[tuple[int, int]]]:
    """The id of a topic, and its buckets in so many ranges (first, last)."""
    with _connection(uri) as connection:
        row = connection.execute(load("meantime.pipelines", "queries.sql")["topic"], {"name": name}).fetchone()
    if row is None:
        raise NotFound(f"topic {name!r} does not exist")
    topic_id, count = row
    borders = [index * count // parts for index in range(parts + 1)]
    return topic_id, [(first, end - 1) for first, end in pairwise(borders) if first < end]


def scan(uri: str, topic_id: int, buckets: tuple[int, int]) -> Iterator[tuple[Any, ...]]:
    """Rows of `queries.sql`'s `scan`."""
    query = load("meantime.pipelines", "queries.sql")["scan"]
    params = {"topic_id": topic_id, "first": buckets[0], "last": buckets[1]}
    with _connection(uri) as connection, connection.cursor("scan") as cursor:
        cursor.itersize = PAGE
        cursor.execute(query, params, binary=True)
        yield from cursor


@contextmanager
def _connection(uri: str) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    try:
        with psycopg.connect(uri, connect_timeout=10) as connection:
            yield connection
    except psycopg.OperationalError as error:
        raise StorageUnavailable(f"option 'postgres' leads to a database that does not answer: {error}") from error
