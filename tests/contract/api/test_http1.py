"""HTTP/1.1 byte by byte, on a real socket: what clients of all kinds send, and what a node answers."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from http_server import HOST, HttpServer, open_http_server

from meantime.api.bodies import raw
from meantime.api.call import Answer, HttpCall
from meantime.api.http.limits import HttpLimits
from meantime.api.routing import Route
from meantime.api.streaming import LineStream

LINE = b"x" * 9_999 + b"\n"
WITHIN = 30.0


class Flood:
    """As many lines as the client takes."""

    def __init__(self) -> None:
        self.sent = 0
        self.closed = asyncio.Event()

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            yield LINE
            self.sent += len(LINE)

    async def cut(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        self.closed.set()


class Waiting(Flood):
    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"first\n"
        await asyncio.Event().wait()


FLOODS: list[Flood] = []


class Held:
    """What tests and handlers wait for; new ones for every test, as each has an event loop of its own."""

    taken = asyncio.Event()
    event = asyncio.Event()


async def echo(call: HttpCall[bytes, None]) -> Answer:
    """Echo"""
    return Answer(200, call.form, media_type=b"application/octet-stream")


async def hold(call: HttpCall[bytes, None]) -> Answer:
    """Hold the body until it is let go"""
    Held.taken.set()
    await Held.event.wait()
    return Answer(200, b"let go")


async def flood(call: HttpCall[None, None]) -> LineStream:
    """Flood"""
    FLOODS.append(Flood())
    return LineStream(FLOODS[-1])


async def quiet(call: HttpCall[None, None]) -> LineStream:
    """Quiet"""
    FLOODS.append(Waiting())
    return LineStream(FLOODS[-1])


async def patient(call: HttpCall[None, None]) -> Answer:
    """Wait until the client goes"""
    gone = asyncio.Event()
    call.exchange.when_ending(gone.set)
    await gone.wait()
    Held.event.set()
    return Answer(200)


ROUTES = [
    Route("POST", "/echo", None, echo, {200: bytes}, takes=raw(bytes)),
    Route("POST", "/hold", None, hold, {200: bytes}, takes=raw(bytes)),
    Route("GET", "/flood", None, flood, {200: str}, streams="application/x-json-stream"),
    Route("GET", "/quiet", None, quiet, {200: str}, streams="application/x-json-stream"),
    Route("GET", "/patient", None, patient, {200: None}),
]
LIMITS = HttpLimits(max_body_bytes=1 << 20, max_bodies_bytes=1 << 20, max_connections=8, stop_timeout=3)


@pytest.fixture(autouse=True)
def fresh() -> None:
    FLOODS.clear()
    Held.taken, Held.event = asyncio.Event(), asyncio.Event()


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    async with open_http_server(ROUTES, limits=LIMITS) as running:
        yield running


@asynccontextmanager
async def connected(server: HttpServer) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection(HOST, server.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, str], bytes]:
    """The next answer that has a length."""
    async with asyncio.timeout(WITHIN):
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
    return int(head[0].split()[1]), headers, body


def post(path: str, body: bytes, *headers: str) -> bytes:
    lines = [f"POST {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}", *headers, "", ""]
    return "\r\n".join(lines).encode() + body


UPGRADE = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA")


async def test_an_offer_to_upgrade_is_declined_and_the_request_is_served_with_its_body(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        for number in range(3):
            writer.write(post("/echo", b"hello %d" % number, *UPGRADE))
            status, _, body = await answer(reader)
            assert (status, body) == (200, b"hello %d" % number)


async def test_a_declined_upgrade_may_come_in_pieces_chunked_or_with_the_next_request_behind_it(server: HttpServer) -> None:
    lines = ["POST /echo HTTP/1.1", "Host: x", "Transfer-Encoding: chunked", *UPGRADE, "", ""]
    chunked = "\r\n".join(lines).encode() + b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    async with connected(server) as (reader, writer):
        for byte in chunked + post("/echo", b"piecemeal", *UPGRADE):
            writer.write(bytes([byte]))
            await asyncio.sleep(0)
        writer.write(post("/echo", b"", *UPGRADE) + post("/echo", b"last"))
        bodies = [(await answer(reader))[2] for _ in range(4)]
    assert bodies == [b"abcde", b"piecemeal", b"", b"last"]


async def test_requests_that_are_sent_ahead_are_answered_in_their_order(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"".join(post("/echo", b"%d" % number) for number in range(100)))
        bodies = [(await answer(reader))[2] for _ in range(100)]
    assert bodies == [b"%d" % number for number in range(100)]


async def test_a_client_that_asks_first_is_told_to_continue_or_refused_before_it_sends(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), WITHIN) == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"abc")
        assert (await answer(reader))[2] == b"abc"
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\nExpect: 100-continue\r\n\r\n")
        status, _, body = await answer(reader)
        assert (status, json.loads(body)["code"]) == (413, "too_large")


async def test_what_is_not_http_gets_a_problem_document_and_no_second_chance(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"\x16\x03\x01 hello\r\n\r\n")
        status, headers, body = await answer(reader)
        assert (status, json.loads(body)["code"]) == (400, "malformed")
        assert {"x-meantime-now", "x-flow-id"} <= set(headers)
        assert await asyncio.wait_for(reader.read(), WITHIN) == b""


async def test_two_lengths_that_contradict_each_other_are_refused(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
        assert (await answer(reader))[0] == 400


async def test_a_broken_chunk_is_malformed(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nabc")
        assert (await answer(reader))[0] == 400


async def test_a_whole_url_in_the_request_line_leads_to_its_path(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        writer.write(post("http://elsewhere:80/echo?a=b", b"proxied"))
        assert (await answer(reader))[2] == b"proxied"


async def test_a_client_that_leaves_while_its_requests_wait_gives_their_bytes_back(server: HttpServer) -> None:
    async with connected(server) as (_, writer):
        writer.write(post("/hold", b"first") + b"".join(post("/hold", b"x" * 10_000) for _ in range(10)))
        await asyncio.wait_for(Held.taken.wait(), WITHIN)
    Held.event.set()
    async with httpx.AsyncClient(base_url=server.url, timeout=WITHIN) as client:
        while server.server.connections > 1:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        assert (await client.post("/echo", content=b"x" * LIMITS.max_body_bytes)).status_code == 200


async def test_http_1_0_gets_its_answer_and_the_end_of_the_connection(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        writer.write(b"POST /echo HTTP/1.0\r\nContent-Length: 3\r\n\r\nold")
        whole = await asyncio.wait_for(reader.read(), WITHIN)
    assert whole.endswith(b"\r\n\r\nold")
    assert b"transfer-encoding" not in whole


async def test_a_client_that_closes_its_side_still_reads_a_plain_answer(server: HttpServer) -> None:
    async with connected(server) as (reader, writer):
        writer.write(post("/echo", b"half"))
        writer.write_eof()
        assert (await answer(reader))[2] == b"half"
        assert await asyncio.wait_for(reader.read(), WITHIN) == b""


async def test_a_call_that_waits_for_something_ends_when_its_client_goes(server: HttpServer) -> None:
    async with connected(server) as (_, writer):
        writer.write(b"GET /patient HTTP/1.1\r\nHost: x\r\n\r\n")
        await writer.drain()
    await asyncio.wait_for(Held.event.wait(), WITHIN)


async def test_a_client_that_does_not_read_stops_its_stream_and_nobody_else(server: HttpServer) -> None:
    async with connected(server) as (reader, writer), httpx.AsyncClient(base_url=server.url) as other:
        writer.write(b"GET /flood HTTP/1.1\r\nHost: x\r\n\r\n")
        while not FLOODS or FLOODS[0].sent == 0:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        before = -1
        while before != FLOODS[0].sent:
            before = FLOODS[0].sent
            await asyncio.sleep(0.2)
            assert (await other.post("/echo", content=b"still here")).content == b"still here"
        assert before < 64 << 20
        await asyncio.wait_for(reader.readexactly(before), WITHIN)
        while FLOODS[0].sent <= before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await asyncio.wait_for(FLOODS[0].closed.wait(), WITHIN)


async def test_bodies_beyond_the_budget_are_refused_for_now_and_taken_when_there_is_room(server: HttpServer) -> None:
    large = b"x" * 900_000
    async with httpx.AsyncClient(base_url=server.url, timeout=WITHIN) as client:
        holding = asyncio.create_task(client.post("/hold", content=large))
        await asyncio.wait_for(Held.taken.wait(), WITHIN)
        refused = await client.post("/echo", content=large)
        assert (refused.status_code, refused.json()["retryable"], refused.headers["Retry-After"]) == (503, True, "1")
        assert (await client.post("/echo", content=b"small")).status_code == 200
        Held.event.set()
        assert (await holding).content == b"let go"
        assert (await client.post("/echo", content=large)).status_code == 200


async def test_more_connections_than_allowed_are_told_to_come_back(server: HttpServer) -> None:
    opened = [await asyncio.open_connection(HOST, server.port) for _ in range(LIMITS.max_connections)]
    try:
        for reader, writer in opened:
            writer.write(post("/echo", b"in"))
            assert (await answer(reader))[2] == b"in"
        async with connected(server) as (reader, _):
            status, headers, body = await answer(reader)
            assert (status, headers["retry-after"], json.loads(body)["retryable"]) == (503, "1", True)
    finally:
        for _, writer in opened:
            writer.close()
    while server.server.connections:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    async with connected(server) as (reader, writer):
        writer.write(post("/echo", b"again"))
        assert (await answer(reader))[2] == b"again"


async def test_a_stop_closes_idle_connections_and_ends_streams_with_a_last_chunk(server: HttpServer) -> None:
    async with connected(server) as (idle, _), connected(server) as (reader, writer):
        writer.write(b"GET /quiet HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"first\n"), WITHIN)
        await server.server.stop()
        assert (await asyncio.wait_for(reader.read(), WITHIN)).endswith(b"0\r\n\r\n")
        assert await asyncio.wait_for(idle.read(), WITHIN) == b""


async def test_head_has_the_headers_of_get_and_options_says_what_is_allowed(server: HttpServer) -> None:
    async with httpx.AsyncClient(base_url=server.url) as client:
        assert (await client.options("/echo")).headers["Allow"] == "OPTIONS, POST"
        wrong = await client.put("/echo")
        stream = await client.head("/quiet")
    assert (wrong.status_code, wrong.headers["Allow"], wrong.json()["code"]) == (405, "OPTIONS, POST", "method_not_allowed")
    assert (stream.status_code, stream.content) == (405, b"")


async def test_a_unix_socket_serves_the_same_and_only_this_user(tmp_path: Path) -> None:
    path = tmp_path / "node.sock"
    async with open_http_server(ROUTES, limits=LIMITS, unix_path=str(path)):
        assert path.stat().st_mode & 0o077 == 0
        async with httpx.AsyncClient(transport=httpx.AsyncHTTPTransport(uds=str(path)), base_url="http://node") as client:
            assert (await client.post("/echo", content=b"local")).content == b"local"
    assert not path.exists()
