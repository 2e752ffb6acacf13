"""What producers see over HTTP, on a real PostgreSQL."""

import asyncio
from collections.abc import AsyncIterator
from uuid import uuid4

import httpx
import pytest
import pytest_asyncio
from topics_nodes import GROUP, TopicsNode, new_database, open_node

from conftest import Services
from meantime.topics.topics import TopicsOptions

OTHERS = {"X-Producer-Group": "others"}


@pytest_asyncio.fixture(scope="module")
async def node(services: Services) -> AsyncIterator[TopicsNode]:
    async with new_database(services.postgres) as uri, open_node(uri, options=TopicsOptions(purge_every=0.1)) as node:
        yield node


@pytest.fixture
def http(node: TopicsNode) -> httpx.AsyncClient:
    return node.http


@pytest_asyncio.fixture
async def topic(http: httpx.AsyncClient) -> str:
    name = f"t-{uuid4().hex[:8]}"
    assert (await http.put(f"/topics/{name}", json={})).status_code == 201
    return name


async def create(http: httpx.AsyncClient, topic: str, *messages: dict[str, object], **headers: str) -> httpx.Response:
    return await http.post(f"/topics/{topic}/messages", json={"messages": messages}, headers=headers or GROUP)


async def test_a_topic_is_made_changed_and_listed(http: httpx.AsyncClient) -> None:
    name = f"t-{uuid4().hex[:8]}"
    assert (await http.put(f"/topics/{name}")).status_code == 201
    assert (await http.put(f"/topics/{name}", json={})).status_code == 200
    unknown = await http.put(f"/topics/{name}", json={"max_attempts": 9, "max_atempts": 3})
    assert unknown.status_code == 422
    assert "max_attempts" in unknown.json()["detail"]
    changed = await http.put(f"/topics/{name}", json={"max_attempts": 3, "bucket_count": None})
    assert changed.status_code == 200
    assert (await http.get(f"/topics/{name}")).json() == {
        "name": name,
        "bucket_count": 64,
        "max_future_ms": 31_536_000_000,
        "max_lease_ms": 43_200_000,
        "max_body_bytes": 262_144,
        "max_attempts": 3,
        "dead_letter_topic": None,
        "dedupe_ms": 0,
        "retry": {"delay_ms": 1000, "factor": 2, "max_ms": 3_600_000, "jitter": 0.1},
        "counts": {"waiting": 0, "processing": 0, "available": 0, "dead": 0},
    }
    assert name in [one["name"] for one in (await http.get("/topics")).json()["topics"]]


async def test_settings_that_cannot_be_are_refused(http: httpx.AsyncClient, topic: str) -> None:
    async def put(name: str = topic, **wish: object) -> int:
        return (await http.put(f"/topics/{name}", json=wish)).status_code

    assert await put(bucket_count=32) == 409
    assert await put(bucket_count=64) == 200
    assert await put(max_lease_ms=0) == 422
    assert await put(dead_letter_topic="nowhere") == 422
    assert await put(dead_letter_topic=topic) == 422
    assert await put("bad name") == 422
    assert await put("x" * 129) == 422
    assert (await http.put(f"/topics/{topic}", content=b"{")).status_code == 400
    assert (await http.put(f"/topics/{topic}", content=b"[]")).status_code == 400
    assert (await http.get("/topics/nowhere")).status_code == 404


async def test_a_deleted_topic_is_gone_at_once_and_its_name_is_free_later(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, *[{"id": f"m{n}", "after_ms": 60_000} for n in range(300)])
    assert (await http.delete(f"/topics/{topic}")).status_code == 202
    assert (await http.delete(f"/topics/{topic}")).status_code == 404
    assert (await create(http, topic, {"after_ms": 0})).status_code == 404
    assert (await http.post(f"/topics/{topic}/leases", json={"consumer_id": "c"})).status_code == 404
    assert (await http.get(f"/topics/{topic}/load?from_ms=0&to_ms=1&step_ms=1")).status_code == 404
    assert (await http.put(f"/topics/{topic}", json={})).status_code == 409
    for _ in range(100):
        if (answer := await http.put(f"/topics/{topic}", json={"bucket_count": 8})).status_code != 409:
            break
        await asyncio.sleep(0.1)
    assert answer.status_code == 201
    assert (await http.get(f"/topics/{topic}/count")).json() == {"count": 0}


async def test_results_come_in_the_order_of_the_request(http: httpx.AsyncClient, topic: str) -> None:
    ids = [f"m{n}" for n in (5, 3, 9, 1, 7)]
    answer = await create(http, topic, *[{"id": one, "after_ms": 0, "body": one} for one in ids])
    assert answer.status_code == 201
    assert [result["id"] for result in answer.json()["results"]] == ids
    assert {result["status"] for result in answer.json()["results"]} == {"created"}
    assert all(result["version"] == 1 and 0 <= result["bucket_id"] < 64 for result in answer.json()["results"])


async def test_an_id_is_created_once_and_the_owner_alone_hears_where_it_is(http: httpx.AsyncClient, topic: str) -> None:
    first = (await create(http, topic, {"id": "a", "after_ms": 1000})).json()["results"][0]
    again = await create(http, topic, {"id": "a", "after_ms": 9000}, {"id": "b", "after_ms": 0})
    assert again.status_code == 207
    assert again.json()["results"][0] == first | {"status": "exists"}
    assert again.json()["results"][1]["status"] == "created"
    foreign = (await create(http, topic, {"id": "a", "after_ms": 0}, **OTHERS)).json()["results"][0]
    assert foreign["status"] == "exists"
    assert "version" not in foreign
    assert "at_ms" not in foreign


async def test_concurrent_creators_of_one_id_have_one_winner(http: httpx.AsyncClient, topic: str) -> None:
    ids = [f"m{n}" for n in range(20)]
    answers = await asyncio.gather(
        *(create(http, topic, *[{"id": one, "after_ms": 0} for one in (ids if n % 2 else ids[::-1])]) for n in range(16))
    )
    statuses = [(result["id"], result["status"]) for answer in answers for result in answer.json()["results"]]
    assert all(statuses.count((one, "created")) == 1 for one in ids)
    assert len(statuses) == 16 * 20


async def test_a_bad_entry_is_judged_alone(http: httpx.AsyncClient, topic: str) -> None:
    answer = await create(
        http,
        topic,
        {"id": "good", "at_ms": 0, "body": [1]},
        {"id": "both", "at_ms": 1, "after_ms": 1},
        {"id": "far", "after_ms": 31_536_000_001},
        {"id": "bad id", "after_ms": 1},
        {"id": 5, "after_ms": 1},
        {"id": "same", "after_ms": 1},
        {"id": "same", "after_ms": 1},
    )
    assert answer.status_code == 207
    statuses = [result["status"] for result in answer.json()["results"]]
    assert statuses == ["created", "invalid", "invalid", "invalid", "invalid", "created", "exists"]
    assert all("error" in result for result in answer.json()["results"] if result["status"] == "invalid")


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"", 422), (b"{}", 422), (b'{"messages":[]}', 422), (b"{", 400), (b"[]", 400), (b'{"messages":{}}', 400)],
)
async def test_a_request_that_is_no_batch_is_refused(
    http: httpx.AsyncClient, topic: str, content: bytes, status: int
) -> None:
    answer = await http.post(f"/topics/{topic}/messages", content=content, headers=GROUP)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"


async def test_batches_have_a_largest_size(http: httpx.AsyncClient, topic: str) -> None:
    entries = [{"after_ms": 60_000}] * 10_000
    assert (await create(http, topic, *entries)).status_code == 201
    assert (await create(http, topic, *entries, {"after_ms": 0})).status_code == 422
    assert (await http.get(f"/topics/{topic}/count?status=waiting")).json() == {"count": 10_000}


async def test_who_asks_must_be_said(http: httpx.AsyncClient, topic: str) -> None:
    path = f"/topics/{topic}/messages"
    assert (await http.post(path, json={"messages": [{"after_ms": 0}]})).status_code == 401
    assert (await http.get(f"{path}/a")).status_code == 401
    assert (await http.patch(f"{path}/a", json={"after_ms": 0})).status_code == 401
    assert (await http.delete(f"{path}/a")).status_code == 401
    assert (await http.post(f"/topics/{topic}/leases", json={})).status_code == 401
    assert (await http.get(f"/topics/{topic}/leases")).status_code == 401
    assert (await http.post(f"/topics/{topic}/leases/delete", json={"leases": [{"id": "a"}]})).status_code == 401


async def test_bodies_come_back_as_they_were_given(http: httpx.AsyncClient, topic: str) -> None:
    content = b'{"messages":[{"id":"j","after_ms":0,"body": {"b" : 1.50, "a":"\xc3\xa9\\u00e9"}},'
    content += b'{"id":"b","after_ms":0,"body_b64":"AP8="},{"id":"n","after_ms":0}]}'
    assert (await http.post(f"/topics/{topic}/messages", content=content, headers=GROUP)).status_code == 201
    raw = (await http.get(f"/topics/{topic}/messages/j", headers=GROUP)).content
    assert b'"body":{"b" : 1.50, "a":"\xc3\xa9\\u00e9"}' in raw
    found = (await http.get(f"/topics/{topic}/messages/b", headers=GROUP)).json()
    assert found["body_b64"] == "AP8="
    assert "body" not in found
    assert (await http.get(f"/topics/{topic}/messages/n", headers=GROUP)).json()["body"] is None


async def test_a_new_message_has_all_its_fields(http: httpx.AsyncClient, topic: str) -> None:
    result = (await create(http, topic, {"id": "a", "after_ms": 5000, "body": 1})).json()["results"][0]
    assert (await http.get(f"/topics/{topic}/messages/a", headers=GROUP)).json() == {
        "id": "a",
        "at_ms": result["at_ms"],
        "created_for_ms": result["at_ms"],
        "status": "waiting",
        "producer_group": "owners",
        "lock_consumer_id": None,
        "version": 1,
        "bucket_id": result["bucket_id"],
        "attempts": 0,
        "body": 1,
    }


async def test_the_owner_moves_a_message_by_version(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, {"id": "a", "after_ms": 5000})
    path = f"/topics/{topic}/messages/a"
    moved = await http.patch(path, json={"after_ms": 9000, "version": 1}, headers=GROUP)
    assert moved.status_code == 200
    assert moved.json()["version"] == 2
    assert (await http.get(path, headers=GROUP)).json()["created_for_ms"] == moved.json()["at_ms"]
    stale = await http.patch(path, json={"after_ms": 1, "version": 1}, headers=GROUP)
    assert (stale.status_code, stale.json()["code"]) == (409, "stale_version")
    assert (await http.patch(path, json={"after_ms": 1, "version": 9}, headers=OTHERS)).status_code == 403
    assert (await http.patch(f"{path}x", json={"after_ms": 1}, headers=OTHERS)).status_code == 404
    assert (await http.patch(path, json={}, headers=GROUP)).status_code == 422
    assert (await http.patch(path, json={"at_ms": 1, "after_ms": 1}, headers=GROUP)).status_code == 422
    assert (await http.patch(path, json={"after_ms": 31_536_000_001}, headers=GROUP)).status_code == 422
    assert (await http.patch(path, json={"at_ms": "x"}, headers=GROUP)).status_code == 400


async def test_deleting_again_is_fine_and_never_seen_is_not(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, {"id": "a", "after_ms": 5000}, {"id": "b", "after_ms": 5000})
    path = f"/topics/{topic}/messages"
    assert (await http.delete(f"{path}/a?version=2", headers=GROUP)).status_code == 409
    assert (await http.delete(f"{path}/a?version=1", headers=GROUP)).status_code == 204
    assert (await http.delete(f"{path}/a", headers=GROUP)).status_code == 204
    assert (await http.delete(f"{path}/a", headers=OTHERS)).status_code == 403
    assert (await http.delete(f"{path}/never", headers=GROUP)).status_code == 404
    assert (await http.delete(f"{path}/b", headers=OTHERS)).status_code == 403
    assert (await http.get(f"{path}/a", headers=GROUP)).status_code == 404
    batch = await http.post(f"{path}/delete", json={"ids": ["never", "b", "a", 7, "b"]}, headers=GROUP)
    assert [one["status"] for one in batch.json()["results"]] == ["not_found", "ok", "ok", "not_found", "ok"]
    assert (await create(http, topic, {"id": "a", "after_ms": 0})).status_code == 201


async def test_a_message_may_have_the_name_of_a_route(http: httpx.AsyncClient, topic: str) -> None:
    where = f"/topics/{topic}/messages/delete"
    assert (await create(http, topic, {"id": "delete", "after_ms": 60_000, "body": 1})).status_code == 201
    assert (await http.get(where, headers=GROUP)).json()["id"] == "delete"
    assert (await http.patch(where, headers=GROUP, json={"after_ms": 90_000})).json()["version"] == 2
    assert (await http.delete(where, headers=OTHERS)).status_code == 403
    assert (await http.delete(where, headers=GROUP)).status_code == 204
    assert (await http.get(where, headers=GROUP)).status_code == 404
    again = await http.post(where, headers=GROUP, json={"ids": ["delete", "never"]})
    assert [one["status"] for one in again.json()["results"]] == ["ok", "not_found"]


async def test_a_dry_run_says_how_many_a_filter_holds_and_changes_nothing(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, *({"id": f"{kind}-{n}", "after_ms": 60_000} for kind in "ab" for n in range(3)))
    path = f"/topics/{topic}/messages"
    for action, change in (("delete", {}), ("move", {"after_ms": 0})):
        asked = {"filter": {"id_prefix": "a-"}, "dry_run": True, **change}
        assert (await http.post(f"{path}/{action}", json=asked)).json() == {"count": 3, "skipped": 0}
        assert (await http.post(f"{path}/{action}", json=asked | {"filter": {}})).json()["count"] == 6
    assert (await http.get(f"/topics/{topic}/count", params={"status": "waiting"})).json() == {"count": 6}


async def test_a_deleted_id_stays_taken_for_the_dedupe_window(http: httpx.AsyncClient, topic: str) -> None:
    await http.put(f"/topics/{topic}", json={"dedupe_ms": 4000})
    await create(http, topic, {"id": "owner", "after_ms": 60_000}, {"id": "consumer", "after_ms": 0})
    assert (await http.delete(f"/topics/{topic}/messages/owner", headers=GROUP)).status_code == 204
    (lease,) = (await http.post(f"/topics/{topic}/leases", json={"consumer_id": "c"})).json()["leases"]
    claim = {"consumer_id": "c", "leases": [{"id": lease["id"], "version": lease["version"]}]}
    deleted = await http.post(f"/topics/{topic}/leases/delete", json=claim)
    assert deleted.json()["results"] == [{"id": "consumer", "status": "ok"}]
    assert (await http.post(f"/topics/{topic}/leases/delete", json=claim)).json() == deleted.json()
    for other in ({**claim, "consumer_id": "d"}, {"consumer_id": "c", "leases": [{"id": "consumer", "version": 3}]}):
        for action in ("delete", "extend", "release"):
            path = f"/topics/{topic}/leases/{action}"
            leases = [{**one, "after_ms": 5000} if action != "delete" else one for one in other["leases"]]
            (answer,) = (await http.post(path, json={**other, "leases": leases})).json()["results"]
            assert answer["status"] == "not_found"
    again = await create(http, topic, {"id": "owner", "after_ms": 0}, {"id": "consumer", "after_ms": 0})
    assert [one["status"] for one in again.json()["results"]] == ["exists", "exists"]
    assert (await http.get(f"/topics/{topic}/count")).json() == {"count": 0}
    await asyncio.sleep(4.2)
    again = await create(http, topic, {"id": "owner", "after_ms": 0}, {"id": "consumer", "after_ms": 0})
    assert again.status_code == 201


async def test_the_messages_of_a_group_are_listed_page_by_page(http: httpx.AsyncClient, topic: str) -> None:
    await create(http, topic, *[{"id": f"m{n}", "after_ms": 9000} for n in range(5)])
    await create(http, topic, {"id": "theirs", "after_ms": 9000}, **OTHERS)
    path = f"/topics/{topic}/messages"
    first = (await http.get(f"{path}?producer_group=owners&limit=3", headers=GROUP)).json()
    rest = (await http.get(f"{path}?after={first['next']}&limit=3", headers=GROUP)).json()
    assert [one["id"] for one in first["messages"] + rest["messages"]] == [f"m{n}" for n in range(5)]
    assert rest["next"] is None
    assert (await http.get(f"{path}?producer_group=others", headers=GROUP)).status_code == 403


async def test_the_load_lists_every_slot_by_status(http: httpx.AsyncClient, topic: str) -> None:
    now_ms = int((await http.get("/topics")).headers["X-Meantime-Now"])
    start_ms = now_ms - 10_000
    wished = [now_ms + 20_000, now_ms + 20_999, now_ms + 29_999]
    await create(http, topic, *[{"at_ms": at_ms} for at_ms in wished], {"id": "due", "after_ms": 0})
    await create(http, topic, {"id": "leased", "after_ms": 0})
    pulled = await http.post(f"/topics/{topic}/leases", json={"consumer_id": "c", "limit": 1, "lease_ms": 25_000})
    assert len(pulled.json()["leases"]) == 1
    answer = await http.get(f"/topics/{topic}/load?from_ms={start_ms}&to_ms={start_ms + 40_000}&step_ms=10000")
    slots = answer.json()["slots"]
    assert [slot["from_ms"] for slot in slots] == [start_ms + n * 10_000 for n in range(4)]
    assert sum(slot["available"] for slot in slots) == 1
    assert slots[3] == {"from_ms": start_ms + 30_000, "waiting": 3, "processing": 1, "available": 0}

    async def count(**query: object) -> int:
        return (await http.get(f"/topics/{topic}/count", params=query)).json()["count"]

    assert await count() == 5
    assert await count(status="waiting") == 3
    assert await count(status="processing") == 1
    assert await count(status="available") == 1
    assert await count(from_ms=wished[0], to_ms=wished[2]) == 2 + (await count(status="processing", to_ms=wished[2]))
    assert (await http.get(f"/topics/{topic}/count?status=late")).status_code == 422
    too_many = f"/topics/{topic}/load?from_ms=0&to_ms=10001&step_ms=1"
    assert (await http.get(too_many)).status_code == 422
    assert (await http.get(f"/topics/{topic}/load?from_ms=0&to_ms=10000&step_ms=1")).status_code == 200
    assert (await http.get(f"/topics/{topic}/load?from_ms=0&to_ms=10&step_ms=0")).status_code == 422
    assert (await http.get(f"/topics/{topic}/load?from_ms=x&to_ms=10&step_ms=1")).status_code == 400


async def test_a_degraded_node_refuses_what_needs_its_clock(node: TopicsNode, topic: str) -> None:
    http = node.http
    await create(http, topic, {"id": "a", "after_ms": 0})
    node.health.healthy = False
    try:
        refused = await create(http, topic, {"after_ms": 5})
        assert (refused.status_code, refused.json()["code"]) == (503, "degraded")
        assert (await create(http, topic, {"id": "b", "at_ms": 5})).status_code == 201
        pulled = await http.post(f"/topics/{topic}/leases", json={"consumer_id": "c"})
        assert (pulled.status_code, pulled.json()["code"]) == (503, "degraded")
        assert (await http.get(f"/topics/{topic}/leases?consumer_id=c")).status_code == 503
        moved = await http.patch(f"/topics/{topic}/messages/a", json={"after_ms": 5}, headers=GROUP)
        assert moved.status_code == 503
        assert await node.topics.dead_letters.run_once() == 0
    finally:
        node.health.healthy = True


async def test_a_holder_at_a_degraded_node_may_name_instants_but_not_relative_ones(node: TopicsNode, topic: str) -> None:
    http = node.http
    await create(http, topic, {"id": "a", "after_ms": 0})
    pulled = await http.post(f"/topics/{topic}/leases", json={"consumer_id": "c", "wait_ms": 10_000})
    (lease,) = pulled.json()["leases"]
    claim = {"id": "a", "version": lease["version"]}
    node.health.healthy = False
    try:
        for action in ("extend", "release"):
            relative = {"consumer_id": "c", "leases": [claim | {"after_ms": 5_000}]}
            refused = await http.post(f"/topics/{topic}/leases/{action}", json=relative)
            assert (refused.status_code, refused.json()["code"]) == (503, "degraded")
        by_policy = {"consumer_id": "c", "leases": [claim]}
        assert (await http.post(f"/topics/{topic}/leases/release", json=by_policy)).status_code == 503
        absolute = {"consumer_id": "c", "leases": [claim | {"at_ms": lease["at_ms"] + 5_000}]}
        (extended,) = (await http.post(f"/topics/{topic}/leases/extend", json=absolute)).json()["results"]
        assert (extended["status"], extended["at_ms"]) == ("ok", lease["at_ms"] + 5_000)
        done = {"consumer_id": "c", "leases": [{"id": "a", "version": extended["version"]}]}
        assert (await http.post(f"/topics/{topic}/leases/delete", json=done)).json()["results"][0]["status"] == "ok"
    finally:
        node.health.healthy = True
