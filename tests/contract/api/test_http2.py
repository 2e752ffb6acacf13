"""HTTP/2 on a real socket: with prior knowledge and by ALPN, many streams at once, windows, resets, the end of a node."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import httpx
import pytest
from http_server import HOST, HttpServer, open_http_server
from test_http1 import FLOODS, LIMITS, ROUTES, WITHIN, Held
from tls_nodes import make_certificate

from meantime.api.http.limits import HttpLimits
from meantime.api.http.tls import TlsFiles


@pytest.fixture(autouse=True)
def fresh() -> None:
    FLOODS.clear()
    Held.taken, Held.event = asyncio.Event(), asyncio.Event()


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    async with open_http_server(ROUTES, limits=LIMITS) as running:
        yield running


def client_of(server: HttpServer) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.url, http1=False, http2=True, timeout=WITHIN)


class Peer:
    """A client that sees every frame."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.events: list[h2.events.Event] = []
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.h2.data_to_send())

    def ask(self, method: str, path: str, *more: tuple[str, str], end: bool = True) -> int:
        stream = self.h2.get_next_available_stream_id()
        head = [(":method", method), (":path", path), (":scheme", "http"), (":authority", "x"), *more]
        self.h2.send_headers(stream, head, end_stream=end)
        self.flush()
        return stream

    async def until(self, kind: type[h2.events.Event], stream: int | None = None) -> h2.events.Event:
        """The next event of this kind; those before it are forgotten."""
        async with asyncio.timeout(WITHIN):
            while True:
                while self.events:
                    event = self.events.pop(0)
                    if isinstance(event, kind) and stream in (None, getattr(event, "stream_id", None)):
                        return event
                data = await self.reader.read(65_536)
                assert data, "the connection was closed"
                self.events += self.h2.receive_data(data)
                self.flush()


@asynccontextmanager
async def peer_of(server: HttpServer) -> AsyncIterator[Peer]:
    reader, writer = await asyncio.open_connection(HOST, server.port)
    try:
        yield Peer(reader, writer)
    finally:
        writer.close()


async def test_requests_share_a_connection_and_bodies_of_any_size_go_both_ways(server: HttpServer) -> None:
    async with client_of(server) as client:
        bodies = [b"x" * size for size in (0, 1, 65_535, 70_000, 150_000)]
        answers = await asyncio.gather(*(client.post("/echo", content=body) for body in bodies))
        wrong = await client.put("/echo")
    assert [answer.content for answer in answers] == bodies
    assert {answer.http_version for answer in answers} == {"HTTP/2"}
    assert (wrong.status_code, wrong.json()["code"]) == (405, "method_not_allowed")
    assert server.server.connections <= 1


async def test_a_body_over_the_limit_is_refused_and_the_connection_goes_on(server: HttpServer) -> None:
    async with client_of(server) as client:
        assert (await client.post("/echo", content=b"x" * (LIMITS.max_body_bytes + 1))).status_code == 413
        assert (await client.post("/echo", content=b"fine")).content == b"fine"


async def test_headers_over_the_limit_are_refused(server: HttpServer) -> None:
    async with client_of(server) as client:
        refused = await client.post("/echo", headers={"a": "a" * (LIMITS.max_header_bytes + 1)})
        assert (refused.status_code, refused.json()["code"]) == (431, "headers_too_large")
        assert (await client.post("/echo", content=b"fine")).content == b"fine"


async def test_a_body_that_does_not_come_is_late(tmp_path: Path) -> None:
    async with open_http_server(ROUTES, limits=HttpLimits(body_timeout=0.3)) as running, peer_of(running) as peer:
        stream = peer.ask("POST", "/echo", end=False)
        answered = await peer.until(h2.events.ResponseReceived, stream)
    assert isinstance(answered, h2.events.ResponseReceived)
    assert dict(answered.headers)[":status"] == "408"


async def test_a_client_that_opens_no_window_stops_its_stream_and_nobody_else(server: HttpServer) -> None:
    async with peer_of(server) as peer, client_of(server) as other:
        stream = peer.ask("GET", "/flood")
        received = 0
        while received < 65_535:
            event = await peer.until(h2.events.DataReceived, stream)
            assert isinstance(event, h2.events.DataReceived)
            received += len(event.data)
        assert (await other.post("/echo", content=b"still here")).content == b"still here"
        sent = FLOODS[0].sent
        assert sent <= 65_535
        peer.h2.increment_flow_control_window(100_000, stream)
        peer.h2.increment_flow_control_window(100_000)
        peer.flush()
        while FLOODS[0].sent == sent:
            await peer.until(h2.events.DataReceived, stream)


async def test_a_stream_that_its_client_resets_is_closed_while_the_connection_goes_on(server: HttpServer) -> None:
    async with peer_of(server) as peer:
        stream = peer.ask("GET", "/quiet")
        await peer.until(h2.events.DataReceived, stream)
        peer.h2.reset_stream(stream, 8)
        peer.flush()
        await asyncio.wait_for(FLOODS[0].closed.wait(), WITHIN)
        again = peer.ask("POST", "/echo")
        await peer.until(h2.events.ResponseReceived, again)


async def test_a_call_that_waits_ends_when_its_stream_is_reset(server: HttpServer) -> None:
    async with peer_of(server) as peer:
        stream = peer.ask("GET", "/patient")
        other = peer.ask("POST", "/echo")
        await peer.until(h2.events.ResponseReceived, other)
        peer.h2.reset_stream(stream, 8)
        peer.flush()
        await asyncio.wait_for(Held.event.wait(), WITHIN)


async def test_a_client_that_takes_back_everything_it_asks_is_sent_away(server: HttpServer) -> None:
    async with peer_of(server) as peer:
        for _ in range(1_100):
            stream = peer.ask("GET", "/patient")
            peer.h2.reset_stream(stream, 8)
            peer.flush()
        ended = await peer.until(h2.events.ConnectionTerminated)
    assert isinstance(ended, h2.events.ConnectionTerminated)
    assert ended.error_code == 11


async def test_what_is_not_http_2_after_the_preface_ends_the_connection_and_nothing_else(server: HttpServer) -> None:
    reader, writer = await asyncio.open_connection(HOST, server.port)
    writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100_000)
    await asyncio.wait_for(reader.read(), WITHIN)
    writer.close()
    async with client_of(server) as client:
        assert (await client.post("/echo", content=b"fine")).content == b"fine"


async def test_a_stop_says_goodbye_ends_streams_and_finishes_requests(server: HttpServer) -> None:
    async with peer_of(server) as peer:
        stream = peer.ask("GET", "/quiet")
        await peer.until(h2.events.DataReceived, stream)
        plain = peer.ask("POST", "/hold")
        await asyncio.wait_for(Held.taken.wait(), WITHIN)
        stopping = asyncio.create_task(server.server.stop())
        await peer.until(h2.events.StreamEnded, stream)
        await peer.until(h2.events.StreamReset, peer.ask("POST", "/echo"))
        Held.event.set()
        await stopping
        rest = peer.h2.receive_data(await asyncio.wait_for(peer.reader.read(), WITHIN))
    assert any(isinstance(event, h2.events.StreamEnded) and event.stream_id == plain for event in rest)
    assert isinstance(rest[-1], h2.events.ConnectionTerminated)


async def test_over_tls_the_version_is_negotiated_and_a_new_certificate_needs_no_restart(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    old, new = make_certificate(tmp_path / "old"), make_certificate(tmp_path / "new")
    async with open_http_server(ROUTES, limits=LIMITS, tls=TlsFiles(str(old.cert), str(old.key))) as running:
        url = running.url.replace("http:", "https:")
        async with (
            httpx.AsyncClient(verify=old.trusting(), http2=True) as modern,
            httpx.AsyncClient(verify=old.trusting()) as plain,
        ):
            two, one = await modern.post(f"{url}/echo", content=b"2"), await plain.post(f"{url}/echo", content=b"1")
            assert [(two.http_version, two.content), (one.http_version, one.content)] == [
                ("HTTP/2", b"2"),
                ("HTTP/1.1", b"1"),
            ]
            old.cert.write_bytes(b"being replaced")
            await running.server.look_at_tls()
            assert (await modern.post(f"{url}/echo", content=b"2")).content == b"2"
        old.key.write_bytes(new.key.read_bytes())
        old.cert.write_bytes(new.cert.read_bytes())
        await running.server.look_at_tls()
        async with httpx.AsyncClient(verify=new.trusting(), http2=True) as modern:
            assert (await modern.post(f"{url}/echo", content=b"new")).content == b"new"


async def test_with_a_ca_of_clients_nobody_comes_in_without_a_certificate(tmp_path: Path) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "client").mkdir()
    mine, yours = make_certificate(tmp_path / "server"), make_certificate(tmp_path / "client")
    files = TlsFiles(str(mine.cert), str(mine.key), ca=str(yours.cert))
    async with open_http_server(ROUTES, limits=LIMITS, tls=files) as running:
        url = running.url.replace("http:", "https:")
        with pytest.raises((httpx.TransportError, ssl.SSLError)):
            async with httpx.AsyncClient(verify=mine.trusting(), http2=True) as nobody:
                await nobody.post(f"{url}/echo")
        known = mine.trusting()
        known.load_cert_chain(yours.cert, yours.key)
        async with httpx.AsyncClient(verify=known, http2=True) as somebody:
            assert (await somebody.post(f"{url}/echo", content=b"in")).content == b"in"
