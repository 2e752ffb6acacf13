"""A lease that meets a change of the same row, in a real PostgreSQL: who comes second judges the row as it has become."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from topics_nodes import new_database

from conftest import Services
from meantime.database.statements import Statements, open_statements
from meantime.topics.model import Lease, NewMessage, Settings, Topic
from meantime.topics.storage.directory import TopicStore
from meantime.topics.storage.messages import FIRST_MS, LeaseDemand, MessageStore, Window

NOW_MS = 1_000_000
MOVE = "UPDATE topic_messages SET at_ms = %s, version = version + 1 WHERE id = 'm'"
WAITING = "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"


@pytest_asyncio.fixture
async def statements(services: Services) -> AsyncIterator[Statements]:
    async with new_database(services.postgres) as uri, open_statements(uri, size=4) as statements:
        yield statements


@pytest_asyncio.fixture
async def topic(statements: Statements) -> Topic:
    """Has one message, which is due."""
    directory = TopicStore(statements)
    await directory.add("t", Settings(), NOW_MS)
    topic = await directory.find("t")
    assert isinstance(topic, Topic)
    message = NewMessage("m", NOW_MS - 10, 0, "owners", True, b"1")
    assert await MessageStore(statements, 0).insert(topic, [message], NOW_MS) == {"m"}
    return topic


async def take(statements: Statements, topic: Topic, *, exclusive: bool) -> list[Lease]:
    window = Window(FIRST_MS, NOW_MS, None, exclusive)
    return await MessageStore(statements, 0).lease_due(topic, [LeaseDemand("c", 60_000, 10)], [0] * 10, window, NOW_MS)


async def until_somebody_waits(statements: Statements) -> None:
    give_up_at = time.monotonic() + 60
    while not await statements.run(WAITING, {}):
        assert time.monotonic() < give_up_at, "nobody waits for the row"
        await asyncio.sleep(0.01)


@pytest.mark.parametrize(("moved_to_ms", "versions"), [(NOW_MS + 5000, []), (NOW_MS - 5, [3])])
async def test_who_is_alone_waits_for_a_change_and_takes_only_what_is_due_after_it(
    statements: Statements, topic: Topic, moved_to_ms: int, versions: list[int]
) -> None:
    async with statements.transaction() as owner:
        await owner.execute(MOVE, (moved_to_ms,))
        taking = asyncio.create_task(take(statements, topic, exclusive=True))
        await until_somebody_waits(statements)
    assert [lease.version for lease in await taking] == versions


async def test_where_others_take_too_nobody_waits_for_a_change(statements: Statements, topic: Topic) -> None:
    async with statements.transaction() as owner:
        await owner.execute(MOVE, (NOW_MS - 5,))
        async with asyncio.timeout(60):
            assert await take(statements, topic, exclusive=False) == []
    assert [lease.version for lease in await take(statements, topic, exclusive=False)] == [3]
