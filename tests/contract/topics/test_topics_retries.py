"""What becomes of messages that fail: when they come again, who learns why, and what operators see of them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
import pytest_asyncio
from topics_calls import claim, create, new_topic, operate, pull
from topics_nodes import GROUP, TopicsNode, open_two_nodes

from conftest import Services

DEFAULTS = {"delay_ms": 1000, "factor": 2, "max_ms": 3_600_000, "jitter": 0.1}
AT_ONCE = {"delay_ms": 0, "jitter": 0}


@pytest_asyncio.fixture(scope="module")
async def nodes(services: Services) -> AsyncIterator[list[TopicsNode]]:
    async with open_two_nodes(services.postgres) as both:
        yield both


@pytest.fixture
def http(nodes: list[TopicsNode]) -> httpx.AsyncClient:
    return nodes[0].http


async def settings(http: httpx.AsyncClient, topic: str) -> dict[str, Any]:
    return (await http.get(f"/topics/{topic}")).json()  # type: ignore[no-any-return]


async def message(http: httpx.AsyncClient, topic: str, id: str) -> dict[str, Any]:
    return (await http.get(f"/topics/{topic}/messages/{id}", headers=GROUP)).json()  # type: ignore[no-any-return]


async def fail(
    http: httpx.AsyncClient, topic: str, *ids: str, consumer_id: str = "c", **fields: object
) -> list[tuple[int, int]]:
    """Lease these messages, when they are due, and give them back: for how long, at least and at most."""
    leases: dict[object, Any] = {}
    while set(leases) != set(ids):
        found = await pull(http, topic, consumer_id, limit=len(ids), wait_ms=60_000)
        leases |= {lease["id"]: lease for lease in found}
    before_ms = await now_ms(http)
    claims = [claim(lease, **fields) for lease in leases.values()]
    outcomes: list[Any] = await operate(http, topic, "release", *claims, consumer_id=consumer_id)
    assert {outcome["status"] for outcome in outcomes} == {"ok"}
    after_ms = await now_ms(http)
    return [(outcome["at_ms"] - after_ms, outcome["at_ms"] - before_ms) for outcome in outcomes]


async def now_ms(http: httpx.AsyncClient) -> int:
    return int((await http.get("/topics")).headers["X-Meantime-Now"])


async def test_a_topic_shows_its_retry_policy_and_keeps_what_is_not_changed(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    assert (await settings(http, topic))["retry"] == DEFAULTS
    changed = await http.put(f"/topics/{topic}", json={"retry": {"delay_ms": 50, "factor": 1.5}, "max_attempts": 3})
    assert changed.json()["retry"] == DEFAULTS | {"delay_ms": 50, "factor": 1.5}
    await http.put(f"/topics/{topic}", json={"retry": {"jitter": 0}})
    await http.put(f"/topics/{topic}", json={"retry": None})
    assert (await settings(http, topic))["retry"] == {"delay_ms": 50, "factor": 1.5, "max_ms": 3_600_000, "jitter": 0}


@pytest.mark.parametrize(
    ("retry", "field"),
    [
        ({"delay_ms": -1}, "retry.delay_ms"),
        ({"factor": 0.9}, "retry.factor"),
        ({"factor": 101}, "retry.factor"),
        ({"max_ms": -1}, "retry.max_ms"),
        ({"jitter": 1.1}, "retry.jitter"),
        ({"dealy_ms": 5}, "retry.dealy_ms"),
    ],
)
async def test_a_retry_policy_that_makes_no_sense_is_refused_by_name(
    http: httpx.AsyncClient, retry: dict[str, float], field: str
) -> None:
    topic = await new_topic(http)
    refused = await http.put(f"/topics/{topic}", json={"retry": retry})
    assert (refused.status_code, refused.json()["field"]) == (422, field)
    assert (await http.put(f"/topics/{topic}", json={"retry": 5})).status_code == 400
    assert (await settings(http, topic))["retry"] == DEFAULTS


async def test_what_is_released_without_an_instant_comes_later_with_every_attempt(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http, retry={"delay_ms": 1000, "factor": 2, "max_ms": 3000, "jitter": 0})
    await create(http, topic, "a")
    for pause in (1000, 2000, 3000, 3000):
        ((least, most),) = await fail(http, topic, "a")
        assert least <= pause <= most
        assert (await message(http, topic, "a"))["status"] == "waiting"


async def test_a_short_outage_spreads_retries_instead_of_using_up_all_attempts(http: httpx.AsyncClient) -> None:
    dead = await new_topic(http)
    topic = await new_topic(http, max_attempts=2, dead_letter_topic=dead, retry={"delay_ms": 40_000, "jitter": 0.5})
    ids = [f"m{n}" for n in range(500)]
    await create(http, topic, *ids)
    pauses = await fail(http, topic, *ids)
    assert all(most >= 20_000 and least <= 60_000 for least, most in pauses)
    assert len(set(pauses)) > 100
    assert await pull(http, topic, limit=500) == []
    assert (await settings(http, dead))["counts"]["available"] == 0


async def test_a_release_for_an_instant_is_for_that_instant(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http, retry={"delay_ms": 3_600_000})
    await create(http, topic, "a")
    ((least, _),) = await fail(http, topic, "a", after_ms=5)
    assert least <= 5
    (lease,) = await pull(http, topic, wait_ms=60_000)
    wanted_ms = lease["at_ms"] - 20_000  # type: ignore[operator]
    mistaken = await operate(
        http, topic, "release", claim(lease, after_ms="soon"), claim(lease, at_ms=1, after_ms=1), claim(lease, after_ms=0)
    )
    assert [one["status"] for one in mistaken] == ["invalid_time"] * 3
    (released,) = await operate(http, topic, "release", claim(lease, at_ms=wanted_ms))
    assert released["at_ms"] == wanted_ms


async def test_a_lease_that_runs_out_is_due_at_once_whatever_the_policy_says(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http, retry={"delay_ms": 3_600_000})
    await create(http, topic, "a")
    await pull(http, topic, lease_ms=50)
    (again,) = await pull(http, topic, wait_ms=60_000)
    assert again["attempts"] == 2
    assert "reason" not in again


async def test_the_next_holder_the_owner_and_the_dead_letter_learn_why(http: httpx.AsyncClient) -> None:
    dead = await new_topic(http)
    topic = await new_topic(http, max_attempts=3, dead_letter_topic=dead, retry=AT_ONCE)
    await create(http, topic, "a")
    await fail(http, topic, "a", consumer_id="one", reason="the mail server is down")
    await fail(http, topic, "a", consumer_id="two", reason="no such user: „Ada“")
    shown = await message(http, topic, "a")
    assert shown["reason"] == "no such user: „Ada“"
    assert [(one["attempt"], one["consumer_id"], one["reason"]) for one in shown["history"]] == [
        (1, "one", "the mail server is down"),
        (2, "two", "no such user: „Ada“"),
    ]
    (held,) = await pull(http, topic, "three", wait_ms=60_000)
    assert (held["reason"], held["history"]) == (shown["reason"], shown["history"])
    (released,) = await operate(http, topic, "release", claim(held, reason="gave up"), consumer_id="three")
    assert released["status"] == "ok"
    letter = await message(http, dead, "a")
    assert (letter["attempts"], "reason" in letter) == (0, False)
    found = letter["dead_letter"]
    assert (found["topic"], found["attempts"], found["last_consumer_id"]) == (topic, 3, "three")
    assert found["reason"] == "gave up"
    assert [one["attempt"] for one in found["history"]] == [1, 2, 3]
    assert found["history"][2]["at_ms"] == found["died_at_ms"]
    assert (await http.post(f"/topics/{dead}/redrive")).json()["moved"] == 1
    assert not {"reason", "history", "dead_letter"} & (await message(http, topic, "a")).keys()


async def test_whoever_gives_up_finds_the_dead_letter_whichever_node_moves_it(nodes: list[TopicsNode]) -> None:
    http = nodes[0].http
    dead = await new_topic(http)
    topic = await new_topic(http, max_attempts=1, dead_letter_topic=dead)
    ids = [f"m{n}" for n in range(40)]
    await create(http, topic, *ids)
    leases = await pull(http, topic, limit=40)

    async def move_all_the_time(node: TopicsNode) -> None:
        while True:
            await node.topics.dead_letters.run_once()

    moving = [asyncio.create_task(move_all_the_time(node)) for node in nodes]
    try:
        for lease in leases:
            await operate(http, topic, "release", claim(lease))
            assert (await message(http, dead, str(lease["id"])))["status"] == "available"
    finally:
        for task in moving:
            task.cancel()
        await asyncio.gather(*moving, return_exceptions=True)


async def test_the_dead_that_stay_keep_their_reasons_until_their_owner_moves_them(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http, max_attempts=1)
    await create(http, topic, "a")
    await fail(http, topic, "a", reason="why not")
    shown = await message(http, topic, "a")
    assert (shown["status"], shown["reason"]) == ("dead", "why not")
    await http.patch(f"/topics/{topic}/messages/a", json={"after_ms": 0}, headers=GROUP)
    assert "history" not in await message(http, topic, "a")


async def test_only_the_latest_reasons_are_kept(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http, retry=AT_ONCE)
    await create(http, topic, "a")
    for number in range(1, 14):
        await fail(http, topic, "a", reason=f"{number:04}" * 250)
    await fail(http, topic, "a")  # without one
    shown = await message(http, topic, "a")
    assert [one["attempt"] for one in shown["history"]] == list(range(4, 14))
    assert shown["reason"] == "0013" * 250


@pytest.mark.parametrize("reason", ["x" * 1001, "a\x00b", 5, ["why"]])
async def test_a_reason_that_cannot_be_kept_is_refused(http: httpx.AsyncClient, reason: object) -> None:
    topic = await new_topic(http)
    await create(http, topic, "a", "b")
    one, other = await pull(http, topic, limit=2)
    body = {"consumer_id": "c", "leases": [claim(one), claim(other, reason=reason)]}
    refused = await http.post(f"/topics/{topic}/leases/release", json=body)
    assert (refused.status_code, refused.json()["field"]) == (422, "reason")
    assert (await message(http, topic, "a"))["status"] == "processing"
    body = {"consumer_id": "c", "leases": [claim(one, after_ms=1000, reason="why")]}
    assert (await http.post(f"/topics/{topic}/leases/extend", json=body)).status_code == 422


async def test_operators_list_the_messages_of_all_groups_page_by_page(nodes: list[TopicsNode]) -> None:
    http, elsewhere = nodes[0].http, nodes[1].http
    topic = await new_topic(http, max_attempts=1)
    await create(http, topic, "dead")
    await fail(http, topic, "dead")
    await create(http, topic, "leased")
    await pull(http, topic, wait_ms=60_000, lease_ms=600_000)
    at_ms = await now_ms(http) + 60_000
    at_the_same_time = [{"id": f"m{n}", "at_ms": at_ms} for n in range(20)]
    for group in ("owners", "others"):
        drafts = [one | {"id": f"{group}-{one['id']}"} for one in at_the_same_time]
        headers = {"X-Producer-Group": group}
        created = await elsewhere.post(f"/topics/{topic}/messages", json={"messages": drafts}, headers=headers)
        assert created.status_code == 201
    await create(http, topic, "due")
    found: list[dict[str, Any]] = []
    after = ""
    while after is not None:
        answer = await elsewhere.get(f"/topics/{topic}/messages", params={"all": "true", "limit": 7, "after": after})
        assert answer.status_code == 200, answer.text
        found += answer.json()["messages"]
        after = answer.json()["next"]
    ids = [one["id"] for one in found]
    many = {f"{group}-m{n}" for group in ("owners", "others") for n in range(20)}
    assert (ids[:2], ids[-1], set(ids[2:-1])) == (["dead", "due"], "leased", many)
    assert len(ids) == 43
    assert [one["status"] for one in (found[0], found[1], found[-1])] == ["dead", "available", "processing"]
    other = (await http.get(f"/topics/{topic}/messages/others-m3?all=true")).json()
    assert other["producer_group"] == "others"
    for wrong in ("x", "1", "1:", "1:a b", "99999999999999999999:a"):
        refused = await http.get(f"/topics/{topic}/messages", params={"all": "true", "after": wrong})
        assert (refused.status_code, refused.json()["field"]) == (422, "after")
    assert (await http.get(f"/topics/{topic}/messages/never?all=true")).status_code == 404
    assert (await http.get("/topics/nowhere/messages?all=true")).status_code == 404
