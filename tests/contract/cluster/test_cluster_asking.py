"""How nodes ask each other over real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import httpx
import pytest

from meantime.cluster.asking import Asking, open_asking
from meantime.cluster.options import ClusterOptions

OPTIONS = ClusterOptions(answer_within=0.3)
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
async def asking() -> AsyncIterator[Asking]:
    async with open_asking(OPTIONS) as asking:
        yield asking


@pytest.mark.parametrize("way", ["http://", "http://somebody@"], ids=["shortly", "at length"])
async def test_a_node_is_asked_for_its_clock(asking: Asking, way: str) -> None:
    async with node(ANSWER, ANSWER) as (place, asked):
        assert [await asking.clock_of(way + place) for _ in range(2)] == [b"{}", b"{}"]
    assert all(request.startswith(b"GET /clock HTTP/1.1\r\n") for request in asked)


@pytest.mark.parametrize("way", ["http://", "http://somebody@"], ids=["shortly", "at length"])
async def test_silence_and_refusals_are_no_answers(asking: Asking, way: str) -> None:
    async with node(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n") as (place, _):
        with pytest.raises(httpx.HTTPError, match="503"):
            await asking.clock_of(way + place)
        with pytest.raises((TimeoutError, httpx.TimeoutException)):
            await asking.clock_of(way + place)
    with pytest.raises(httpx.ConnectError):
        await asking.clock_of("http://127.0.0.1:1")
