"""What operators see and change by what messages have in common, over HTTP, on a real PostgreSQL with a clock that the test
moves."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from topics_calls import claim, new_topic, operate, pull
from topics_nodes import GROUP, TopicsNode, new_database, open_node

from conftest import Services
from meantime.clock import ManualClock
from meantime.topics import operating

NOW_MS = 1_800_000_000_000
OTHERS = {"X-Producer-Group": "others"}


@pytest_asyncio.fixture(scope="module")
async def node(services: Services) -> AsyncIterator[tuple[TopicsNode, ManualClock]]:
    clock = ManualClock(NOW_MS)
    async with new_database(services.postgres) as uri, open_node(uri, clock=clock) as node:
        yield node, clock


@pytest.fixture
def http(node: tuple[TopicsNode, ManualClock]) -> httpx.AsyncClient:
    return node[0].http


@pytest.fixture
def clock(node: tuple[TopicsNode, ManualClock]) -> ManualClock:
    return node[1]


async def create(http: httpx.AsyncClient, topic: str, *ids: str, after_ms: int = 60_000, **headers: str) -> None:
    messages = [{"id": one, "after_ms": after_ms, "body": one} for one in ids]
    answer = await http.post(f"/topics/{topic}/messages", json={"messages": messages}, headers=headers or GROUP)
    assert answer.status_code == 201, answer.text


async def listed(http: httpx.AsyncClient, topic: str, headers: dict[str, str] | None = None, **query: object) -> list[str]:
    answer = await http.get(f"/topics/{topic}/messages", params=query, headers=headers)
    assert answer.status_code == 200, answer.text
    return [message["id"] for message in answer.json()["messages"]]


async def change(
    http: httpx.AsyncClient, topic: str, what: str, headers: dict[str, str] | None = None, **form
) -> httpx.Response:
    return await http.post(f"/topics/{topic}/messages/{what}", json=form, headers=headers)


async def mixed(http: httpx.AsyncClient) -> str:
    """One message in each status, called after it; the one that is processing is due again in a minute."""
    topic = await new_topic(http, max_attempts=1)
    await create(http, topic, "dead", after_ms=0)
    (lease,) = await pull(http, topic)
    await operate(http, topic, "release", claim(lease))
    await create(http, topic, "processing", after_ms=0)
    await pull(http, topic, lease_ms=60_000)
    await create(http, topic, "available", after_ms=0)
    await create(http, topic, "waiting")
    return topic


async def test_messages_are_found_by_status(http: httpx.AsyncClient) -> None:
    topic = await mixed(http)
    for status in ("waiting", "processing", "available", "dead"):
        assert await listed(http, topic, status=status) == [status]
        count = (await http.get(f"/topics/{topic}/count", params={"status": status})).json()["count"]
        assert count == 1, "the list and the count have one source"
    assert sorted(await listed(http, topic)) == ["available", "dead", "processing", "waiting"]
    assert (await http.get(f"/topics/{topic}/messages", params={"status": "sleeping"})).status_code == 422


async def test_messages_are_found_by_instant_and_by_the_beginning_of_their_ids(http: httpx.AsyncClient, clock) -> None:
    topic = await new_topic(http)
    for n in range(10):
        await create(http, topic, f"a{n}", after_ms=1000 * (n + 1))
    await create(http, topic, "b", after_ms=3000)
    now_ms = clock.now_ms()
    assert await listed(http, topic, from_ms=now_ms + 2000, to_ms=now_ms + 4000) in (["a1", "a2", "b"], ["a1", "b", "a2"])
    assert await listed(http, topic, id_prefix="a", from_ms=now_ms + 9000) == ["a8", "a9"]
    assert await listed(http, topic, id_prefix="b") == ["b"]
    assert await listed(http, topic, id_prefix="c") == []
    assert (await http.get(f"/topics/{topic}/messages", params={"id_prefix": "%"})).status_code == 422


@pytest.mark.parametrize("query", [{}, {"status": "waiting"}, {"id_prefix": "m"}])
async def test_pages_continue_where_the_last_one_ended(http: httpx.AsyncClient, query: dict[str, str]) -> None:
    topic = await new_topic(http, bucket_count=4)
    ids = [f"m{n:02}" for n in range(25)]
    await create(http, topic, *ids)  # all at one instant
    found, after = [], ""
    while True:
        params = query | {"limit": "7", "after": after}
        page = (await http.get(f"/topics/{topic}/messages", params=params)).json()
        found += [message["id"] for message in page["messages"]]
        after = page["next"]
        if after is None:
            break
    assert len(found) == len(set(found))
    assert sorted(found) == ids
    broken = await http.get(f"/topics/{topic}/messages", params={"after": "nonsense"})
    assert broken.status_code == 422


async def test_bodies_are_left_out_where_they_are_not_wanted(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    await create(http, topic, "m")
    for params in ({}, {"id_prefix": "m"}):
        (shown,) = (await http.get(f"/topics/{topic}/messages", params=params)).json()["messages"]
        (hidden,) = (await http.get(f"/topics/{topic}/messages", params=params | {"bodies": "false"})).json()["messages"]
        assert shown.pop("body") == "m"
        assert shown == hidden


async def test_all_that_a_filter_holds_is_moved_if_the_number_is_right(http: httpx.AsyncClient, clock) -> None:
    topic = await new_topic(http)
    await create(http, topic, *(f"m{n}" for n in range(5)))
    at_ms = clock.now_ms() + 120_000
    wrong = await change(http, topic, "move", filter={"id_prefix": "m"}, at_ms=at_ms, expect=4)
    assert (wrong.status_code, wrong.json()["count"]) == (409, 5)
    assert await listed(http, topic, from_ms=at_ms) == []
    moved = await change(http, topic, "move", filter={"id_prefix": "m"}, at_ms=at_ms, expect=5)
    assert moved.json() == {"count": 5, "skipped": 0}
    assert len(await listed(http, topic, from_ms=at_ms)) == 5
    (one,) = (await http.get(f"/topics/{topic}/messages", params={"id_prefix": "m3"})).json()["messages"]
    assert (one["version"], one["at_ms"], one["created_for_ms"]) == (2, at_ms, at_ms)


async def test_a_message_that_is_moved_to_now_is_leased(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    await create(http, topic, "m")
    waiting = asyncio.create_task(pull(http, topic, wait_ms=30_000))
    await asyncio.sleep(0.1)
    assert (await change(http, topic, "move", filter={"ids": ["m"]}, after_ms=0, expect=1)).json()["count"] == 1
    assert [lease["id"] for lease in await waiting] == ["m"]


async def test_leased_messages_are_not_touched(http: httpx.AsyncClient) -> None:
    topic = await mixed(http)
    everything = await change(http, topic, "delete", filter={}, expect=4)
    assert (everything.status_code, everything.json()["count"]) == (409, 3)
    by_id = await change(http, topic, "delete", filter={"ids": ["processing", "unknown"]})
    assert by_id.json() == {"count": 0, "skipped": 0}
    assert (await change(http, topic, "move", filter={"status": "processing"}, after_ms=0)).json()["count"] == 0
    assert (await change(http, topic, "delete", filter={}, expect=3)).json() == {"count": 3, "skipped": 0}
    assert await listed(http, topic) == ["processing"]


async def test_a_dead_message_that_is_moved_starts_again(http: httpx.AsyncClient) -> None:
    topic = await mixed(http)
    assert (await change(http, topic, "move", filter={"status": "dead"}, after_ms=0, expect=1)).json()["count"] == 1
    assert await listed(http, topic, status="dead") == []
    assert sorted(await listed(http, topic, status="available")) == ["available", "dead"]


async def test_an_owner_changes_its_own_only(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    await create(http, topic, "mine")
    await create(http, topic, "theirs", **OTHERS)
    assert await listed(http, topic, headers=GROUP, status="waiting") == ["mine"]
    assert await listed(http, topic, headers=OTHERS, id_prefix="t") == ["theirs"]
    assert await listed(http, topic, headers=OTHERS, id_prefix="m") == []
    refused = await change(http, topic, "delete", headers=GROUP, filter={"status": "waiting"}, expect=2)
    assert (refused.status_code, refused.json()["count"]) == (409, 1)
    assert (await change(http, topic, "delete", headers=GROUP, filter={"status": "waiting"}, expect=1)).json()["count"] == 1
    assert await listed(http, topic) == ["theirs"]


async def test_deleting_by_ids_still_has_a_result_for_each(http: httpx.AsyncClient) -> None:
    topic = await new_topic(http)
    await create(http, topic, "m")
    answer = await change(http, topic, "delete", headers=GROUP, ids=["m", "unknown"])
    assert answer.json() == {"results": [{"id": "m", "status": "ok"}, {"id": "unknown", "status": "not_found"}]}
    assert (await change(http, topic, "delete", ids=["m"])).status_code == 401


@pytest.mark.parametrize(
    ("form", "status"),
    [
        ({"after_ms": 0}, 422),
        ({"filter": {}, "after_ms": 0}, 422),
        ({"filter": {"statos": "dead"}, "after_ms": 0}, 422),
        ({"filter": {"status": "asleep"}, "after_ms": 0}, 422),
        ({"filter": {"ids": ["a"], "id_prefix": "a"}, "after_ms": 0}, 422),
        ({"filter": {"ids": []}, "after_ms": 0}, 422),
        ({"filter": {"status": "dead"}}, 422),
        ({"filter": {"status": "dead"}, "after_ms": 0, "at_ms": 0}, 422),
        ({"filter": {"status": "dead"}, "after_ms": 10**15}, 422),
        ({"filter": {"status": "dead"}, "after_ms": 0, "expect": -1}, 422),
        ({"filter": "all", "after_ms": 0}, 400),
    ],
)
async def test_a_filter_that_makes_no_sense_changes_nothing(http: httpx.AsyncClient, form: dict, status: int) -> None:
    topic = await new_topic(http)
    await create(http, topic, "m")
    assert (await change(http, topic, "move", **form)).status_code == status
    (message,) = (await http.get(f"/topics/{topic}/messages")).json()["messages"]
    assert message["version"] == 1


async def test_more_than_can_be_changed_at_once_is_refused(http: httpx.AsyncClient, monkeypatch) -> None:
    monkeypatch.setattr(operating, "MOST_CHANGED", 3)
    monkeypatch.setattr(operating, "BATCH", 2)
    topic = await new_topic(http)
    await create(http, topic, *"abcd")
    refused = await change(http, topic, "delete", filter={"status": "waiting"}, expect=4)
    assert (refused.status_code, refused.json()["maximum"]) == (422, 3)
    assert (await change(http, topic, "delete", filter={"ids": ["a", "b", "c"]}, expect=3)).json()["count"] == 3
    assert await listed(http, topic) == ["d"]


async def test_what_changes_between_the_look_and_the_change_is_left_alone(
    http: httpx.AsyncClient, node: tuple[TopicsNode, ManualClock], monkeypatch
) -> None:
    """The look is one statement and the change another; a message that was moved in between keeps its place."""
    topic = await new_topic(http)
    await create(http, topic, "a", "b")
    topics = node[0].topics
    look = topics.operating._filtered.keys

    async def look_and_wait(*args):
        found = await look(*args)
        moved = await http.patch(f"/topics/{topic}/messages/a", json={"after_ms": 5_000}, headers=GROUP)
        assert moved.status_code == 200
        return found

    monkeypatch.setattr(topics.operating._filtered, "keys", look_and_wait)
    done = await change(http, topic, "delete", filter={"status": "waiting"}, expect=2)
    assert done.json() == {"count": 1, "skipped": 1}
    assert await listed(http, topic) == ["a"]


async def test_what_consumers_finish_is_the_capacity_of_a_topic(http: httpx.AsyncClient, node) -> None:
    topic = await new_topic(http)
    range_of = {"from_ms": NOW_MS, "to_ms": NOW_MS + 1000, "step_ms": 1000}
    assert (await http.get(f"/topics/{topic}/load", params=range_of)).json()["capacity_per_s"] is None
    await create(http, topic, *(f"m{n}" for n in range(20)), after_ms=0)
    leases = await pull(http, topic, limit=20)
    await operate(http, topic, "delete", *(claim(lease) for lease in leases))
    await node[0].topics.overload.run_once()
    assert (await http.get(f"/topics/{topic}/load", params=range_of)).json()["capacity_per_s"] == 2.0


async def test_unknown_topics_are_unknown_to_operators_too(http: httpx.AsyncClient) -> None:
    unknown = f"t-{uuid4().hex[:8]}"
    assert (await http.get(f"/topics/{unknown}/messages")).status_code == 404
    assert (await change(http, unknown, "move", filter={"status": "dead"}, after_ms=0)).status_code == 404
