"""Connections for the statements of topics: prepared, binary both ways, and planned the same way whatever the tables hold.

A plan made while a table is empty would read all of it; it would be kept when the table has millions of rows. So the
plans that could ever be wrong for these statements are switched off for these connections. A connection is not checked
before each use, which would cost a round trip per statement; after a failure all idle ones are checked.

The pool lends the connection that has been idle for longest, the one whose server process has the coldest caches. So one is
kept aside and used first: statements that follow each other all run in one server process.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from psycopg import AsyncCursor, errors
from psycopg.pq import TransactionStatus
from psycopg.rows import TupleRow, tuple_row
from psycopg_pool import AsyncConnectionPool, PoolClosed

from meantime.database.addresses import Hosts
from meantime.database.arrays import teach
from meantime.database.connecting import ANSWER_WITHIN, LONG_WITHIN, LimitedConnection, Silence
from meantime.database.pool import WAIT_FOR, discarded_when_read_only, repeated, translated
from meantime.errors import StorageUnavailable
from meantime.tasks import start

Rows = list[TupleRow]
Params = Mapping[str, Any]

_PLANNING = """
SET plan_cache_mode = force_generic_plan;
SET enable_seqscan = off;
SET enable_bitmapscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET enable_material = off;
SET jit = off
"""


class Connection(LimitedConnection[TupleRow]):
    """`cursors` has one per statement, used again and again: making one costs as much as sending a statement, and one that
    serves several forgets each time how their values are converted."""

    cursors: dict[str, AsyncCursor[TupleRow]]


class Statements:
    """Runs statements; each is a transaction of its own unless `transaction()` holds several together."""

    def __init__(self, pool: AsyncConnectionPool[Connection], silence: Silence) -> None:
        self._pool = pool
        self._silence = silence
        self._check: asyncio.Task[None] | None = None
        self._kept: Connection | None = None
        self._borrowing = 0

    async def run(self, sql: str, params: Params, *, prepare: bool = True) -> Rows:
        """The rows; for a statement that returns none, an empty list. Tried again when it lost against another one. One
        that is not prepared is planned for its parameters."""
        return (await self._repeated(partial(self._once, sql, params, prepare)))[0]

    async def count(self, sql: str, params: Params) -> int:
        """How many rows the statement touched."""
        return (await self._repeated(partial(self._once, sql, params)))[1]

    async def count_patiently(self, sql: str, params: Params) -> int:
        """The same for a statement of a background duty, which may take long."""
        return (await self._repeated(partial(self._once, sql, params, answer_within=LONG_WITHIN)))[1]

    async def _repeated(self, once: Callable[[], Awaitable[tuple[Rows, int]]]) -> tuple[Rows, int]:
        try:
            with translated():
                return await repeated(once)
        except StorageUnavailable:
            self._check_idle_connections()
            raise

    async def _once(
        self, sql: str, params: Params, prepare: bool = True, answer_within: float | None = None
    ) -> tuple[Rows, int]:
        await self._silence.admit()
        connection = self._take_kept() or await self._borrow()
        usual = connection.answer_within
        try:
            connection.answer_within = answer_within or usual
            rows = await rows_of(connection, sql, params, prepare)
            return rows, connection.cursors[sql].rowcount
        except errors.ReadOnlySqlTransaction:
            await connection.close()
            raise
        finally:
            connection.answer_within = usual
            await self._give_back(connection)

    def _take_kept(self) -> Connection | None:
        connection, self._kept = self._kept, None
        return connection

    async def _borrow(self) -> Connection:
        self._borrowing += 1
        try:
            return await self._pool.getconn()
        finally:
            self._borrowing -= 1

    async def _give_back(self, connection: Connection) -> None:
        """Keep it, unless another caller waits for the pool to lend one."""
        if not (self._kept or self._borrowing) and connection.pgconn.transaction_status == TransactionStatus.IDLE:
            self._kept = connection
        else:
            await self._pool.putconn(connection)

    async def close(self) -> None:
        if connection := self._take_kept():
            await self._pool.putconn(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        try:
            await self._silence.admit()
            with translated():
                async with (
                    self._pool.connection() as connection,
                    discarded_when_read_only(connection),
                    connection.transaction(),
                ):
                    yield connection
        except StorageUnavailable:
            self._check_idle_connections()
            raise

    def _check_idle_connections(self) -> None:
        if self._check is None or self._check.done():
            self._check = start(self._check_pool(), name="topics pool check")

    async def _check_pool(self) -> None:
        try:
            await self._pool.check()
        except PoolClosed:
            return


async def rows_of(connection: Connection, sql: str, params: Params, prepare: bool = True) -> Rows:
    cursor = connection.cursors.get(sql)
    if cursor is None:
        cursor = connection.cursors[sql] = connection.cursor(binary=True)
    await cursor.execute(sql, params, prepare=prepare)
    result = cursor.pgresult
    rows = await cursor.fetchall() if result and result.nfields else []
    if result:
        result.clear()  # a cursor that waits for its next use would keep all of it
    return rows


@asynccontextmanager
async def open_statements(
    uri: str, *, size: int, wait_for: float = WAIT_FOR, answer_within: float = ANSWER_WITHIN
) -> AsyncIterator[Statements]:
    silence, hosts = Silence(), Hosts(uri)

    async def configure(connection: Connection) -> None:
        teach(connection)
        connection.cursors = {}
        connection.silence, connection.hosts, connection.answer_within = silence, hosts, answer_within
        await connection.execute(_PLANNING)

    pool: AsyncConnectionPool[Connection] = AsyncConnectionPool(
        hosts.address,
        kwargs={"autocommit": True, "row_factory": tuple_row},
        connection_class=Connection,
        configure=configure,
        # A connection that has to be opened first would make a message late: as many as mostly run at once are kept open.
        min_size=min(4, size),
        max_size=size,
        timeout=wait_for,
        reconnect_timeout=wait_for,
        max_waiting=10_000,
        name="meantime-topics",
        open=False,
    )
    await pool.open(wait=False)
    statements = Statements(pool, silence)
    try:
        yield statements
    finally:
        await statements.close()
        await pool.close()
