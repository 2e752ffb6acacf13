"""Connections of topics: one is kept at hand, and none gets lost."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from conftest import Services
from meantime.database.statements import open_statements
from meantime.errors import StorageUnavailable

SIZE = 4


async def test_no_connection_is_lost_however_many_statements_run_at_once(services: Services) -> None:
    async with open_statements(services.postgres, size=SIZE, wait_for=5.0) as statements:
        for _ in range(10):
            naps = [{"seconds": number % 3 / 1000} for number in range(30)]
            await asyncio.gather(*(statements.run("SELECT pg_sleep(%(seconds)s)", nap) for nap in naps))
        # One is at hand, for whoever comes next; all others can be had at the same time.
        async with AsyncExitStack() as held:
            for _ in range(SIZE - 1):
                await held.enter_async_context(statements.transaction())
            assert await statements.run("SELECT 1", {}) == [(1,)]


async def test_who_gets_no_connection_hears_that_the_storage_is_unavailable(services: Services) -> None:
    async with open_statements(services.postgres, size=2, wait_for=0.2) as statements, AsyncExitStack() as held:
        for _ in range(2):
            await held.enter_async_context(statements.transaction())
        with pytest.raises(StorageUnavailable):
            await statements.run("SELECT 1", {})
