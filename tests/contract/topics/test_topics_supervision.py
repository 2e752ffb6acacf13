"""Push streams outlive whatever happens to the statements behind them, on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest_asyncio
from topics_calls import create, new_topic
from topics_consumer import PushConsumer, push
from topics_nodes import TopicsNode, new_database, open_node

from conftest import Services
from meantime.supervision import FAILURES, failing_tasks

CANCEL_WAITING = """
SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""
WITHIN = 60.0


@pytest_asyncio.fixture
async def node(services: Services) -> AsyncIterator[TopicsNode]:
    async with new_database(services.postgres) as uri, open_node(uri) as node:
        yield node


@asynccontextmanager
async def operator(node: TopicsNode) -> AsyncIterator[psycopg.AsyncConnection]:
    async with await psycopg.AsyncConnection.connect(node.uri, autocommit=True) as connection:
        yield connection


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.05)


async def cancel_statements(node: TopicsNode) -> None:
    """Of those that read or write messages, at least one is cancelled."""
    async with operator(node) as blocking, operator(node) as cancelling, blocking.transaction():
        await blocking.execute("LOCK TABLE topic_messages IN ACCESS EXCLUSIVE MODE")
        async with asyncio.timeout(WITHIN):
            while (await (await cancelling.execute(CANCEL_WAITING)).fetchone()) == (0,):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def delivered(consumer: PushConsumer, id: str) -> None:
    """It comes, and is done with."""
    (lease,) = await consumer.take(1, within=WITHIN)
    assert lease["id"] == id
    assert await consumer.delete(lease) == ["ok"]


def dispatcher_failures() -> float:
    return FAILURES.labels("lease dispatcher")._value.get()


async def test_a_push_stream_goes_on_after_its_statements_were_cancelled(node: TopicsNode) -> None:
    topic = await new_topic(node.http)
    async with push(node.http, topic, "c") as consumer:
        await create(node.http, topic, "a")
        await delivered(consumer, "a")
        for number in range(3):
            await cancel_statements(node)
            await create(node.http, topic, f"b{number}")
            await delivered(consumer, f"b{number}")


async def test_a_dispatcher_that_keeps_failing_is_told_and_goes_on_when_it_can(node: TopicsNode) -> None:
    """An error that nobody expected: a column is called something else for a while."""
    topic, before = await new_topic(node.http), dispatcher_failures()
    async with push(node.http, topic, "c") as consumer, operator(node) as connection:
        await create(node.http, topic, "a")
        await delivered(consumer, "a")
        await connection.execute("ALTER TABLE topic_messages RENAME COLUMN at_ms TO renamed")
        await until(lambda: f"lease dispatcher {topic}" in map(str, failing_tasks()))
        assert dispatcher_failures() - before >= 3
        waiting = await node.http.post(f"/topics/{topic}/leases", json={"consumer_id": "d", "wait_ms": 1000})
        assert (waiting.status_code, waiting.json()["retryable"]) == (503, True)
        await connection.execute("ALTER TABLE topic_messages RENAME COLUMN renamed TO at_ms")
        await create(node.http, topic, "b")
        await delivered(consumer, "b")
        await until(lambda: not failing_tasks())
