"""The outermost layer of the HTTP API: what every request and every answer has in common.

Going in: limits on headers, body and time, gzip bodies, who is asking. Coming out: `X-Meantime-Now`, `X-Flow-Id`, metrics.
When the node stops, streams are ended as if their client had disconnected; plain requests are finished.
"""

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from secrets import token_hex
from typing import Any, Protocol

import structlog
from prometheus_client import Counter, Gauge, Histogram

from meantime.access.scopes import EVERYBODY, Identity
from meantime.api.bodies import Body
from meantime.api.problems import MEDIA_TYPE, rendered
from meantime.clock import Clock
from meantime.errors import HeadersTooLarge, Malformed, MeantimeError, TooLarge
from meantime.metrics import REGISTRY

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]

PUBLIC = frozenset({"/health", "/ready", "/clock", "/schema", "/schema/openapi.json"})
FLOW_ID = re.compile(r"[\x21-\x7e]{1,128}")

REQUESTS = Counter("meantime_http_requests_total", "Answered requests.", ["method", "route", "status"], registry=REGISTRY)
SECONDS = Histogram("meantime_http_request_seconds", "Time until the answer began.", ["method", "route"], registry=REGISTRY)
OPEN = Gauge("meantime_http_requests_open", "Requests being worked on, open streams included.", registry=REGISTRY)


@lru_cache(maxsize=1024)
def _meters(method: str, route: str, status: int) -> tuple[Counter, Histogram]:
    return REQUESTS.labels(method, route, status), SECONDS.labels(method, route)


class RequestAuthenticator(Protocol):
    async def identify(self, authorization: str | None) -> Identity: ...


@dataclass(frozen=True, slots=True)
class RequestLimits:
    max_header_bytes: int
    max_body_bytes: int
    body_timeout: float


class Edge:
    """An ASGI application around another one. `authenticator` is None when authentication is off."""

    def __init__(self, app: App, *, clock: Clock, limits: RequestLimits, authenticator: RequestAuthenticator | None) -> None:
        self._app = app
        self._clock = clock
        self._limits = limits
        self._authenticator = authenticator
        self.stopping = asyncio.Event()

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        exchange = _Exchange(self, scope, receive, send)
        with structlog.contextvars.bound_contextvars(flow_id=exchange.flow_id), OPEN.track_inprogress():
            try:
                await self._admit(scope)
            except MeantimeError as error:
                await exchange.refuse(error)
                return
            await self._app(scope, exchange.receive, exchange.send)
            await exchange.end_if_stopping()

    async def _admit(self, scope: Any) -> None:
        if "\x00" in scope["path"] or b"%00" in scope["query_string"]:
            raise Malformed("the URL contains the character U+0000, which no name may have")
        size = sum(len(name) + len(value) + 4 for name, value in scope["headers"]) + len(scope["raw_path"])
        if size + len(scope["query_string"]) > self._limits.max_header_bytes:
            raise HeadersTooLarge(f"the request line and headers are over {self._limits.max_header_bytes} bytes")
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length) > self._limits.max_body_bytes:
            raise TooLarge(
                f"the body is over {self._limits.max_body_bytes} bytes", max_body_bytes=self._limits.max_body_bytes
            )
        scope["state"]["identity"] = await self._identify(scope["path"], headers.get(b"authorization"))

    async def _identify(self, path: str, authorization: bytes | None) -> Identity | None:
        if self._authenticator is None:
            return EVERYBODY
        if path in PUBLIC:
            return None
        return await self._authenticator.identify(authorization.decode("latin-1") if authorization else None)


class _Exchange:
    """One request and its answer."""

    def __init__(self, edge: Edge, scope: Any, receive: Receive, send: Send) -> None:
        self._edge = edge
        self._scope = scope
        self._receive = receive
        self._send = send
        self._began = time.perf_counter()
        self._started = self._completed = self._body_read = False
        headers = dict(scope["headers"])
        limits = edge._limits
        self._body = Body(headers.get(b"content-encoding", b""), limits.max_body_bytes, limits.body_timeout)
        given = headers.get(b"x-flow-id", b"").decode("latin-1")
        self.flow_id = given if FLOW_ID.fullmatch(given) else token_hex(16)

    async def receive(self) -> Message:
        if self._body_read:
            return await self._wait_for_the_end()
        message = await self._body.read(self._receive)
        self._body_read = not message.get("more_body", False)
        return message

    async def _wait_for_the_end(self) -> Message:
        """Both a client that goes away and a node that stops end a stream."""
        gone = asyncio.ensure_future(self._receive())
        stopped = asyncio.ensure_future(self._edge.stopping.wait())
        try:
            await asyncio.wait({gone, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            gone.cancel()
            stopped.cancel()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._started = True
            self._stamp(message)
            self._count(message["status"])
        elif message["type"] == "http.response.body":
            self._completed = not message.get("more_body", False)
        await self._send(message)

    def _stamp(self, message: Message) -> None:
        now = str(self._edge._clock.now_ms()).encode()
        message["headers"] = [
            *message.get("headers", ()),
            (b"x-meantime-now", now),
            (b"x-flow-id", self.flow_id.encode("latin-1")),
        ]

    def _count(self, status: int) -> None:
        route = self._scope.get("path_template") or "other"
        requests, seconds = _meters(self._scope["method"], route, status)
        requests.inc()
        seconds.observe(time.perf_counter() - self._began)

    async def refuse(self, error: MeantimeError) -> None:
        answer = rendered(error)
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"content-length", str(len(answer.body)).encode())]
        headers += [(name.lower().encode(), value.encode()) for name, value in answer.headers.items()]
        if answer.status in (413, 431):
            headers.append((b"connection", b"close"))
        await self.send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": answer.body if self._scope["method"] != "HEAD" else b""})

    async def end_if_stopping(self) -> None:
        if self._started and not self._completed and self._edge.stopping.is_set():
            await self.send({"type": "http.response.body", "body": b""})
