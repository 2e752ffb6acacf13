"""The console on this machine for a cluster elsewhere: its files from here, everything else from a node.

It listens on loopback for the browser of whoever started it and holds no key: the browser logs in through it, as at a node,
and the cookie is between the two of them. It answers only under a name of this machine, and passes on no write that a page
of another origin has caused; so a node may trust what it says of that.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from urllib.parse import urlsplit

import httpx
import structlog

from meantime.api.console.files import NOT_BUILT, file_headers
from meantime.api.http.browsers import GUARDED, SAFE, check_origin, is_of_console, session_token
from meantime.api.http.exchange import Headers, HttpExchange
from meantime.api.problems import MEDIA_TYPE, rendered
from meantime.api.streaming import EVENT_STREAM, JSON_STREAM, NDJSON, LineStream
from meantime.console.files import ConsoleFiles
from meantime.errors import Forbidden, MeantimeError, Unavailable
from meantime.names import is_loopback

log = structlog.get_logger(__name__)

OF_NODES = frozenset(f"/console/{name}" for name in ("login", "logout", "session", "events"))
"""What is below `/console` and no file."""
STREAMS = (EVENT_STREAM, JSON_STREAM, NDJSON)
NOT_PASSED_ON = frozenset(
    {
        *(b"host", b"origin", b"connection", b"keep-alive", b"upgrade", b"te", b"transfer-encoding", b"content-length"),
        *(b"content-encoding", b"accept-encoding", b"sec-fetch-site", b":authority", b":scheme"),
    }
)
NOT_PASSED_BACK = frozenset(("connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date"))


class ConsoleProxy:
    """An application of the HTTP server. `nodes` are asked in turn: the first that can be reached answers."""

    def __init__(self, files: ConsoleFiles, client: httpx.AsyncClient, nodes: Sequence[str]) -> None:
        self._files = files
        self._client = client
        self._nodes = list(nodes)

    def stamp(self) -> bytes:
        return b""

    async def __call__(self, exchange: HttpExchange) -> None:
        try:
            await self._answer(exchange)
        except MeantimeError as error:
            found = rendered(error)
            headers = [(name.lower().encode(), value.encode()) for name, value in found.headers.items()]
            exchange.send(found.status, [*GUARDED, *headers, (b"content-type", MEDIA_TYPE)], found.body)
        finally:
            exchange.over()

    async def _answer(self, exchange: HttpExchange) -> None:
        _check_host(exchange)
        path = exchange.path
        if exchange.method in SAFE and path in ("/", "/console"):
            exchange.send(307, [*GUARDED, (b"location", b"console/")], b"")
        elif exchange.method in SAFE and is_of_console(path) and path not in OF_NODES:
            await self._show_file(exchange, path.removeprefix("/console/"))
        else:
            await self._pass_on(exchange)

    async def _show_file(self, exchange: HttpExchange, path: str) -> None:
        found = await self._files.find(path)
        if found is None:
            status, kind, body = (404, b"text/plain", b"no such file\n")
            if not self._files.built:
                status, kind, body = 503, b"text/html; charset=utf-8", NOT_BUILT
            exchange.send(status, [*GUARDED, (b"content-type", kind)], body)
            return
        status, headers, body = file_headers(found, exchange.headers)
        given = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        exchange.send(status, [*GUARDED, *given, (b"content-type", found.media_type.encode())], body)

    async def _pass_on(self, exchange: HttpExchange) -> None:
        check_origin(exchange.method, exchange.headers, proof=session_token(exchange.headers) is not None)
        response = await self._ask(exchange, await exchange.body())
        media_type = response.headers.get("content-type", "").partition(";")[0]
        if media_type in STREAMS and response.status_code == 200:
            await LineStream(_Upstream(response)).send(exchange, _back(response))
            return
        try:
            body = await response.aread()
        except httpx.HTTPError as error:
            raise Unavailable(f"the node has broken off its answer: {error}") from error
        exchange.send(response.status_code, _back(response), body)

    async def _ask(self, exchange: HttpExchange, body: bytes) -> httpx.Response:
        headers = [(name, value) for name, value in exchange.headers.items() if name not in NOT_PASSED_ON]
        headers.append((b"accept-encoding", b"identity"))
        if exchange.method not in SAFE:
            headers.append((b"sec-fetch-site", b"same-origin"))
        query = f"?{exchange.query.decode('latin-1')}" if exchange.query else ""
        for node in list(self._nodes):
            request = self._client.build_request(
                exchange.method, f"{node}{exchange.path}{query}", headers=headers, content=body or None
            )
            try:
                return await self._client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                self._nodes.append(self._nodes.pop(0))
            except httpx.HTTPError as error:
                raise Unavailable(f"{node} does not answer: {str(error) or type(error).__name__}") from error
        raise Unavailable(f"no node can be reached: {', '.join(self._nodes)}")


class _Upstream:
    """A stream of a node, passed on as it comes."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response

    async def chunks(self) -> AsyncIterator[bytes]:
        try:
            async for chunk in self._response.aiter_raw():
                yield chunk
        except httpx.HTTPError as error:
            log.info("node_broke_off", error=str(error))
        finally:
            await self._response.aclose()

    async def cut(self) -> None:
        """Its node does that."""
        await asyncio.Event().wait()

    def close(self) -> None:
        """The response is closed with what reads it."""


def _check_host(exchange: HttpExchange) -> None:
    """A page of another site may have made its name an address of this machine: it would be of the same origin."""
    given = (exchange.headers.get(b"host") or exchange.headers.get(b":authority") or b"").decode("latin-1")
    name = urlsplit(f"//{given}").hostname or ""
    if name != "localhost" and not is_loopback(name):
        raise Forbidden("this console is for 127.0.0.1 and localhost only")


def _back(response: httpx.Response) -> Headers:
    """Plain HTTP is spoken here, so the cookie must not be for TLS only."""
    return [
        (name.lower().encode(), (value.replace("; Secure", "") if name.lower() == "set-cookie" else value).encode("latin-1"))
        for name, value in response.headers.multi_items()
        if name.lower() not in NOT_PASSED_BACK
    ]
