"""The short way to a node, against a server that behaves as it is told."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import httpx
import pytest

from meantime.sdk.core import Request
from meantime.sdk.http.connection import ConnectionPool, is_direct
from meantime.sdk.http.stream_connection import MOST_WAITING, StreamConnections

HELLO = b"HTTP/1.1 200 OK\r\nX-Meantime-Now: 7\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 207 Multi\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"
LAST = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"

Answers = Callable[[int, bytes], bytes | None]
"""By the number of the connection and the request's head: what to send; None closes the connection."""


@asynccontextmanager
async def serving(answers: Answers) -> AsyncIterator[str]:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        number = connections
        try:
            while answer := answers(number, await reader.readuntil(b"\r\n\r\n")):
                writer.write(answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.fixture
async def connections() -> AsyncIterator[ConnectionPool]:
    connections = ConnectionPool()
    yield connections
    connections.close()


def get(url: str, *, answer_for: float = 5.0, **headers: str) -> Request:
    return Request("GET", f"{url}/topics", headers, None, answer_for)


async def test_a_connection_is_used_again_until_the_node_says_that_it_ends(connections: ConnectionPool) -> None:
    seen: list[int] = []

    def answers(number: int, head: bytes) -> bytes:
        seen.append(number)
        assert head.startswith(b"GET /topics HTTP/1.1\r\nHost: 127.0.0.1:")
        return [HELLO, CHUNKED, LAST, HELLO][len(seen) - 1]

    async with serving(answers) as url:
        got = [await connections.request(get(url)) for _ in range(4)]
    assert [(one.status, one.content) for one in got] == [(200, b"hello"), (207, b"hello"), (200, b"ok"), (200, b"hello")]
    assert got[0].headers["x-meantime-now"] == "7"
    assert seen == [1, 1, 1, 2]


async def test_calls_at_the_same_time_have_connections_of_their_own(connections: ConnectionPool) -> None:
    async with serving(lambda number, _: HELLO.replace(b"hello", b"no. %d" % number)) as url:
        got = await asyncio.gather(*(connections.request(get(url)) for _ in range(3)))
    assert sorted(one.content for one in got) == [b"no. 1", b"no. 2", b"no. 3"]


async def test_a_connection_that_breaks_instead_of_answering_is_an_error(connections: ConnectionPool) -> None:
    async with serving(lambda *_: None) as url:
        with pytest.raises(httpx.RemoteProtocolError):
            await connections.request(get(url))


async def test_an_answer_that_stops_halfway_is_not_waited_for_for_ever(connections: ConnectionPool) -> None:
    async with serving(lambda number, _: HELLO[:-2] if number == 1 else None) as url:
        asking = asyncio.create_task(connections.request(get(url, answer_for=0.2)))
        with pytest.raises(httpx.ReadTimeout):
            await asking


async def test_what_is_no_http_is_an_error(connections: ConnectionPool) -> None:
    async with serving(lambda *_: b"SSH-2.0-OpenSSH\r\n") as url:
        with pytest.raises(httpx.RemoteProtocolError):
            await connections.request(get(url))


async def test_a_call_that_was_given_up_leaves_no_answer_to_the_next_one(connections: ConnectionPool) -> None:
    async with serving(lambda number, _: HELLO[:10] if number == 1 else HELLO) as url:
        asking = asyncio.create_task(connections.request(get(url)))
        await asyncio.sleep(0.05)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        assert (await connections.request(get(url))).content == b"hello"


async def test_an_address_where_nobody_listens_was_never_asked(connections: ConnectionPool) -> None:
    async with serving(lambda *_: HELLO) as url:
        pass
    with pytest.raises(httpx.ConnectError):
        await connections.request(get(url))


async def test_a_header_cannot_bring_another_one(connections: ConnectionPool) -> None:
    async with serving(lambda *_: HELLO) as url:
        with pytest.raises(httpx.LocalProtocolError):
            await connections.request(get(url, **{"X-Producer-Group": "a\r\nX-Other: b"}))


async def read(url: str, *, silence_for: float = 5.0) -> tuple[int, bytes, bytes]:
    """Status, the content that came with the head, and the rest of a stream to its end."""
    async with StreamConnections().opened(get(url), silence_for) as (answer, chunks):
        return answer.status, answer.content, b"".join([chunk async for chunk in chunks])


async def test_a_stream_is_read_to_its_end() -> None:
    async with serving(lambda *_: CHUNKED) as url:
        assert await read(url) == (207, b"", b"hello")


async def test_of_a_stream_that_is_refused_the_whole_answer_is_known() -> None:
    async with serving(lambda *_: HELLO.replace(b"200 OK", b"409 Conflict")) as url:
        assert await read(url) == (409, b"hello", b"")


async def test_a_stream_that_falls_silent_is_broken_after_what_had_come() -> None:
    broken = CHUNKED[: CHUNKED.index(b"2\r\nlo")]
    async with serving(lambda *_: broken) as url, StreamConnections().opened(get(url), 0.2) as (_, chunks):
        assert await anext(chunks) == b"hel"
        with pytest.raises(httpx.ReadTimeout):
            await anext(chunks)


async def test_a_stream_whose_node_goes_away_is_broken_not_ended() -> None:
    started = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(CHUNKED[: CHUNKED.index(b"2\r\nlo")])
        await started.wait()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with StreamConnections().opened(get(url), 5.0) as (_, chunks):
            assert await anext(chunks) == b"hel"
            started.set()
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(chunks)


async def test_a_slow_reader_lets_the_node_wait_and_misses_nothing() -> None:
    piece = b"%x\r\n%s\r\n" % (64 << 10, b"x" * (64 << 10))
    pieces = 40 * MOST_WAITING // len(piece)
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        for _ in range(pieces):
            writer.write(piece)
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with StreamConnections().opened(get(url), 5.0) as (_, chunks):
            before = -1
            while sent != before:  # until the node gets nothing more off
                before = sent
                await asyncio.sleep(0.2)
            assert sent < pieces
            assert sum([len(chunk) async for chunk in chunks]) == pieces * (64 << 10)


async def test_a_stream_ends_with_its_client() -> None:
    streams = StreamConnections()
    async with serving(lambda *_: CHUNKED[: CHUNKED.index(b"2\r\nlo")]) as url:
        async with streams.opened(get(url), 5.0) as (_, chunks):
            assert await anext(chunks) == b"hel"
            streams.close()
            with pytest.raises(httpx.RemoteProtocolError):
                await anext(chunks)
        with pytest.raises(RuntimeError, match="closed"):
            await read_with(streams, url)


async def read_with(streams: StreamConnections, url: str) -> None:
    async with streams.opened(get(url), 5.0):
        raise AssertionError("a closed client opened a stream")


def test_the_short_way_is_for_plain_addresses_without_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert is_direct("http://node:8080")
    assert not is_direct("https://node:8080")
    assert not is_direct("http://user:word@node:8080")
    monkeypatch.setenv("http_proxy", "http://proxy:3128")
    assert not is_direct("http://node:8080")
    assert is_direct("http://127.0.0.1:8080")
    assert is_direct("http://[::1]:8080")
