"""A plan that is made while a table is empty is kept when it has millions of rows: so it must be right from the start."""

import re
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from topics_nodes import new_database

from conftest import Services
from meantime.database.queries import load
from meantime.database.statements import Statements, open_statements

QUERIES = {
    **load("meantime.topics.storage", "messages.sql"),
    **load("meantime.topics.storage", "depths.sql"),
    **load("meantime.topics.storage", "filtered.sql"),
    **load("meantime.topics.storage", "rates.sql"),
    **load("meantime.topics.duties", "upkeep.sql"),
}
OPEN, LEASED, STAGE, BY_ID = (f"topic_messages_{name}" for name in ("open", "leased", "stage", "pkey"))
INDEXES_OF = {
    "lease_due": {OPEN, LEASED, BY_ID},
    "lease_due_exclusive": {OPEN, LEASED, BY_ID},
    "lease_due_shared": {OPEN, LEASED, BY_ID},
    "upcoming": {OPEN, LEASED},
    "busy_topics": {OPEN, LEASED},
    "bounded_depths": {OPEN, LEASED, "topics_pkey"},
    "bounded_dead": STAGE,
    "sampled_depths": set(),
    "pages": set(),
    "open_slots": OPEN,
    "due_per_second": OPEN,
    "clear_open": {OPEN, BY_ID},
    "clear_leased": {LEASED, BY_ID},
    "dying": STAGE,
    "dying_patiently": STAGE,
    "forget": {STAGE, BY_ID},
    "clear_rest": {STAGE, BY_ID},
    "dead_here": STAGE,
    "count_dead": STAGE,
    "held": LEASED,
    "held_ends": LEASED,
    "outstanding": LEASED,
    "leased_slots": LEASED,
    "dead_letters": "topic_messages_letters",
    "by_instant": {OPEN, LEASED, STAGE},
    "keys_by_instant": {OPEN, LEASED, STAGE},
    "tell_rates": "topics_pkey",
    "capacities": "topic_rates_pkey",
    "insert_messages": "topics_pkey",
    "insert_messages_alike": "topics_pkey",
    "upsert_messages": "topics_pkey",
    "remember": set(),
}
ARRAYS = {
    "ids": "text[]", "consumers": "text[]", "groups": "text[]", "from_names": "text[]", "bodies": "bytea[]",
    "kinds": "boolean[]", "topic_ids": "int[]", "to_topics": "int[]", "buckets": "int[]", "turns": "int[]",
    "stages": "int[]", "leased_stages": "int[]", "rates": "float8[]",
    "versions": "bigint[]", "ats": "bigint[]", "leases_ms": "bigint[]", "knowns": "bigint[]", "forgets": "bigint[]",
    "floors": "bigint[]", "delays_ms": "bigint[]", "longest_ms": "bigint[]", "factors": "float8[]", "jitters": "float8[]",
    "reasons": "text[]",
}  # fmt: skip
OTHERS = {
    "everywhere": "boolean",
    "is_json": "boolean",
    "consumer_id": "text",
    "producer_group": "text",
    "id": "text",
    "after": "text",
    "first_id": "text",
    "end_id": "text",
    "node_id": "text",
    "with_body": "boolean",
    "any_group": "boolean",
}
MANY = """
INSERT INTO topic_messages (topic_id, id, at_ms, created_for_ms, bucket_id, version, attempts, stage, is_json,
    producer_group, lock_consumer_id, body)
SELECT n %% 5, md5(n::text), n, n, n %% 64, 1, 0, CASE WHEN n %% 100 = 0 THEN n / 100 %% 4 ELSE 0 END, true, 'g' || n %% 7,
    CASE WHEN n %% 50 = 0 THEN 'c' || n %% 10 END, ''
FROM generate_series(1, 20000) AS n
"""


@pytest_asyncio.fixture(scope="module")
async def statements(services: Services) -> AsyncIterator[Statements]:
    async with new_database(services.postgres) as uri, open_statements(uri, size=2) as statements:
        yield statements


@pytest.mark.parametrize("filled", [False, True])
async def test_every_statement_is_planned_with_its_index(statements: Statements, filled: bool) -> None:
    await statements.run("TRUNCATE topic_messages", {})
    if filled:
        await statements.run(MANY, {})
    await statements.run("VACUUM (ANALYZE) topic_messages", {})
    for name, sql in QUERIES.items() - {("messages_of_group", QUERIES["messages_of_group"])}:
        plan = await explain(statements, sql)
        expected = INDEXES_OF.get(name, BY_ID)
        used = set(re.findall(r"Index (?:Only )?Scan using (\w+)", plan))
        assert used == (expected if isinstance(expected, set) else {expected}), f"{name}:\n{plan}"
        assert "Seq Scan" not in plan, f"{name}:\n{plan}"


async def explain(statements: Statements, sql: str) -> str:
    """The plan for whatever parameters come."""
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    for number, name in enumerate(names, start=1):
        kind = ARRAYS.get(name) or OTHERS.get(name) or ("int" if name == "topic_id" else "bigint")
        sql = sql.replace(f"%({name})s", f"${number}::{kind}")
    async with statements.transaction() as connection:
        cursor = await connection.execute(f"EXPLAIN (GENERIC_PLAN, COSTS OFF) {sql}")  # type: ignore[arg-type]
        return "\n".join(row[0] for row in await cursor.fetchall())
