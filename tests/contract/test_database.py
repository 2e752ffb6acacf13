"""The database package on a real PostgreSQL."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import psycopg
import pytest

from meantime.access.keys import CHANNEL, Authenticator, Keys
from meantime.database.connecting import LimitedConnection
from meantime.database.listener import open_listener
from meantime.database.migrate import migrate
from meantime.database.pool import Database, DatabaseState, LostRace, open_database
from meantime.database.statements import open_statements
from meantime.errors import Invalid, NotFound, StorageUnavailable, TooManyRequests, Unauthenticated

SCHEMA = Path(__file__).parents[2] / "src" / "meantime" / "database" / "schema.txt"

DESCRIPTION = """
SELECT format('column %s.%s %s%s%s', table_name, column_name, data_type,
              CASE is_nullable WHEN 'NO' THEN ' not null' ELSE '' END, coalesce(' default ' || column_default, ''))
  FROM information_schema.columns WHERE table_schema = 'public' AND table_name NOT LIKE '%yoyo%'
UNION ALL
SELECT format('index %s', indexdef) FROM pg_indexes WHERE schemaname = 'public' AND tablename NOT LIKE '%yoyo%'
UNION ALL
SELECT format('constraint %s %s', conrelid::regclass, pg_get_constraintdef(oid)) FROM pg_constraint
 WHERE connamespace = 'public'::regnamespace AND contype IN ('f', 'c') AND conrelid::regclass::text NOT LIKE '%yoyo%'
 ORDER BY 1
"""

CUT_ALL_OTHERS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
"""


@pytest.fixture
def uri(services) -> Iterator[str]:
    """A database of its own, empty."""
    name = f"test_{uuid4().hex[:12]}"
    with psycopg.connect(services.postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    yield urlunsplit(urlsplit(services.postgres)._replace(path=f"/{name}"))
    with psycopg.connect(services.postgres, autocommit=True) as connection:
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def describe(uri: str) -> str:
    with psycopg.connect(uri) as connection:
        return "\n".join(row[0] for row in connection.execute(DESCRIPTION)) + "\n"


def test_the_schema_is_the_sum_of_the_migrations(uri: str) -> None:
    migrate(uri)
    described = describe(uri)
    if os.environ.get("MEANTIME_WRITE_SCHEMA"):
        SCHEMA.write_text(described)
    assert described == SCHEMA.read_text(), "if the change is meant: MEANTIME_WRITE_SCHEMA=1 make test"


def test_migrating_again_does_nothing_and_many_may_migrate_at_once(uri: str) -> None:
    with ThreadPoolExecutor(4) as pool:
        applied = list(pool.map(migrate, [uri] * 4))
    assert sorted(map(bool, applied)) == [False, False, False, True]
    assert migrate(uri) == []


def test_a_lock_left_by_a_killed_migration_does_not_matter(uri: str) -> None:
    migrate(uri)
    with psycopg.connect(uri) as connection:
        connection.execute("INSERT INTO yoyo_lock (locked, pid) VALUES (1, 999999)")
    assert migrate(uri) == []


async def test_a_database_that_does_not_answer_is_storage_unavailable() -> None:
    async with open_database("postgresql://127.0.0.1:1/none", wait_for=0.3) as database:
        assert await database.state() is DatabaseState.SILENT
        with pytest.raises(StorageUnavailable, match="does not answer"):
            await database.fetch_one("SELECT 1")
    with pytest.raises(StorageUnavailable):
        await asyncio.to_thread(migrate, "postgresql://127.0.0.1:1/none")


async def test_what_is_not_answered_in_time_is_given_up_and_its_connection_thrown_away(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_database(uri, size=1) as database:
        before = await database.fetch_one("SELECT pg_backend_pid() AS pid")
        assert before is not None
        monkeypatch.setattr(LimitedConnection, "answer_within", 0.5)
        with pytest.raises(StorageUnavailable, match="no answer within"):
            await database.execute("SELECT pg_sleep(300)")
        monkeypatch.undo()
        after = await database.fetch_one("SELECT pg_backend_pid() AS pid")
        assert after is not None
        assert after["pid"] != before["pid"]
        async with asyncio.timeout(60):
            while await database.fetch_all("SELECT 1 FROM pg_stat_activity WHERE pid = %s", (before["pid"],)):  # noqa: ASYNC110
                await asyncio.sleep(0.05)


async def test_a_connection_that_was_closed_right_after_its_answer_is_replaced_unnoticed(uri: str) -> None:
    async with open_database(uri, size=1) as database:
        for _ in range(5):
            row = await database.fetch_one("SELECT pg_backend_pid() AS pid")
            assert row is not None
            with psycopg.connect(uri, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 30000)", [row["pid"]])
            assert (await database.fetch_one("SELECT pg_backend_pid() AS pid") or row) != row


async def test_a_transaction_is_all_or_nothing(uri: str) -> None:
    async with open_database(uri) as database:
        await database.execute("CREATE TABLE t (n INT PRIMARY KEY)")

        async def insert_twice() -> None:
            async with database.transaction() as connection:
                await connection.execute("INSERT INTO t VALUES (1)")
                await connection.execute("INSERT INTO t VALUES (1)")

        with pytest.raises(psycopg.errors.UniqueViolation):
            await insert_twice()
        assert await database.fetch_all("SELECT n FROM t") == []


async def test_a_listener_hears_and_says_when_it_may_have_missed_something(uri: str) -> None:
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    async with open_database(uri) as database, open_listener(uri) as listener:
        listener.subscribe("news", heard.put_nowait)
        assert await asyncio.wait_for(heard.get(), 60) is None
        await database.execute("SELECT pg_notify('news', 'first')")
        assert await asyncio.wait_for(heard.get(), 60) == "first"
        with psycopg.connect(uri, autocommit=True) as connection:
            connection.execute(CUT_ALL_OTHERS)
        assert await asyncio.wait_for(heard.get(), 60) is None
        await database.execute("SELECT pg_notify('news', 'second')")
        assert await asyncio.wait_for(heard.get(), 60) == "second"


async def test_a_revoked_key_stops_working_at_once(uri: str) -> None:
    await asyncio.to_thread(migrate, uri)
    async with open_database(uri) as database, open_listener(uri) as listener:
        keys, door = Keys(database), Authenticator(database, listener)
        id, key = await keys.add("billing", ["publish:orders"], now_ms=1)
        for _ in range(3):
            identity = await door.identify(f"Bearer {key}")
        assert (identity.key_id, identity.scopes) == (id, frozenset({"publish:orders"}))
        other_node = Keys(database)
        await other_node.revoke(id, now_ms=2)
        async with asyncio.timeout(60):
            while True:
                try:
                    await door.identify(f"Bearer {key}")
                    await asyncio.sleep(0.01)  # what is remembered is answered at once, and the loop would hear nothing
                except Unauthenticated:
                    break
        with pytest.raises(NotFound):
            await keys.revoke(id, now_ms=3)


class OvertakenDatabase:
    """Its answers take as long as `meanwhile` does."""

    def __init__(self, database: Database, meanwhile: Callable[[], Awaitable[None]]) -> None:
        self._database = database
        self._meanwhile = meanwhile

    async def fetch_one(self, statement: str, values: dict[str, object]) -> object:
        row = await self._database.fetch_one(statement, values)
        await self._meanwhile()
        return row


async def test_a_key_that_is_revoked_while_it_is_looked_up_is_not_remembered(uri: str) -> None:
    await asyncio.to_thread(migrate, uri)
    async with open_database(uri) as database, open_listener(uri) as listener:
        keys, listening, heard = Keys(database), asyncio.Event(), asyncio.Event()
        id, key = await keys.add("billing", ["publish:orders"], now_ms=1)

        async def revoke() -> None:
            if not heard.is_set():
                await keys.revoke(id, now_ms=2)
                await asyncio.wait_for(heard.wait(), 60)

        overtaken: Any = OvertakenDatabase(database, revoke)
        door = Authenticator(overtaken, listener)
        listener.subscribe(CHANNEL, lambda payload: heard.set() if payload else listening.set())
        await asyncio.wait_for(listening.wait(), 60)
        with pytest.raises(Unauthenticated):
            await door.identify(f"Bearer {key}")


class Request:
    told = False

    def key_revoked(self) -> None:
        self.told = True


async def test_open_requests_are_told_of_a_revocation_of_which_no_notification_came(uri: str) -> None:
    await asyncio.to_thread(migrate, uri)
    async with open_database(uri) as database, open_listener(uri) as listener:
        keys, door = Keys(database), Authenticator(database, listener)
        gone, left, other = Request(), Request(), Request()
        id, key = await keys.add("billing", ["publish:orders"], now_ms=1)
        _, other_key = await keys.add("shipping", ["publish:orders"], now_ms=1)
        identity, other_identity = await door.identify(f"Bearer {key}"), await door.identify(f"Bearer {other_key}")
        door.enter(identity, gone)
        door.enter(identity, left)
        door.enter(other_identity, other)
        door.leave(identity, left)
        await door.end_revoked()
        assert not gone.told
        await database.execute("UPDATE api_keys SET revoked_ms = 2 WHERE id = %(id)s", {"id": id})
        await door.end_revoked()
        assert (gone.told, left.told, other.told) == (True, False, False)


async def test_many_wrong_keys_of_one_address_are_not_looked_up_and_known_keys_go_through(uri: str) -> None:
    await asyncio.to_thread(migrate, uri)
    async with open_database(uri) as database, open_listener(uri) as listener:
        door = Authenticator(database, listener)
        _, key = await Keys(database).add("billing", ["admin"], now_ms=1)
        heard: asyncio.Queue[str | None] = asyncio.Queue()
        listener.subscribe("news", heard.put_nowait)
        await asyncio.wait_for(heard.get(), 60)
        await database.execute("SELECT pg_notify('news', 'connected')")
        await asyncio.wait_for(heard.get(), 60)
        await door.identify(f"Bearer {key}", "10.0.0.1")
        refusals: list[type[Exception]] = []
        for number in range(100):
            with pytest.raises((Unauthenticated, TooManyRequests)) as refusal:
                await door.identify(f"Bearer mt_wrong_{number}", "10.0.0.1")
            refusals.append(refusal.type)
        assert refusals[0] is Unauthenticated
        assert refusals[-1] is TooManyRequests
        await door.identify(f"Bearer {key}", "10.0.0.1")
        with pytest.raises(Unauthenticated):
            await door.identify("Bearer mt_wrong", "10.0.0.2")


async def test_keys_are_stored_as_digests_only(uri: str) -> None:
    await asyncio.to_thread(migrate, uri)
    async with open_database(uri) as database:
        _, key = await Keys(database).add("billing", ["admin"], now_ms=1)
        rows = await database.fetch_all("SELECT * FROM api_keys")
    assert key.rpartition("_")[2] not in repr(rows)


async def test_a_key_needs_a_name_and_proper_scopes() -> None:
    async with open_database("postgresql://127.0.0.1:1/none", wait_for=0.3) as database:
        for name, scopes in [("", ["admin"]), ("a b", ["admin"]), ("ok", []), ("ok", ["root"])]:
            with pytest.raises(Invalid):
                await Keys(database).add(name, scopes, now_ms=1)


@contextmanager
def read_only(uri: str) -> Iterator[None]:
    """As after a demotion: who connects from now on may write nothing; who was connected is cut off."""
    name = psycopg.conninfo.conninfo_to_dict(uri)["dbname"]
    with psycopg.connect(uri, autocommit=True) as operator:
        operator.execute(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on')
        operator.execute(CUT_ALL_OTHERS)
        try:
            yield
        finally:
            operator.execute("SET default_transaction_read_only = off")
            operator.execute(f'ALTER DATABASE "{name}" RESET default_transaction_read_only')


WRITE = "UPDATE storages SET id = id"


async def until_read_only(write: Callable[[], Awaitable[object]]) -> None:
    """Connections that were cut off are noticed first."""
    async with asyncio.timeout(60):
        while True:
            with pytest.raises(StorageUnavailable) as refused:
                await write()
            if "read-only" in refused.value.detail:
                return


async def until_it_works(write: Callable[[], Awaitable[object]]) -> None:
    """Each connection that was made meanwhile is tried once, and thrown away."""
    async with asyncio.timeout(60):
        while True:
            with suppress(StorageUnavailable):
                await write()
                return
            await asyncio.sleep(0.05)


async def test_a_database_that_is_read_only_is_unavailable_and_heals_on_new_connections(uri: str) -> None:
    migrate(uri)
    async with open_database(uri, size=2) as database, open_statements(uri, size=2) as statements:

        async def transaction() -> None:
            async with database.transaction() as connection:
                await connection.execute(WRITE)

        async def transaction_of_topics() -> None:
            async with statements.transaction() as connection:
                await connection.execute(WRITE)

        writes = [
            partial(database.execute, WRITE),
            partial(statements.run, WRITE, {}),
            partial(statements.count, WRITE, {}),
            transaction,
            transaction_of_topics,
        ]
        with read_only(uri):
            for write in writes:
                await until_read_only(write)
            # As many connections as there are have been found to be of no use, and thrown away.
            assert (await database.fetch_one("SELECT 1 AS one")) == {"one": 1}
            for write in writes * 2:
                await until_read_only(write)
        for write in writes:
            await until_it_works(write)


async def test_a_statement_that_was_cancelled_may_be_tried_again(uri: str) -> None:
    async with open_database(uri) as database, open_statements(uri, size=2) as statements:
        for run in (partial(database.execute, CANCEL_MYSELF), partial(statements.run, CANCEL_MYSELF, {})):
            with pytest.raises(StorageUnavailable, match="gave the statement up"):
                await run()


CANCEL_MYSELF = "SELECT pg_cancel_backend(pg_backend_pid()), pg_sleep(60)"


async def test_a_statement_that_loses_a_race_is_run_again(uri: str) -> None:
    """Each of many writers reads what the others write, in the strictest isolation there is."""
    with psycopg.connect(uri, autocommit=True) as operator:
        operator.execute("CREATE TABLE tally (n int)")
        operator.execute("INSERT INTO tally VALUES (0)")
        name = psycopg.conninfo.conninfo_to_dict(uri)["dbname"]
        operator.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'serializable'")
    add = "UPDATE tally SET n = n + 1 WHERE pg_sleep(0.01) IS NOT NULL"
    async with open_database(uri, size=2) as database, open_statements(uri, size=2) as statements:
        for run in (partial(database.execute, add), partial(statements.run, add, {}), partial(statements.count, add, {})):
            for _ in range(5):
                await asyncio.gather(run(), run())

        async def lose() -> None:
            async with database.transaction() as first:
                await first.execute("SELECT n FROM tally")
                await database.execute(add)
                await first.execute(add)

        with pytest.raises(LostRace):
            await lose()
        assert await database.fetch_one("SELECT n FROM tally") == {"n": 31}
