"""The edge on a real socket: limits, gzip, keys, flow ids, and what a stop does to streams and to plain requests."""

import asyncio
import gzip
from collections.abc import AsyncIterator

import httpx
import pytest
from litestar import Litestar, Request, get, post
from litestar.params import FromPath
from litestar.response import Stream

from meantime.access.scopes import Identity
from meantime.api.edge import Edge, Limits
from meantime.api.identity import allow, producer_group
from meantime.api.problems import HANDLERS
from meantime.api.server import Listening, Server, make_server
from meantime.clock import ManualClock
from meantime.errors import Unauthenticated


@post("/echo")
async def echo(request: Request) -> bytes:
    return await request.body()


@get("/slow")
async def slow() -> str:
    await asyncio.sleep(0.5)
    return "finished"


@get("/stream")
async def stream() -> Stream:
    async def lines() -> AsyncIterator[str]:
        while True:
            yield "line\n"
            await asyncio.sleep(0.05)

    return Stream(lines())


@get("/boom")
async def boom() -> None:
    raise RuntimeError("secret detail")


@get("/publish/{name:str}")
async def publish(request: Request, name: FromPath[str]) -> str:
    allow(request, "publish", name)
    return "allowed"


@get("/group")
async def group(request: Request) -> str:
    return producer_group(request)


class OneKey:
    async def identify(self, authorization: str | None) -> Identity:
        if authorization != "Bearer good":
            raise Unauthenticated()
        return Identity("k", frozenset({"publish:orders.*", "produce:billing"}))


class Running:
    def __init__(self, edge: Edge, server: Server, port: int) -> None:
        self.edge, self.server, self.port = edge, server, port
        self.url = f"http://127.0.0.1:{port}"

    async def raw(self, data: bytes, wait_for: float = 5.0) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        try:
            return await asyncio.wait_for(reader.read(), wait_for)
        finally:
            writer.close()


async def serve(door: OneKey | None = None) -> AsyncIterator[Running]:
    app = Litestar([echo, slow, stream, boom, publish, group], exception_handlers=HANDLERS, request_max_body_size=None)
    limits = Limits(max_header_bytes=4096, max_body_bytes=10_000, body_timeout=0.5)
    edge = Edge(app, clock=ManualClock(1234), limits=limits, door=door)
    server = make_server(edge, Listening("127.0.0.1", 0, 4096, header_timeout=0.4, max_connections=50, stop_timeout=3))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it
        await asyncio.sleep(0.01)
    yield Running(edge, server, server.servers[0].sockets[0].getsockname()[1])
    edge.stopping.set()
    server.should_exit = True
    await task


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    async for one in serve():
        yield one


@pytest.fixture
async def locked() -> AsyncIterator[Running]:
    async for one in serve(OneKey()):
        yield one


async def test_every_answer_carries_cluster_time_and_the_flow_id(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        given = await client.post("/echo", headers={"X-Flow-Id": "abc"})
        made = await client.get("/nowhere")
    assert (given.headers["X-Meantime-Now"], given.headers["X-Flow-Id"]) == ("1234", "abc")
    assert made.status_code == 404
    assert len(made.headers["X-Flow-Id"]) == 32
    assert made.headers["Content-Type"] == "application/problem+json"


async def test_a_body_over_the_limit_is_refused_whether_it_is_announced_or_not(running: Running) -> None:
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(30):
            yield b"x" * 1000

    async with httpx.AsyncClient(base_url=running.url) as client:
        announced = await client.post("/echo", content=b"x" * 10_001)
        chunked = await client.post("/echo", content=chunks())
        packed = await client.post("/echo", content=gzip.compress(b"x" * 10_001), headers={"Content-Encoding": "gzip"})
    assert [announced.status_code, chunked.status_code, packed.status_code] == [413, 413, 413]
    assert announced.json()["code"] == "too_large"


async def test_gzip_bodies_are_read_and_broken_ones_are_malformed(running: Running) -> None:
    whole = gzip.compress(b"hello " * 100)
    headers = {"Content-Encoding": "gzip"}
    async with httpx.AsyncClient(base_url=running.url, headers=headers) as client:
        good = await client.post("/echo", content=whole)
        short = await client.post("/echo", content=whole[:-5])
        junk = await client.post("/echo", content=b"not gzip")
        unknown = await client.post("/echo", content=b"x", headers={"Content-Encoding": "br"})
    assert good.content == b"hello " * 100
    assert [short.status_code, junk.status_code, unknown.status_code] == [400, 400, 415]


async def test_headers_over_the_limit_are_refused_even_while_they_are_still_coming(running: Running) -> None:
    complete = await running.raw(b"GET /slow HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 5000 + b"\r\n\r\n")
    endless = await running.raw(b"GET /slow HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 5000)
    assert complete.startswith(b"HTTP/1.1 431")
    assert endless.startswith(b"HTTP/1.1 431")


@pytest.mark.parametrize("path", ["/publish/%00", "/group?name=a%00b"])
async def test_an_address_with_a_nul_is_malformed(running: Running, path: str) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "malformed")


async def test_a_client_that_sends_too_slowly_is_let_go(running: Running) -> None:
    headers = await running.raw(b"GET /slow HTTP/1.1\r\nHost: x\r\n")
    silent = await running.raw(b"")
    body = await running.raw(b"POST /echo HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 10\r\n\r\nabc")
    assert headers.startswith(b"HTTP/1.1 408")
    assert silent == b""
    assert body.startswith(b"HTTP/1.1 408")


async def test_an_unexpected_error_says_nothing_of_its_inside(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        answer = await client.get("/boom")
    assert answer.status_code == 500
    assert "secret" not in answer.text


async def test_a_stop_finishes_plain_requests_and_ends_streams_properly(running: Running) -> None:
    async with httpx.AsyncClient(base_url=running.url) as client:
        plain = asyncio.create_task(client.get("/slow"))
        async with client.stream("GET", "/stream") as streaming:
            lines = streaming.aiter_lines()
            assert await anext(lines) == "line"
            running.edge.stopping.set()
            rest = [line async for line in lines]  # ends by itself, with a proper last chunk
            assert set(rest) <= {"line"}
        assert (await plain).text == "finished"


async def test_without_a_key_401_with_the_wrong_scope_403(locked: Running) -> None:
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
