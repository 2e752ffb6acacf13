"""Our side of the topics benchmark: the storage calls of a node, and the HTTP calls of the SDK."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit, urlunsplit

import psycopg

from meantime import AsyncClient
from meantime.database.migrate import migrate
from meantime.database.statements import Statements
from meantime.sdk.calls.topics import Draft
from meantime.sdk.messages import LeasedMessage
from meantime.topics.drafts import new_id
from meantime.topics.leasing.dispatcher import FLOOR_MARGIN_MS
from meantime.topics.model import Lease, NewMessage, Settings, Topic
from meantime.topics.rules import bucket_of
from meantime.topics.storage.directory import TopicStore
from meantime.topics.storage.messages import FIRST_MS, HolderRow, LeaseDemand, MessageStore, Window

BODY = b'"' + b"x" * 198 + b'"'


def now_ms() -> int:
    return time.time_ns() // 1_000_000


@asynccontextmanager
async def empty_database(uri: str, name: str = "bench_empty") -> AsyncIterator[str]:
    """Another database of the same server, with the schema and nothing in it."""
    async with await psycopg.AsyncConnection.connect(uri, autocommit=True) as connection:
        await connection.execute(f"CREATE DATABASE {name}")
        other = urlunsplit(urlsplit(uri)._replace(path=f"/{name}"))
        await asyncio.to_thread(migrate, other)
        yield other
        await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


class Storage:
    """The statements that a node runs, from one client, in batches."""

    name = "meantime"

    def __init__(self, statements: Statements, topic: Topic) -> None:
        self.statements = statements
        self.topic = topic
        self.messages = MessageStore(statements, remember_ms=0)
        self.floor_ms = FIRST_MS

    @classmethod
    async def open(cls, statements: Statements, name: str) -> "Storage":
        directory = TopicStore(statements)
        await directory.add(name, Settings(), now_ms())
        topic = await directory.find(name)
        assert isinstance(topic, Topic)
        return cls(statements, topic)

    def prepare(self, count: int) -> list[NewMessage]:
        now = now_ms()
        ids = [new_id(now) for _ in range(count)]
        return [NewMessage(one, now, bucket_of(one, 64), "bench", True, BODY) for one in ids]

    async def create(self, prepared: list[NewMessage]) -> None:
        assert len(await self.messages.insert(self.topic, prepared, now_ms()) or ()) == len(prepared)

    async def lease(self, count: int) -> list[Lease]:
        """From the moving floor, as the dispatcher does between two scans of the whole past."""
        now = now_ms()
        window = Window(self.floor_ms, now, None, exclusive=True)
        leases = await self.messages.lease_due(self.topic, [LeaseDemand("bench", 60_000, count)], [0] * count, window, now)
        if leases:
            self.floor_ms = leases[0].due_at_ms - FLOOR_MARGIN_MS
        return leases

    async def delete(self, leases: list[Lease]) -> None:
        rows = [HolderRow(self.topic.topic_id, one.id, one.version, "bench") for one in leases]
        rows.sort(key=lambda row: row.id)
        assert len(await self.messages.delete_held(rows, now_ms())) == len(leases)

    async def store_future(self, count: int) -> None:
        """Written by the server itself, in the form in which a node writes them."""
        sql = (
            "INSERT INTO topic_messages (topic_id, id, at_ms, created_for_ms, bucket_id, version, attempts, stage, is_json,"
            " producer_group, body) SELECT %(topic)s, 'f' || md5(n::text), %(base)s + n, %(base)s + n, n %% 64, 1, 0, 0,"
            " true, 'bench', %(body)s FROM generate_series(1, %(count)s) AS n"
        )
        params = {"topic": self.topic.topic_id, "base": now_ms() + 86_400_000, "body": BODY, "count": count}
        await self.statements.run(sql, params)
        await self.statements.run("VACUUM (ANALYZE) topic_messages", {})


class Http:
    """The same over HTTP, with the SDK."""

    name = "meantime, HTTP"

    def __init__(self, client: AsyncClient, topic: str) -> None:
        self._client = client
        self._topic = topic

    def prepare(self, count: int) -> list[Draft]:
        return [Draft("x" * 198, after=0)] * count

    async def create(self, prepared: list[Draft]) -> None:
        results = await self._client.schedule_many(self._topic, prepared)
        assert all(result.status == "created" for result in results)

    async def lease(self, count: int) -> list[LeasedMessage]:
        return await self._client.lease(self._topic, "bench", limit=count, lease_for=60)

    async def delete(self, leases: list[LeasedMessage]) -> None:
        outcomes = await self._client.delete_leases(self._topic, "bench", leases)
        assert all(outcome.status == "ok" for outcome in outcomes)
