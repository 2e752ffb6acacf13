"""What consumers see over HTTP, on two nodes over one real PostgreSQL."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from topics_calls import claim, create, new_topic, operate, pull
from topics_consumer import push
from topics_nodes import GROUP, TopicsNode, open_two_nodes

from conftest import Services
from meantime.database.statements import Statements


@pytest_asyncio.fixture(scope="module")
async def nodes(services: Services) -> AsyncIterator[list[TopicsNode]]:
    async with open_two_nodes(services.postgres) as both:
        yield both


@pytest.fixture
def http(nodes: list[TopicsNode]) -> httpx.AsyncClient:
    return nodes[0].http


@pytest.fixture
def elsewhere(nodes: list[TopicsNode]) -> httpx.AsyncClient:
    return nodes[1].http


@pytest_asyncio.fixture
async def topic(http: httpx.AsyncClient) -> str:
    return await new_topic(http)


async def test_a_pull_leases_what_is_due_in_time_order(http: httpx.AsyncClient, topic: str) -> None:
    now_ms = int((await http.get("/topics")).headers["X-Meantime-Now"])
    messages = [{"id": f"m{n}", "at_ms": now_ms + 3000 + (n * 7) % 50} for n in range(50)]
    await http.post(f"/topics/{topic}/messages", json={"messages": messages}, headers=GROUP)
    assert await pull(http, topic) == []
    await asyncio.sleep(3.2)
    leases = await pull(http, topic, limit=20) + await pull(http, topic, limit=100)
    assert [lease["created_for_ms"] for lease in leases] == [now_ms + 3000 + n for n in range(50)]
    assert all(lease["attempts"] == 1 and lease["version"] == 2 for lease in leases)
    assert all(lease["producer_group"] == "owners" for lease in leases)


async def test_a_pull_gets_as_much_as_it_asks_for(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, *[f"m{n}" for n in range(3000)])
    assert len(await pull(http, topic, limit=2500)) == 2500
    assert len(await pull(http, topic, limit=10_000)) == 500


async def test_a_long_poll_ends_with_the_first_message(http: httpx.AsyncClient, elsewhere: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    waiting = asyncio.create_task(pull(elsewhere, topic, wait_ms=60_000))
    await asyncio.sleep(0.2)
    began = time.monotonic()
    await create(http, topic, "a", after_ms=100)
    assert [lease["id"] for lease in await asyncio.wait_for(waiting, 30)] == ["a"]
    assert time.monotonic() - began > 0.09
    began = time.monotonic()
    assert await pull(http, topic, wait_ms=300) == []
    assert time.monotonic() - began > 0.29


async def test_who_left_during_a_long_poll_takes_nothing(http: httpx.AsyncClient, topic: str) -> None:
    with pytest.raises(httpx.ReadTimeout):
        await http.post(
            f"/topics/{topic}/leases", json={"consumer_id": "c", "wait_ms": 60_000}, timeout=httpx.Timeout(30, read=0.3)
        )
    await asyncio.sleep(0.2)
    await create(http, topic, "a")
    assert [lease["attempts"] for lease in await pull(http, topic, "d", wait_ms=30_000)] == [1]


@pytest.mark.parametrize(
    "fields",
    [{"limit": 0}, {"limit": 10_001}, {"wait_ms": 60_001}, {"wait_ms": -1}, {"lease_ms": 0}, {"lease_ms": 43_200_001}],
)
async def test_a_pull_that_makes_no_sense_is_refused(http: httpx.AsyncClient, topic: str, fields: dict[str, int]) -> None:
    body = {"consumer_id": "c", **fields}
    assert (await http.post(f"/topics/{topic}/leases", json=body)).status_code == 422
    assert (await http.post(f"/topics/{topic}/leases", json=body | {"limit": "x"})).status_code == 400
    assert (await http.post(f"/topics/{topic}/leases", json={"consumer_id": "bad id"})).status_code == 422
    assert (await http.post("/topics/nowhere/leases", json={"consumer_id": "c"})).status_code == 404


async def test_a_lease_that_ends_gives_the_message_back(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, "a")
    (first,) = await pull(http, topic, lease_ms=200)
    (second,) = await pull(http, topic, "d", wait_ms=2000)
    assert (second["attempts"], second["version"]) == (2, 3)
    assert second["at_ms"] - 30_000 >= first["at_ms"]  # type: ignore[operator]
    assert await operate(http, topic, "delete", claim(first)) == [{"id": "a", "status": "not_holder"}]
    assert await operate(http, topic, "delete", claim(second), consumer_id="d") == [{"id": "a", "status": "ok"}]
    assert await operate(http, topic, "delete", claim(second), consumer_id="d") == [{"id": "a", "status": "not_found"}]


async def test_each_claim_hears_the_first_reason_that_applies(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, "a", "b", "late")
    a, b, late = await pull(http, topic, limit=3)
    (shortened,) = await operate(http, topic, "extend", claim(late, after_ms=20))
    assert shortened["status"] == "ok"
    await asyncio.sleep(0.05)
    results = await operate(
        http,
        topic,
        "extend",
        claim(a, after_ms=60_000),
        {"id": "never", "version": 1, "after_ms": 10},
        claim(b, version=1, after_ms=1),
        claim(b, after_ms=1),
        claim(b, after_ms=43_200_001),
        claim(b),
        claim(b, at_ms=1, after_ms=50),
        claim(shortened, after_ms=60_000),
        {"id": "b", "after_ms": 60_000},
        {"version": 1},
        claim(b, after_ms=60_000),
    )
    assert [one["status"] for one in results] == [
        "ok",
        "not_found",
        "stale_version",
        "invalid_time",
        "invalid_time",
        "invalid_time",
        "invalid_time",
        "expired",
        "stale_version",
        "not_found",
        "ok",
    ]
    assert results[0]["version"] == 3
    assert [one["status"] for one in await operate(http, topic, "extend", claim(a, after_ms=50), consumer_id="x")] == [
        "not_holder"
    ]


async def test_a_lease_that_is_named_again_in_a_request_hears_what_it_would_hear_afterwards(
    http: httpx.AsyncClient, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await create(http, topic, "a", "b", "c")
    leases = {str(lease["id"]): lease for lease in await pull(http, topic, limit=3)}
    a, b, c = leases["a"], leases["b"], leases["c"]
    await create(http, topic, "mine")
    statements = 0
    run = Statements.run

    async def counted(self: Statements, *args: Any, **options: Any) -> Any:
        nonlocal statements
        statements += "topic_messages" in str(args[0]) and "topic_ids" in str(args[0])
        return await run(self, *args, **options)

    monkeypatch.setattr(Statements, "run", counted)
    again = claim(a, version=a["version"] + 1, after_ms=70_000)
    extended = await operate(
        http, topic, "extend", *[claim(a, after_ms=60_000)] * 3, again, *[again] * 4996, *[claim(b)] * 5000
    )
    statuses = [one["status"] for one in extended]
    assert statuses[:4] == ["ok", "stale_version", "stale_version", "ok"]
    assert set(statuses[4:5000]) == {"stale_version"}
    assert set(statuses[5000:]) == {"invalid_time"}
    assert extended[3]["version"] == a["version"] + 2
    released = await operate(http, topic, "release", *[claim(b, after_ms=60_000)] * 10_000)
    assert [one["status"] for one in released] == ["ok", *["not_holder"] * 9999]
    deleted = await operate(http, topic, "delete", *[claim(c)] * 10_000)
    assert [one["status"] for one in deleted] == ["ok", *["not_found"] * 9999]
    answer = await http.post(f"/topics/{topic}/messages/delete", json={"ids": ["mine"] * 10_000}, headers=GROUP)
    assert [one["status"] for one in answer.json()["results"]] == ["ok"] * 10_000
    assert statements < 200


async def test_a_released_message_comes_back_at_its_instant(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, "a")
    (lease,) = await pull(http, topic)
    (released,) = await operate(http, topic, "release", claim(lease, after_ms=250))
    assert (released["status"], released["version"]) == ("ok", 3)
    message = (await http.get(f"/topics/{topic}/messages/a", headers=GROUP)).json()
    assert (message["status"], message["lock_consumer_id"], message["attempts"]) == ("waiting", None, 1)
    assert message["created_for_ms"] == lease["created_for_ms"]
    (again,) = await pull(http, topic, "d", wait_ms=2000)
    assert again["attempts"] == 2
    assert again["at_ms"] - 30_000 >= released["at_ms"]  # type: ignore[operator]


async def test_the_owner_lists_a_message_wherever_it_stands(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, "due", "leased", "released", "moved")
    await create(http, topic, "later", after_ms=60_000)
    path = f"/topics/{topic}/messages"
    assert (await http.patch(f"{path}/moved", json={"after_ms": 90_000}, headers=GROUP)).status_code == 200
    leases = {lease["id"]: lease for lease in await pull(http, topic, limit=9)}
    assert set(leases) == {"due", "leased", "released"}
    await operate(http, topic, "release", claim(leases["released"], after_ms=90_000), claim(leases["due"], after_ms=10))
    listed = (await http.get(path, headers=GROUP)).json()["messages"]
    assert [one["id"] for one in listed] == ["due", "later", "leased", "moved", "released"]


async def test_the_owner_lists_what_was_due_when_it_was_created(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, "b", "a")
    listed = (await http.get(f"/topics/{topic}/messages", headers=GROUP)).json()["messages"]
    assert [(one["id"], one["status"]) for one in listed] == [("a", "available"), ("b", "available")]


async def test_a_stream_pushes_each_message_when_it_is_due(http: httpx.AsyncClient, elsewhere: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    async with push(http, topic, "c") as consumer:
        assert consumer.status == 200
        await create(http, topic, "now")
        await create(elsewhere, topic, "from-another-node")
        await create(elsewhere, topic, "soon", after_ms=2000)
        await create(http, topic, "later", after_ms=3000)
        leases = await consumer.take(4)
        assert {leases[0]["id"], leases[1]["id"]} == {"now", "from-another-node"}
        assert [lease["id"] for lease in leases[2:]] == ["soon", "later"]
        assert all(lease["at_ms"] - 30_000 >= lease["created_for_ms"] for lease in leases)
        assert consumer.blank_lines


async def test_a_lease_that_runs_out_makes_room(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, "a", "b")
    async with push(http, topic, "c", buffer=1, lease_ms=300) as consumer:
        leases = await consumer.take(3)
        assert [lease["id"] for lease in leases] == ["a", "b", "a"]


async def test_after_its_last_attempt_a_message_goes_to_the_dead_letter_topic(http: httpx.AsyncClient) -> None:
    graves = await new_topic(http, bucket_count=8)
    topic = await new_topic(http, max_attempts=2, dead_letter_topic=graves)
    await create(http, topic, "expires", "released", "deleted")
    for lease in await pull(http, topic, limit=3):
        await operate(http, topic, "release", claim(lease, after_ms=5))
    leases = {lease["id"]: lease for lease in await pull(http, topic, limit=3, wait_ms=1000, lease_ms=6000)}
    while len(leases) < 3:
        leases |= {lease["id"]: lease for lease in await pull(http, topic, limit=3, wait_ms=300, lease_ms=6000)}
    assert await operate(http, topic, "delete", claim(leases["deleted"])) == [{"id": "deleted", "status": "ok"}]
    (released,) = await operate(http, topic, "release", claim(leases["released"], after_ms=60_000))
    assert released["status"] == "ok"
    dead = await pull(http, graves, "undertaker", wait_ms=60_000)
    dead += await pull(http, graves, "undertaker", wait_ms=60_000)
    assert [one["id"] for one in dead] == ["released", "expires"]
    assert all(one["producer_group"] == "owners" and one["body"] == one["id"] for one in dead)
    history = dead[1]["dead_letter"]
    assert history == {
        "topic": topic,
        "attempts": 2,
        "last_consumer_id": "c",
        "died_at_ms": leases["expires"]["at_ms"],
    }
    assert (await http.get(f"/topics/{topic}/count")).json() == {"count": 0}


async def test_the_dead_are_sent_back_in_bulk(http: httpx.AsyncClient) -> None:
    graves = await new_topic(http)
    topic = await new_topic(http, max_attempts=1, dead_letter_topic=graves)
    await create(http, topic, *[f"m{n}" for n in range(5)])
    await pull(http, topic, limit=5, lease_ms=50)
    for _ in range(600):
        if (await http.get(f"/topics/{graves}/count")).json()["count"] == 5:
            break
        await asyncio.sleep(0.1)
    first = await http.post(f"/topics/{graves}/redrive", json={"limit": 2})
    assert first.json() == {"moved": 2, "skipped": 0}
    rest = await http.post(f"/topics/{graves}/redrive")
    assert rest.json() == {"moved": 3, "skipped": 0}
    again = await pull(http, topic, limit=10)
    assert sorted((str(one["id"]), one["attempts"]) for one in again) == [(f"m{n}", 1) for n in range(5)]
    assert all("dead_letter" not in one for one in again)
    assert (await http.post(f"/topics/{graves}/redrive", json={"to": "nowhere"})).status_code == 404


async def test_without_a_dead_letter_topic_the_dead_stay_until_their_owner_decides(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http, max_attempts=1)
    await create(http, topic, "a", "b", "d")
    await pull(http, topic, limit=3, lease_ms=50)
    await asyncio.sleep(0.1)
    assert await pull(http, topic) == []
    path = f"/topics/{topic}/messages"
    for _ in range(2):
        assert (await http.get(f"{path}/a", headers=GROUP)).json()["status"] == "dead"
        assert (await http.get(f"/topics/{topic}/count?status=dead")).json() == {"count": 3}
        await asyncio.sleep(0.4)
    assert (await http.patch(f"{path}/a", json={"after_ms": 0}, headers=GROUP)).status_code == 200
    assert (await http.delete(f"{path}/b", headers=GROUP)).status_code == 204
    assert [(one["id"], one["attempts"]) for one in await pull(http, topic)] == [("a", 1)]
    assert (await http.post(f"/topics/{topic}/redrive")).json() == {"moved": 1, "skipped": 0}
    assert [(one["id"], one["attempts"]) for one in await pull(http, topic)] == [("d", 1)]


async def test_an_expired_last_attempt_whose_grave_is_taken_stays_as_dead(http: httpx.AsyncClient) -> None:
    graves = await new_topic(http)
    topic = await new_topic(http, max_attempts=1, dead_letter_topic=graves)
    await create(http, graves, "a", after_ms=60_000)
    await create(http, topic, "a")
    await pull(http, topic, lease_ms=50)
    await asyncio.sleep(0.6)
    assert (await http.get(f"/topics/{topic}/messages/a", headers=GROUP)).json()["status"] == "dead"


async def test_a_node_that_degrades_pauses_its_streams_and_goes_on_later(nodes: list[TopicsNode]) -> None:
    http = nodes[0].http
    topic = await new_topic(http)
    async with push(http, topic, "c") as consumer:
        await create(http, topic, "a")
        await consumer.take(1)
        nodes[0].health.healthy = False
        try:
            await create(nodes[1].http, topic, "b")
            await asyncio.sleep(0.4)
            assert consumer.leases == []
        finally:
            nodes[0].health.healthy = True
        await consumer.take(1)


async def test_a_stream_of_a_deleted_topic_ends(http: httpx.AsyncClient, topic: str) -> None:
    async with push(http, topic, "c") as consumer:
        assert (await http.delete(f"/topics/{topic}")).status_code == 202
        for _ in range(600):
            if consumer.ended:
                break
            await asyncio.sleep(0.1)
    assert (await http.get(f"/topics/{topic}/leases?consumer_id=c")).status_code == 404
