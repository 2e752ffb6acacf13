"""Connections to PostgreSQL: one pool per process, and the translation of its failures.

Connections are in autocommit mode, so a single statement is a transaction of its own; `transaction()` is for the few
places that need more. Plans are generic, because every hot statement is the same whatever its parameters. A database that
cannot be reached becomes `StorageUnavailable`, which callers may retry; every other driver error is a bug and stays
what it is.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from meantime.errors import StorageUnavailable

Params = Mapping[str, Any] | Sequence[Any] | None
Connection = AsyncConnection[DictRow]

_UNREACHABLE = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed, TooManyRequests)
_NOT_THE_NETWORK = (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected)


class Database:
    """The pool. `uri` is for those who need a connection of their own, such as listeners."""

    def __init__(self, pool: AsyncConnectionPool[Connection], uri: str) -> None:
        self._pool = pool
        self.uri = uri

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        with translated():
            async with self._pool.connection() as connection:
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def execute(self, sql: str, params: Params = None) -> int:
        """Run one statement; the number of rows that it touched."""
        async with self.connection() as connection:
            cursor = await connection.execute(sql, params)
            return cursor.rowcount

    async def fetch_all(self, sql: str, params: Params = None) -> list[DictRow]:
        async with self.connection() as connection:
            cursor = await connection.execute(sql, params)
            return await cursor.fetchall()

    async def fetch_one(self, sql: str, params: Params = None) -> DictRow | None:
        async with self.connection() as connection:
            cursor = await connection.execute(sql, params)
            return await cursor.fetchone()

    async def reachable(self) -> bool:
        try:
            await self.execute("SELECT 1")
        except StorageUnavailable:
            return False
        return True


class translated:  # noqa: N801 - reads as a word: `with translated():`
    """Turns "PostgreSQL does not answer" into StorageUnavailable."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, _UNREACHABLE) and not isinstance(error, _NOT_THE_NETWORK):
            raise StorageUnavailable(f"PostgreSQL does not answer: {_first_line(error)}") from error
        if isinstance(error, psycopg.errors.UndefinedTable):
            raise StorageUnavailable("the database has no schema, or an old one: run `meantime migrate`") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__


async def _configure(connection: Connection) -> None:
    await connection.execute("SET plan_cache_mode = force_generic_plan")


@asynccontextmanager
async def open_database(uri: str, *, size: int = 16, wait_for: float = 5.0) -> AsyncIterator[Database]:
    """Open the pool without waiting for the server: a node may start before its database."""
    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
        uri,
        kwargs={"autocommit": True, "row_factory": dict_row, "connect_timeout": 5, "prepare_threshold": 1},
        connection_class=AsyncConnection[DictRow],
        configure=_configure,
        check=AsyncConnectionPool.check_connection,
        min_size=1,
        max_size=size,
        timeout=wait_for,
        max_waiting=10_000,
        name="meantime",
        open=False,
    )
    await pool.open(wait=False)
    try:
        yield Database(pool, uri)
    finally:
        await pool.close()
