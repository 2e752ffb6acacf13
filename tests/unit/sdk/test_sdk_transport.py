"""The two transports against a node that exists only as a function."""

import inspect
from collections.abc import AsyncIterator, Callable, Iterator

import httpx
import pytest

from meantime import AsyncClient, Client, Retries
from meantime.errors import Conflict, NotFound, Unreachable

QUICK = Retries(retry_for=1, reconnect_for=1, first_pause=0.001, longest_pause=0.002)
Script = list[Callable[[httpx.Request], httpx.Response]]


def replies(status: int, json: object = None, **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda _: httpx.Response(status, json=json, headers=named)


def refuses(request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("refused", request=request)


def breaks(request: httpx.Request) -> httpx.Response:
    raise httpx.ReadError("reset", request=request)


class Node:
    """Answers as its script says and remembers what it was asked."""

    def __init__(self, *script: Callable[[httpx.Request], httpx.Response]) -> None:
        self.script = list(script)
        self.asked: list[httpx.Request] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.asked.append(request)
        return self.script.pop(0)(request)

    def client(self, url: str = "http://a") -> Client:
        return Client(url, retries=QUICK, transport=httpx.MockTransport(self))

    def async_client(self, url: str = "http://a") -> AsyncClient:
        return AsyncClient(url, retries=QUICK, transport=httpx.MockTransport(self))


class Body(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A stream that breaks after its chunks, if so wished."""

    def __init__(self, *chunks: bytes, broken: bool) -> None:
        self._chunks = chunks
        self._broken = broken

    def __iter__(self) -> Iterator[bytes]:
        yield from self._chunks
        if self._broken:
            raise httpx.ReadError("cut")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self:
            yield chunk


def streams(*chunks: bytes, broken: bool = False) -> Callable[[httpx.Request], httpx.Response]:
    return lambda _: httpx.Response(200, stream=Body(*chunks, broken=broken))


def batch(offset: str, number: int) -> bytes:
    return b'{"cursor":{"partition":"0","offset":"%s"},"events":[{"n":%d}]}\n' % (offset.encode(), number)


PARTITIONS = replies(200, [{"partition": "0", "oldest_available_offset": "a", "newest_available_offset": "e"}])


def test_a_call_goes_through_a_node_that_comes_back() -> None:
    node = Node(refuses, breaks, replies(503, retry_after="0"), replies(200, {"topics": [{"name": "a"}]}))
    with node.client() as client:
        assert [topic.name for topic in client.topics()] == ["a"]


async def test_an_async_call_goes_through_a_node_that_comes_back() -> None:
    node = Node(refuses, breaks, replies(503, retry_after="0"), replies(200, {"topics": [{"name": "a"}]}))
    async with node.async_client() as client:
        assert [topic.name for topic in await client.topics()] == ["a"]


def test_a_publish_is_not_sent_twice_when_its_answer_is_lost() -> None:
    node = Node(breaks)
    with node.client() as client, pytest.raises(Unreachable, match="not known"):
        client.publish("orders", {"id": 1})
    assert len(node.asked) == 1


def test_another_node_is_asked_when_one_is_gone() -> None:
    node = Node(refuses, replies(200, {"nodes": []}), replies(200, {"nodes": []}))
    with node.client("http://a,http://b") as client:
        client.nodes()
        client.nodes()
    assert [request.url.host for request in node.asked] == ["a", "b", "b"]


def test_errors_have_their_class_and_no_second_try() -> None:
    node = Node(replies(404, {"code": "not_found", "detail": "no such topic"}))
    with node.client() as client, pytest.raises(NotFound, match="no such topic"):
        client.topic("x")


def test_events_go_on_where_a_broken_stream_ended() -> None:
    node = Node(PARTITIONS, streams(batch("f", 1), b'{"cur', broken=True), streams(batch("g", 2)), replies(404))
    with node.client() as client:
        batches = client.events("orders")
        assert [next(batches).events[0]["n"] for _ in range(2)] == [1, 2]
        with pytest.raises(NotFound):
            next(batches)
    assert [request.headers.get("x-nakadi-cursors") for request in node.asked[1:]] == [
        '[{"partition":"0","offset":"e"}]',
        '[{"partition":"0","offset":"f"}]',
        '[{"partition":"0","offset":"g"}]',
    ]


async def test_async_events_go_on_where_a_broken_stream_ended() -> None:
    node = Node(PARTITIONS, streams(batch("f", 1), broken=True), refuses, streams(batch("g", 2), broken=True))
    async with node.async_client() as client:
        batches = client.events("orders", "begin", stream_limit=2)
        assert [batch.events[0]["n"] async for batch in batches] == [1, 2]
    assert node.asked[1].headers["x-nakadi-cursors"] == '[{"partition":"0","offset":"BEGIN"}]'


def test_the_second_stream_of_a_subscription_waits_until_the_first_is_gone() -> None:
    first = streams(batch("f", 1), broken=True)
    node = Node(first, replies(409), streams(batch("g", 2)), replies(404))
    with node.client() as client:
        batches = client.subscription_events("s")
        assert [next(batches).events[0]["n"] for _ in range(2)] == [1, 2]


def test_a_subscription_without_a_free_slot_is_told_at_once() -> None:
    node = Node(replies(409, {"code": "conflict", "detail": "no free slot"}))
    with node.client() as client, pytest.raises(Conflict, match="no free slot"):
        next(client.subscription_events("s"))


def test_both_clients_offer_the_same_methods_with_the_same_signatures() -> None:
    def surface(kind: type) -> dict[str, list[str]]:
        methods = {name: value for name, value in vars(kind).items() if not name.startswith("_") and callable(value)}
        return {name: list(inspect.signature(value).parameters) for name, value in methods.items()}

    sync, both = surface(Client), surface(AsyncClient)
    sync.pop("close")
    assert sync.items() <= {**both, "now": ["self"]}.items()


def test_methods_document_themselves() -> None:
    assert "after=3600" in (Client.schedule.__doc__ or "")
    assert list(inspect.signature(Client.move).parameters) == ["self", "topic", "id", "at", "after", "version"]
    assert inspect.iscoroutinefunction(AsyncClient.move)
