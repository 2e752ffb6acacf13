"""The other side of the topics benchmark: pgmq, and a plain table with SKIP LOCKED, in the same server."""

import os
import shutil
import subprocess
from pathlib import Path

import psycopg
from psycopg import AsyncConnection

CRATE = "0.34.0-alpha.7"
BODY = '"' + "x" * 198 + '"'
MANIFEST = f"""
[package]
name = "fetch"
version = "0.0.0"
edition = "2021"
[lib]
path = "lib.rs"
[dependencies]
pgmq = "={CRATE}"
"""


class Missing(Exception):
    """A peer that cannot be had here."""


def pgmq_sql() -> str:
    """pgmq as plain SQL, from its Rust crate, which cargo brings into a cache of its own."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "meantime" / "bench" / "pgmq"
    found = list(cache.glob(f"cargo/registry/src/*/pgmq-{CRATE}/src/install/embedded/sql/pgmq.sql"))
    if not found:
        _fetch(cache)
        found = list(cache.glob(f"cargo/registry/src/*/pgmq-{CRATE}/src/install/embedded/sql/pgmq.sql"))
    if not found:
        raise Missing("the crate has no pgmq.sql where it is expected")
    return found[0].read_text().replace("@extschema@", "pgmq")


def _fetch(cache: Path) -> None:
    if shutil.which("cargo") is None:
        raise Missing("cargo is not installed")
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "Cargo.toml").write_text(MANIFEST)
    (cache / "lib.rs").write_text("")
    environment = os.environ | {"CARGO_HOME": str(cache / "cargo")}
    done = subprocess.run(
        ["cargo", "fetch"], cwd=cache, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    if done.returncode:
        raise Missing(f"cargo cannot fetch it: {done.stderr.strip().splitlines()[-1]}")


class Pgmq:
    name = "pgmq"

    def __init__(self, connection: AsyncConnection, queue: str) -> None:
        self._connection = connection
        self._queue = queue

    @classmethod
    async def open(cls, uri: str, queue: str = "bench") -> "Pgmq":
        sql = pgmq_sql()
        connection = await _connect(uri)
        found = await connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = 'pgmq'")
        if not await found.fetchone():
            await connection.execute("CREATE SCHEMA pgmq")
            await connection.execute(sql)
        await connection.execute("SELECT pgmq.create(%s)", (queue,))
        return cls(connection, queue)

    def prepare(self, count: int) -> list[str]:
        return [BODY] * count

    async def create(self, prepared: list[str]) -> None:
        cursor = await self._connection.execute("SELECT * FROM pgmq.send_batch(%s, %s::jsonb[])", (self._queue, prepared))
        await cursor.fetchall()

    async def lease(self, count: int) -> list[int]:
        cursor = await self._connection.execute("SELECT * FROM pgmq.read(%s, 60, %s)", (self._queue, count))
        return [row[0] for row in await cursor.fetchall()]

    async def delete(self, leases: list[int]) -> None:
        cursor = await self._connection.execute("SELECT pgmq.delete(%s, %s::bigint[])", (self._queue, leases))
        await cursor.fetchall()

    async def store_future(self, count: int) -> None:
        """Delayed messages, as pgmq keeps them."""
        await self._connection.execute(
            f"INSERT INTO pgmq.q_{self._queue} (vt, message) "
            f"SELECT clock_timestamp() + interval '1 day' + n * interval '1 ms', '{BODY}'::jsonb "
            f"FROM generate_series(1, {int(count)}) AS n"
        )

    async def close(self) -> None:
        await self._connection.close()


class PlainTable:
    """What people write first: one table, one index, SKIP LOCKED, the database's clock."""

    name = "plain table"

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    @classmethod
    async def open(cls, uri: str) -> "PlainTable":
        connection = await _connect(uri)
        await connection.execute(
            "DROP TABLE IF EXISTS plain_jobs; CREATE TABLE plain_jobs (id bigserial PRIMARY KEY, "
            "run_at timestamptz NOT NULL, body jsonb NOT NULL); CREATE INDEX ON plain_jobs (run_at)"
        )
        return cls(connection)

    def prepare(self, count: int) -> list[str]:
        return [BODY] * count

    async def create(self, prepared: list[str]) -> None:
        await self._connection.execute(
            "INSERT INTO plain_jobs (run_at, body) SELECT now(), body FROM unnest(%s::jsonb[]) AS body RETURNING id",
            (prepared,),
        )

    async def lease(self, count: int) -> list[int]:
        cursor = await self._connection.execute(
            "UPDATE plain_jobs SET run_at = now() + interval '60 seconds' WHERE id IN (SELECT id FROM plain_jobs "
            "WHERE run_at <= now() ORDER BY run_at LIMIT %s FOR UPDATE SKIP LOCKED) RETURNING id, body",
            (count,),
        )
        return [row[0] for row in await cursor.fetchall()]

    async def delete(self, leases: list[int]) -> None:
        await self._connection.execute("DELETE FROM plain_jobs WHERE id = ANY(%s)", (leases,))

    async def close(self) -> None:
        await self._connection.close()


async def _connect(uri: str) -> AsyncConnection:
    connection = await psycopg.AsyncConnection.connect(uri, autocommit=True, prepare_threshold=1)
    await connection.execute("SET synchronous_commit = on")
    return connection
