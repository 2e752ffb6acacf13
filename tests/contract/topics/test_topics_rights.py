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


@pytest.mark.parametrize("purpose", ["retry", "dead", "periodic"])
async def test_a_topic_of_an_application_takes_messages_from_that_application_only(world: World, purpose: str) -> None:
    http, app = world.node.http, f"app-{uuid4().hex[:8]}"
    topic = f"{app}.{purpose}"
    await http.put(f"/topics/{topic}", json={})
    invented = {"messages": [{"id": "m", "after_ms": 0, "body": {"event": "invented"}}]}
    strangers = {"X-Producer-Group": "strangers"}
    refused = await http.post(f"/topics/{topic}/messages", json=invented, headers=strangers)
    assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
    assert (await http.get(f"/topics/{topic}/count")).json() == {"count": 0}
    missing = await http.post(f"/topics/{topic}.none.{purpose}/messages", json=invented, headers=strangers)
    assert missing.status_code == 404
    taken = await http.post(f"/topics/{topic}/messages", json=invented, headers={"X-Producer-Group": app})
    assert taken.status_code == 201


async def test_dead_letters_of_every_group_reach_the_topic_of_an_application_and_come_back(world: World) -> None:
    http, name = world.node.http, f"t-{uuid4().hex[:8]}"
    await http.put(f"/topics/{name}.dead", json={})
    await http.put(f"/topics/{name}", json={"max_attempts": 1, "dead_letter_topic": f"{name}.dead"})
    await http.post(f"/topics/{name}/messages", json={"messages": [{"id": "m", "after_ms": 0}]}, headers=GROUP)
    pulled = (await http.post(f"/topics/{name}/leases", json={"consumer_id": "one"})).json()["leases"]
    claim = {"id": "m", "version": pulled[0]["version"], "after_ms": 1_000}
    await http.post(f"/topics/{name}/leases/release", json={"consumer_id": "one", "leases": [claim]})
    letter = await http.get(f"/topics/{name}.dead/messages/m", headers=GROUP)
    assert letter.json()["dead_letter"]["topic"] == name
    assert (await http.post(f"/topics/{name}.dead/redrive", json={})).json()["moved"] == 1
    assert (await http.get(f"/topics/{name}/messages/m", headers=GROUP)).status_code == 200
