"""Connections to PostgreSQL: one pool per process, and the translation of its failures.

Connections are in autocommit mode, so a single statement is a transaction of its own; `transaction()` is for the few
places that need more. Plans are generic, because every hot statement is the same whatever its parameters.

How long an answer may take is limited for every connection, see `connecting`.

A database that cannot be reached, writes nothing or gives a statement up becomes `StorageUnavailable`, which callers may
retry; every other driver error is a bug and stays what it is. A single statement that lost against another one (a deadlock,
a serialization failure) has left nothing behind and is repeated here; of a transaction only its owner can tell what to
repeat, and gets `LostRace`. A connection to a database that has become read-only is closed: the next one may lead to
where the database has moved to, or find it writable again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from enum import Enum
from typing import Any, TypeVar

import psycopg
from psycopg import AsyncConnection, AsyncCursor
from psycopg.rows import DictRow, dict_row
from psycopg_pool import AsyncConnectionPool, PoolClosed, PoolTimeout, TooManyRequests

from meantime.database.addresses import Hosts
from meantime.database.connecting import LimitedConnection, Silence
from meantime.errors import StorageUnavailable

Params = Mapping[str, Any] | Sequence[Any] | None
Connection = LimitedConnection[DictRow]

_UNREACHABLE = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout, PoolClosed, TooManyRequests)
_GIVEN_UP = (psycopg.errors.QueryCanceled, psycopg.errors.LockNotAvailable)

RACES = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
"""The statement lost against another one, and has left nothing behind."""
TRIES = 5
AGAIN_AFTER = 0.005
"""Seconds before a statement that lost is repeated."""

WAIT_FOR = 3.0
"""Seconds that a statement waits for a connection. So long a pool also tries to replace one, with longer and longer pauses;
then it waits until one is asked for. The pauses never get so long that they are noticed after the database has come back."""

T = TypeVar("T")


class DatabaseState(Enum):
    WRITABLE = "writable"
    READ_ONLY = "read-only"
    SILENT = "silent"


class LostRace(StorageUnavailable):
    """PostgreSQL gave this up in favour of another transaction; try again."""


class Database:
    """The pool. `uri` is for those who need a connection of their own, such as listeners."""

    def __init__(self, pool: AsyncConnectionPool[Connection], uri: str, silence: Silence) -> None:
        self._pool = pool
        self._silence = silence
        self.uri = uri

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        with translated():
            async with self._lent() as connection:
                yield connection

    @asynccontextmanager
    async def _lent(self) -> AsyncIterator[Connection]:
        await self._silence.admit()
        async with self._pool.connection() as connection, discarded_when_read_only(connection):
            yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def execute(self, sql: str, params: Params = None) -> int:
        """Run one statement; the number of rows that it touched."""
        return await self._run(sql, params, _row_count)

    async def fetch_all(self, sql: str, params: Params = None) -> list[DictRow]:
        return await self._run(sql, params, AsyncCursor.fetchall)

    async def fetch_one(self, sql: str, params: Params = None) -> DictRow | None:
        return await self._run(sql, params, AsyncCursor.fetchone)

    async def _run(self, sql: str, params: Params, read: Callable[[AsyncCursor[DictRow]], Awaitable[T]]) -> T:
        async def once() -> T:
            async with self._lent() as connection:
                return await read(await connection.execute(sql, params))

        with translated():
            return await repeated(once)

    async def state(self) -> DatabaseState:
        """Whether it answers, and takes writes. A connection that leads to where nothing can be written is closed, too."""
        try:
            async with self.connection() as connection:
                row = await (await connection.execute("SHOW transaction_read_only")).fetchone()
                if row is not None and "on" in row.values():
                    await connection.close()
                    return DatabaseState.READ_ONLY
        except StorageUnavailable:
            return DatabaseState.SILENT
        return DatabaseState.WRITABLE


async def _row_count(cursor: AsyncCursor[DictRow]) -> int:
    return cursor.rowcount


async def repeated(once: Callable[[], Awaitable[T]]) -> T:
    """Run a statement, and run it again when it lost a race, a few times."""
    for _ in range(TRIES - 1):
        try:
            return await once()
        except RACES:
            await asyncio.sleep(AGAIN_AFTER)
    return await once()


@asynccontextmanager
async def discarded_when_read_only(connection: AsyncConnection[Any]) -> AsyncIterator[None]:
    """A pool throws a closed connection away."""
    try:
        yield
    except psycopg.errors.ReadOnlySqlTransaction:
        await connection.close()
        raise


class translated:  # noqa: N801 - reads as a word: `with translated():`
    """Turns what a caller may try again later into StorageUnavailable."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, RACES):
            raise LostRace(f"PostgreSQL preferred another transaction: {_first_line(error)}") from error
        if isinstance(error, _GIVEN_UP):
            raise StorageUnavailable(f"PostgreSQL gave the statement up: {_first_line(error)}") from error
        if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
            raise StorageUnavailable(f"PostgreSQL is read-only: {_first_line(error)}") from error
        if isinstance(error, _UNREACHABLE):
            raise StorageUnavailable(f"PostgreSQL does not answer: {_first_line(error)}") from error
        if isinstance(error, psycopg.errors.UndefinedTable):
            raise StorageUnavailable("the database has no schema, or an old one: run `meantime migrate`") from error


def _first_line(error: BaseException) -> str:
    return str(error).strip().split("\n", maxsplit=1)[0] or type(error).__name__


async def _check(connection: Connection) -> None:
    """A round trip, unless the connection has just made one."""
    if not connection.trusted:
        await AsyncConnectionPool.check_connection(connection)


@asynccontextmanager
async def open_database(uri: str, *, size: int = 16, wait_for: float = WAIT_FOR) -> AsyncIterator[Database]:
    """Open the pool without waiting for the server: a node may start before its database."""
    silence, hosts = Silence(), Hosts(uri)

    async def configure(connection: Connection) -> None:
        connection.silence, connection.hosts = silence, hosts
        await connection.execute("SET plan_cache_mode = force_generic_plan")

    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
        hosts.address,
        kwargs={"autocommit": True, "row_factory": dict_row, "prepare_threshold": 1},
        connection_class=Connection,
        configure=configure,
        check=_check,
        min_size=1,
        max_size=size,
        timeout=wait_for,
        reconnect_timeout=wait_for,
        max_waiting=10_000,
        name="meantime",
        open=False,
    )
    await pool.open(wait=False)
    try:
        yield Database(pool, uri, silence)
    finally:
        await pool.close()
