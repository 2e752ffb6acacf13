"""How nodes ask each other over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from meantime.cluster.peers import ClockClient, PeerOptions, open_clock_client

OPTIONS = PeerOptions(answer_within=3.0)
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"


@asynccontextmanager
async def node(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Its address, and what it was asked; when it has no more to say it is silent."""
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while request := await reader.readuntil(b"\r\n\r\n"):
                asked.append(request)
                writer.write(b"".join(answers[len(asked) - 1 : len(asked)]))
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", asked
    finally:
        server.close()


@pytest.fixture
async def clocks() -> AsyncIterator[ClockClient]:
    async with open_clock_client(OPTIONS) as client:
        yield client


@pytest.mark.parametrize("way", ["http://", "http://somebody@"], ids=["directly", "by httpx"])
async def test_a_node_is_asked_for_its_clock(clocks: ClockClient, way: str) -> None:
    async with node(ANSWER, ANSWER) as (place, asked):
        assert [await clocks.clock_of(way + place) for _ in range(2)] == [b"{}", b"{}"]
    assert all(request.startswith(b"GET /clock HTTP/1.1\r\n") for request in asked)


@pytest.mark.parametrize("way", ["http://", "http://somebody@"], ids=["directly", "by httpx"])
async def test_silence_and_refusals_are_no_answers(clocks: ClockClient, way: str) -> None:
    async with node(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n") as (place, _):
        with pytest.raises(httpx.HTTPError, match="503"):
            await clocks.clock_of(way + place)
        with pytest.raises((TimeoutError, httpx.TimeoutException)):
            await clocks.clock_of(way + place)
    with pytest.raises(httpx.ConnectError):
        await clocks.clock_of("http://127.0.0.1:1")
