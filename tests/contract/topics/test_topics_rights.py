"""Who may do what in which status: the whole table, over HTTP.

A message is brought into each status with a clock that the test moves; then everybody tries everything on a message of its
own. What is not allowed must change nothing.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from topics_nodes import GROUP, TopicsNode, new_database, open_node

from conftest import Services
from meantime.clock import ManualClock

LEASE_MS = 30_000

OWNER, OTHER_GROUP, HOLDER, OTHER_CONSUMER = "owner", "other group", "holder", "other consumer"
WAITING, PROCESSING, AVAILABLE, EXPIRED = "waiting", "processing", "available", "expired"

# (who, action) → the answer in each status. Owners and groups get HTTP statuses, with the problem's code for conflicts;
# extend, release and delete of a lease answer with a status per lease.
STATUSES = (WAITING, PROCESSING, AVAILABLE, EXPIRED)
TABLE = {
    (OWNER, "read"): (200, 200, 200, 200),
    (OWNER, "move"): (200, "leased", 200, 200),
    (OWNER, "delete"): (204, "leased", 204, 204),
    (OWNER, "extend"): ("not_holder",) * 4,
    (OWNER, "release"): ("not_holder",) * 4,
    (OTHER_GROUP, "read"): (403,) * 4,
    (OTHER_GROUP, "move"): (403,) * 4,
    (OTHER_GROUP, "delete"): (403,) * 4,
    (OTHER_GROUP, "extend"): ("not_holder",) * 4,
    (OTHER_GROUP, "release"): ("not_holder",) * 4,
    (HOLDER, "read"): (403, 200, 403, 403),
    (HOLDER, "move"): (401,) * 4,
    (HOLDER, "delete"): ("not_holder", "ok", "not_holder", "expired"),
    (HOLDER, "extend"): ("not_holder", "ok", "not_holder", "expired"),
    (HOLDER, "release"): ("not_holder", "ok", "not_holder", "expired"),
    (OTHER_CONSUMER, "read"): (403,) * 4,
    (OTHER_CONSUMER, "move"): (401,) * 4,
    (OTHER_CONSUMER, "delete"): ("not_holder",) * 4,
    (OTHER_CONSUMER, "extend"): ("not_holder",) * 4,
    (OTHER_CONSUMER, "release"): ("not_holder",) * 4,
}
ALLOWED = (200, 204, "ok")
CASES = [(who, action, status, TABLE[who, action][n]) for who, action in TABLE for n, status in enumerate(STATUSES)]


@dataclass(frozen=True)
class World:
    node: TopicsNode
    clock: ManualClock


@pytest_asyncio.fixture(scope="module")
async def world(services: Services) -> AsyncIterator[World]:
    clock = ManualClock()
    async with new_database(services.postgres) as uri, open_node(uri, clock=clock) as node:
        yield World(node, clock)


@pytest.mark.parametrize(("who", "action", "status", "expected"), CASES)
async def test_the_table_of_rights_holds(world: World, who: str, action: str, status: str, expected: int | str) -> None:
    http = world.node.http
    path = await message_in(world, status)
    before = (await http.get(path, headers=GROUP)).json()
    assert before["status"] == (AVAILABLE if status == EXPIRED else status)
    assert await attempt(http, path, who, action, before["version"]) == expected
    if action == "read" or expected not in ALLOWED:
        assert (await http.get(path, headers=GROUP)).json() == before


async def message_in(world: World, status: str) -> str:
    """The path of a new message in a topic of its own, in this status."""
    http, topic = world.node.http, f"t-{uuid4().hex[:8]}"
    await http.put(f"/topics/{topic}", json={})
    after_ms = 60_000 if status == WAITING else 0
    await http.post(f"/topics/{topic}/messages", json={"messages": [{"id": "m", "after_ms": after_ms}]}, headers=GROUP)
    if status in (PROCESSING, EXPIRED):
        pulled = await http.post(f"/topics/{topic}/leases", json={"consumer_id": HOLDER.upper(), "lease_ms": LEASE_MS})
        assert len(pulled.json()["leases"]) == 1
    if status == EXPIRED:
        world.clock.advance(LEASE_MS)
    return f"/topics/{topic}/messages/m"


async def attempt(http: httpx.AsyncClient, path: str, who: str, action: str, version: int) -> int | str:
    """A producer may try what consumers do, and the other way round: each says who it is in the only way it has."""
    headers, query = identity(who)
    if action == "read":
        return (await http.get(path, headers=headers, params=query)).status_code
    if action == "move":
        return conflict_or_status(await http.patch(path, headers=headers, params=query, json={"after_ms": 90_000}))
    if action == "delete" and who in (OWNER, OTHER_GROUP):
        return conflict_or_status(await http.delete(path, headers=headers))
    consumer = query.get("consumer_id", "some-consumer")
    claim = {"id": "m", "version": version, "after_ms": 90_000}
    leases = path.replace("messages/m", f"leases/{action}")
    answer = await http.post(leases, headers=headers, json={"consumer_id": consumer, "leases": [claim]})
    return answer.json()["results"][0]["status"]


def identity(who: str) -> tuple[dict[str, str], dict[str, str]]:
    if who in (OWNER, OTHER_GROUP):
        return (GROUP if who == OWNER else {"X-Producer-Group": "strangers"}), {}
    return {}, {"consumer_id": who.upper().replace(" ", "-")}


def conflict_or_status(answer: httpx.Response) -> int | str:
    return answer.json()["code"] if answer.status_code == 409 else answer.status_code
