"""Frames' messages on their way into PostgreSQL, beside a node that serves the same topic."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from uuid import uuid4

import httpx
import msgspec
import pytest
import pytest_asyncio
from topics_nodes import GROUP, TopicsNode, new_database, open_node

from conftest import Services
from meantime import Client
from meantime.clock import SystemClock
from meantime.errors import Conflict
from meantime.pipelines.buffer.model import BufferedRecord
from meantime.pipelines.buffer.outbound import Outbound
from meantime.pipelines.buffer.refused import RefusedFile
from meantime.pipelines.spark.meters import REFUSED
from meantime.pipelines.spark.options import topic_options
from meantime.pipelines.topics.leases import take
from meantime.pipelines.topics.model import Reject, Tally
from meantime.pipelines.topics.postgres import open_postgres_sink
from meantime.pipelines.topics.sink import open_sink, write_all
from meantime.topics.model import NewMessage
from meantime.topics.rules import bucket_of

LATER_MS = 3_600_000


@pytest_asyncio.fixture(scope="module")
async def uri(services: Services) -> AsyncIterator[str]:
    async with new_database(services.postgres) as uri:
        yield uri


@pytest_asyncio.fixture(scope="module")
async def node(uri: str) -> AsyncIterator[TopicsNode]:
    async with open_node(uri) as node:
        yield node


@pytest.fixture
def http(node: TopicsNode) -> httpx.AsyncClient:
    return node.http


@pytest_asyncio.fixture
async def topic(http: httpx.AsyncClient) -> str:
    name = f"t-{uuid4().hex[:8]}"
    assert (await http.put(f"/topics/{name}", json={"dedupe_ms": 60_000})).status_code == 201
    return name


@pytest.fixture
def now_ms() -> int:
    return SystemClock().now_ms()


def messages(now_ms: int, first: int, end: int, at_ms: int | None = None) -> list[NewMessage]:
    return [
        NewMessage(f"m-{n}", at_ms or now_ms + LATER_MS, bucket_of(f"m-{n}", 64), "owners", True, b'{"n":%d}' % n)
        for n in range(first, end)
    ]


async def deliver(uri: str, topic: str, now_ms: int, rows: list[NewMessage]) -> Tally:
    def run() -> Tally:
        with open_postgres_sink(uri, topic, now_ms) as sink:
            sink.chunk = 10
            return write_all(sink, rows)

    return await asyncio.to_thread(run)


async def shown(http: httpx.AsyncClient, topic: str, id: str) -> dict[str, object]:
    found: dict[str, object] = (await http.get(f"/topics/{topic}/messages/{id}", headers=GROUP)).json()
    return found


async def test_a_copied_message_is_like_one_that_a_producer_made(
    http: httpx.AsyncClient, uri: str, topic: str, now_ms: int
) -> None:
    ours = NewMessage("ours", now_ms + LATER_MS, bucket_of("ours", 64), "owners", True, b'{"n":1}')
    raw = NewMessage("raw", now_ms + LATER_MS, bucket_of("raw", 64), "owners", False, b"\x00\xff")
    assert await deliver(uri, topic, now_ms, [ours, raw]) == Tally(created=2)
    draft = {"id": "theirs", "at_ms": now_ms + LATER_MS, "body": {"n": 1}}
    await http.post(f"/topics/{topic}/messages", json={"messages": [draft]}, headers=GROUP)
    own = ("id", "bucket_id")
    mine, other = await shown(http, topic, "ours"), await shown(http, topic, "theirs")
    assert {key: mine[key] for key in mine if key not in own} == {key: other[key] for key in other if key not in own}
    assert (await shown(http, topic, "raw"))["body_b64"] == "AP8="


async def test_what_exists_is_left_alone_and_what_is_missing_is_added(
    http: httpx.AsyncClient, uri: str, topic: str, now_ms: int
) -> None:
    assert await deliver(uri, topic, now_ms, messages(now_ms, 5, 8)) == Tally(created=3)
    again = messages(now_ms, 0, 45, at_ms=now_ms + 2 * LATER_MS)
    assert await deliver(uri, topic, now_ms, again) == Tally(created=42, exists=3)
    assert await deliver(uri, topic, now_ms, again) == Tally(exists=45)
    found = {number: (await shown(http, topic, f"m-{number}"))["at_ms"] for number in (4, 5, 8, 44)}
    assert found == {4: now_ms + 2 * LATER_MS, 5: now_ms + LATER_MS, 8: now_ms + 2 * LATER_MS, 44: now_ms + 2 * LATER_MS}


async def test_an_id_that_was_deleted_is_taken_until_its_time_is_over(
    http: httpx.AsyncClient, uri: str, topic: str, now_ms: int
) -> None:
    await deliver(uri, topic, now_ms, messages(now_ms, 0, 1))
    await http.delete(f"/topics/{topic}/messages/m-0", headers=GROUP)
    assert await deliver(uri, topic, now_ms, messages(now_ms, 0, 2)) == Tally(created=1, exists=1)
    later_ms = now_ms + 120_000
    assert await deliver(uri, topic, later_ms, messages(now_ms, 0, 2)) == Tally(created=1, exists=1)
    assert (await shown(http, topic, "m-0"))["version"] == 1


@pytest.mark.parametrize("existing", [False, True])
async def test_a_topic_that_was_changed_meanwhile_gets_nothing(
    node: TopicsNode, uri: str, topic: str, now_ms: int, existing: bool
) -> None:
    rows = messages(now_ms, 0, 5)
    if existing:
        await deliver(uri, topic, now_ms, rows[:1])

    def change_and_deliver() -> None:
        with open_postgres_sink(uri, topic, now_ms) as sink:
            assert httpx.put(f"{node.url}/topics/{topic}", json={"max_body_bytes": 1}).status_code == 200
            sink.write(rows)

    with pytest.raises(Conflict, match="changed meanwhile"):
        await asyncio.to_thread(change_and_deliver)
    left = (await node.http.get(f"/topics/{topic}/messages", headers=GROUP)).json()["messages"]
    assert [message["id"] for message in left] == (["m-0"] if existing else [])


class Shelf:
    """A target that has taken some ids in an earlier life, and remembers what it is handed in this one."""

    def __init__(self, *before: str) -> None:
        self._before = set(before)
        self.values: list[bytes | None] = []

    def published(self) -> set[str]:
        return self._before

    def publish(self, ids: Sequence[str], records: Sequence[BufferedRecord]) -> None:
        assert len(ids) >= len(records)
        self.values += [record.value for record in records]


def records(now_ms: int) -> list[NewMessage]:
    return [
        msgspec.structs.replace(one, body=msgspec.json.encode(BufferedRecord(value=one.id.encode())))
        for one in messages(now_ms, 0, 6, now_ms)
    ]


async def test_what_went_out_before_a_crash_does_not_go_out_again(
    node: TopicsNode, http: httpx.AsyncClient, uri: str, topic: str, now_ms: int, tmp_path: Path
) -> None:
    await deliver(uri, topic, now_ms, records(now_ms))
    shelf = Shelf("m-0", "m-1", "m-2")

    def crash_and_resume() -> None:
        with Client(node.url, producer_group="owners") as client:
            assert len(take(client, topic, "out", limit=5, lease_for=60)) == 5
            refused = RefusedFile(tmp_path / "refused.ndjson", topic)
            Outbound(client, topic, "out", shelf, refused).run(lambda: False, once=True)

    await asyncio.to_thread(crash_and_resume)
    assert sorted(shelf.values) == [b"m-3", b"m-4", b"m-5"]
    left = (await http.get(f"/topics/{topic}/messages", headers=GROUP)).json()["messages"]
    assert left == []


async def test_a_message_that_is_no_record_of_the_buffer_is_kept_aside_and_holds_nobody_up(
    node: TopicsNode, http: httpx.AsyncClient, uri: str, topic: str, now_ms: int, tmp_path: Path
) -> None:
    await deliver(uri, topic, now_ms, records(now_ms))
    strange = [{"body": {"hello": "world"}}, {"body": "text"}, {"body": {"value": "?"}}, {"body_b64": "AAE="}, {}]
    sent = {"messages": [{"id": f"strange-{number}", "after_ms": 0, **one} for number, one in enumerate(strange)]}
    answer = await http.post(f"/topics/{topic}/messages", json=sent, headers={"X-Producer-Group": "somebody"})
    assert answer.status_code == 201, answer.text
    shelf, file, counted = Shelf(), tmp_path / "out" / "refused.ndjson", REFUSED.labels(topic)

    def run() -> None:
        with Client(node.url, producer_group="owners") as client:
            Outbound(client, topic, "out", shelf, RefusedFile(file, topic)).run(lambda: False, once=True)

    await asyncio.to_thread(run)
    assert sorted(shelf.values) == [f"m-{number}".encode() for number in range(6)]
    kept = [msgspec.json.decode(line)["error"] for line in file.read_bytes().splitlines()]
    assert sorted(kept) == [
        f"message 'strange-{number}' of 'somebody' is no record of this buffer" for number in range(len(strange))
    ]
    assert counted._value.get() == len(strange)
    assert (await http.get(f"/topics/{topic}/count")).json()["count"] == 0


async def test_what_a_node_refuses_after_the_checks_of_a_task_is_kept_with_the_reason(
    node: TopicsNode, http: httpx.AsyncClient, topic: str, now_ms: int
) -> None:
    options = topic_options({"topic": topic, "url": str(http.base_url), "producer_group": "owners"}, {})
    large = NewMessage("large", now_ms + LATER_MS, bucket_of("large", 64), "owners", True, b'"%s"' % (b"x" * 2_000))
    assert (await http.put(f"/topics/{topic}", json={"max_body_bytes": 1_000})).status_code == 200

    def run() -> tuple[Tally, list[Reject]]:
        with open_sink(options, now_ms) as sink:
            return write_all(sink, [*messages(now_ms, 0, 1), large]), sink.refused

    tally, refused = await asyncio.to_thread(run)
    assert tally == Tally(created=1, rejected=1)
    assert [(reject.place, reject.row["id"], reject.row["body"]) for reject in refused] == [
        ("message large", "large", "x" * 2_000)
    ]
    assert "1,000" in refused[0].error or "1000" in refused[0].error
