"""The edge on a real socket: limits, gzip, keys, flow ids, and what a stop does to streams and to plain requests."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest
from http_server import HOST, HttpServer, open_http_server

from meantime.access.keys import StillAllowed
from meantime.access.scopes import Identity
from meantime.api.bodies import raw
from meantime.api.call import Answer, HttpCall
from meantime.api.http.exchange import HttpExchange
from meantime.api.http.limits import HttpLimits
from meantime.api.rights import PRODUCER, producer_group
from meantime.api.routing import Route, scope
from meantime.api.streaming import LineStream
from meantime.clock import ManualClock
from meantime.errors import Unauthenticated


async def echo(call: HttpCall[bytes, None]) -> Answer:
    """Echo"""
    return Answer(201, call.form, media_type=b"application/octet-stream")


async def slow(call: HttpCall[None, None]) -> Answer:
    """Slow"""
    await asyncio.sleep(0.5)
    return Answer(200, b"finished", media_type=b"text/plain")


class Lines:
    def __init__(self) -> None:
        self.closed = False

    async def chunks(self) -> AsyncIterator[bytes]:
        while True:
            yield b"line\n"
            await asyncio.sleep(0.05)

    async def cut(self) -> None:
        await asyncio.Event().wait()

    def close(self) -> None:
        self.closed = True


async def stream(call: HttpCall[None, None]) -> LineStream:
    """Stream"""
    return LineStream(Lines())


async def boom(call: HttpCall[None, None]) -> None:
    """Boom"""
    raise RuntimeError("secret detail")


async def publish(call: HttpCall[None, None]) -> str:
    """Publish"""
    return "allowed"


async def group(call: HttpCall[None, None]) -> str:
    """Group"""
    return producer_group(call)


class OneKey:
    async def identify(self, authorization: str | None, peer: str) -> Identity:
        assert peer == HOST
        if authorization != "Bearer good":
            raise Unauthenticated()
        return Identity("k", frozenset({"publish:orders.*", "produce:billing"}))

    def enter(self, identity: Identity, request: HttpExchange) -> None:
        pass

    def watch(self, request: HttpExchange, still_allowed: StillAllowed) -> None:
        pass

    def leave(self, identity: Identity, request: HttpExchange) -> None:
        pass


ROUTES = [
    Route("POST", "/echo", None, echo, {201: bytes}, takes=raw(bytes)),
    Route("GET", "/slow", None, slow, {200: str}),
    Route("GET", "/stream", None, stream, {200: str}, streams="application/x-json-stream"),
    Route("GET", "/boom", None, boom, {200: None}),
    Route("GET", "/publish/{name}", scope("publish", of="name"), publish, {200: str}),
    Route("GET", "/group", PRODUCER, group, {200: str}),
]
LIMITS = HttpLimits(max_header_bytes=4096, max_body_bytes=10_000, body_timeout=0.5, header_timeout=0.4, stop_timeout=3)


async def raw(server: HttpServer, data: bytes) -> bytes:
    """What the server answers to these bytes until it closes the connection."""
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(data)
    try:
        return await asyncio.wait_for(reader.read(), 30.0)
    finally:
        writer.close()


@pytest.fixture
async def running() -> AsyncIterator[HttpServer]:
    async with open_http_server(ROUTES, ManualClock(1234), LIMITS) as server:
        yield server


@pytest.fixture
async def locked() -> AsyncIterator[HttpServer]:
    async with open_http_server(ROUTES, ManualClock(1234), LIMITS, OneKey()) as server:
        yield server


async def test_every_answer_carries_cluster_time_and_the_flow_id(running: HttpServer) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        given = await client.post("/echo", headers={"X-Flow-Id": "abc"})
        made = await client.get("/nowhere")
    assert (given.headers["X-Meantime-Now"], given.headers["X-Flow-Id"]) == ("1234", "abc")
    assert made.status_code == 404
    assert len(made.headers["X-Flow-Id"]) == 32
    assert made.headers["Content-Type"] == "application/problem+json"


async def test_a_body_over_the_limit_is_refused_whether_it_is_announced_or_not(running: HttpServer) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b"x" * 1000

    async with httpx.AsyncClient(base_url=running.url) as client:
        announced = await client.post("/echo", content=b"x" * 10_001)
        chunked = await client.post("/echo", content=chunks())
        packed = await client.post("/echo", content=gzip.compress(b"x" * 10_001), headers={"Content-Encoding": "gzip"})
    assert [announced.status_code, chunked.status_code, packed.status_code] == [413, 413, 413]
    assert announced.json()["code"] == "too_large"


async def test_gzip_bodies_are_read_and_broken_ones_are_malformed(running: HttpServer) -> None:
    whole = gzip.compress(b"hello " * 100)
    headers = {"Content-Encoding": "gzip"}
    async with httpx.AsyncClient(base_url=running.url, headers=headers) as client:
        good = await client.post("/echo", content=whole)
        short = await client.post("/echo", content=whole[:-5])
        junk = await client.post("/echo", content=b"not gzip")
        unknown = await client.post("/echo", content=b"x", headers={"Content-Encoding": "br"})
    assert good.content == b"hello " * 100
    assert [short.status_code, junk.status_code, unknown.status_code] == [400, 400, 415]


async def test_headers_over_the_limit_are_refused_even_while_they_are_still_coming(running: HttpServer) -> None:
    complete = await raw(running, b"GET /slow HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 5000 + b"\r\n\r\n")
    endless = await raw(running, b"GET /slow HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 5000)
    assert complete.startswith(b"HTTP/1.1 431")
    assert endless.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("path", ["/publish/%00", "/group?name=a%00b"])
async def test_an_address_with_a_nul_is_malformed(running: HttpServer, path: str) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


async def test_a_client_that_sends_too_slowly_is_let_go(running: HttpServer) -> None:
    headers = await raw(running, b"GET /slow HTTP/1.1\r\nHost: x\r\n")
    silent = await raw(running, b"")
    body = await raw(running, b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\nabc")
    assert headers.startswith(b"HTTP/1.1 408")
    assert silent == b""
    assert body.startswith(b"HTTP/1.1 408")


async def test_an_unexpected_error_says_nothing_of_its_inside(running: HttpServer) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.get("/boom")
    assert answer.status_code == 500
    assert "secret" not in answer.text


async def test_a_stop_finishes_plain_requests_and_ends_streams_properly(running: HttpServer) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        plain = asyncio.create_task(client.get("/slow"))
        async with client.stream("GET", "/stream") as streaming:
            lines = streaming.aiter_lines()
            assert await anext(lines) == "line"
            stopping = asyncio.create_task(running.server.stop())
            rest = [line async for line in lines]  # ends by itself, with a proper last chunk
            assert set(rest) <= {"line"}
        assert (await plain).text == "finished"
        await stopping


async def test_without_a_key_401_with_the_wrong_scope_403(locked: HttpServer) -> None:
    async with httpx.AsyncClient(base_url=locked.url) as client:
        nobody = await client.get("/publish/orders.new")
        wrong_key = await client.get("/publish/orders.new", headers={"Authorization": "Bearer bad"})
        good = {"Authorization": "Bearer good"}
        allowed = await client.get("/publish/orders.new", headers=good)
        not_this = await client.get("/publish/customers", headers=good)
        no_group = await client.get("/group", headers=good)
        wrong_group = await client.get("/group", headers={**good, "X-Producer-Group": "other"})
        right_group = await client.get("/group", headers={**good, "X-Producer-Group": "billing"})
    answers = [nobody, wrong_key, allowed, not_this, no_group, wrong_group, right_group]
    assert [answer.status_code for answer in answers] == [401, 401, 200, 403, 401, 403, 200]
    assert nobody.headers["WWW-Authenticate"] == "Bearer"
    assert not_this.json()["required_scope"] == "publish:customers"
