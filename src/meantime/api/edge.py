"""The edge: every request comes in here, finds its row of the table, and goes out as an answer.

Going in: who is asking and whether they may, the names in the path, the query, the body. Coming out: `X-Meantime-Now`,
`X-Flow-Id`, problem documents, metrics.
"""

import re
import time
from collections.abc import Sequence
from functools import partial
from random import getrandbits
from typing import Any, Protocol

from prometheus_client import Gauge

from meantime import logs
from meantime.access.keys import StillAllowed
from meantime.access.scopes import Identity
from meantime.api.call import Answer, HttpCall
from meantime.api.client_clocks import CLIENT_CLOCKS, SENT
from meantime.api.http.browsers import GUARDED, SAFE, check_origin, is_of_console, session_token
from meantime.api.http.exchange import Headers, HttpExchange
from meantime.api.ignored_fields import ignored_fields, ignored_parameters
from meantime.api.meters import METERS, REFUSALS
from meantime.api.operators.acts import AuditRecorder, record_act
from meantime.api.problems import MEDIA_TYPE, rendered, rendered_bug
from meantime.api.routing import MethodNotAllowed, Route, Router
from meantime.api.services import Services
from meantime.api.streaming import LineStream
from meantime.clock import Clock
from meantime.errors import Malformed, MeantimeError
from meantime.json_depth import check_depth
from meantime.metrics import OTHER, REGISTRY

FLOW_ID = re.compile(rb"[\x21-\x7e]{1,128}")

OPEN = Gauge("meantime_http_requests_open", "Requests being worked on, open streams included.", registry=REGISTRY)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestAuthenticator(Protocol):
    async def identify(self, authorization: str | None, peer: str) -> Identity: ...

    async def identify_session(self, token: str, peer: str) -> Identity: ...

    def enter(self, identity: Identity, request: HttpExchange) -> None: ...

    def watch(self, request: HttpExchange, still_allowed: StillAllowed) -> None: ...

    def leave(self, identity: Identity, request: HttpExchange) -> None: ...


class Edge:
    """The application that the HTTP server calls. `authenticator` is None when authentication is off; `audit` writes down
    what operators do."""

    def __init__(
        self,
        router: Router,
        services: Services,
        *,
        clock: Clock,
        authenticator: RequestAuthenticator | None,
        audit: AuditRecorder | None = None,
    ) -> None:
        self._router = router
        self._services = services
        self._clock = clock
        self._authenticator = authenticator
        self._audit = audit
        self._open = 0
        OPEN.set_function(lambda: self._open)

    async def __call__(self, exchange: HttpExchange) -> None:
        began = time.perf_counter()
        if SENT in exchange.headers:
            CLIENT_CLOCKS.observe(exchange.headers, self._clock.now_ms())
        given = exchange.headers.get(b"x-flow-id")
        flow_id = given.decode() if given is not None and FLOW_ID.fullmatch(given) else _new_flow_id()
        logs.FLOW_ID.set(flow_id)
        self._open += 1
        route: Route | None = None
        call: HttpCall[Any, Any] | None = None
        detail = ""
        try:
            try:
                route, names = self._find(exchange)
                call = HttpCall(exchange, names, self._services, flow_id)
                answer = await self._answer(route, call)
            except MeantimeError as error:
                answer, detail = _problem(error), error.detail
            except Exception as error:
                answer = _bug(exchange, error)
            method = exchange.method if exchange.method in METHODS else OTHER
            path = route.path if route else OTHER
            status = 200 if isinstance(answer, LineStream) else answer.status
            METERS.of(method, path, status).count(time.perf_counter() - began)
            if status >= 400 and isinstance(answer, Answer):
                REFUSALS.add((method, path, answer.refusal), status, detail, flow_id)
            await self._send(exchange, answer, flow_id, call.ignored if call else ())
        finally:
            self._open -= 1
            if self._authenticator is not None and call is not None:
                self._authenticator.leave(call.identity, exchange)
            exchange.over()

    def stamp(self) -> bytes:
        return b"x-meantime-now: %d\r\nx-flow-id: %b\r\n" % (self._clock.now_ms(), _new_flow_id().encode())

    def _find(self, exchange: HttpExchange) -> tuple[Route, Any]:
        if exchange.failed is not None:
            raise exchange.failed
        if "%00" in exchange.path or b"%00" in exchange.query:
            raise Malformed("the URL contains the character U+0000, which no name may have")
        method = exchange.method
        if method != "HEAD":
            return self._router.find(method, exchange.path)
        route, names = self._router.find("GET", exchange.path)
        if route.streams:
            raise MethodNotAllowed(method, ["GET"])
        return route, names

    async def _answer(self, route: Route, call: HttpCall[Any, Any]) -> Answer | LineStream:
        if route.scope is not None:
            if self._authenticator is not None:
                await self._identify(call, self._authenticator)
            else:
                check_origin(call.exchange.method, call.exchange.headers, proof=False)
            route.scope.require(call.identity, call.names, call.exchange)
            if route.scope.also is not None:
                await route.scope.also(call)
                call.still_allowed.append(partial(route.scope.also, call))
        call.query = route.read_query(call.exchange.query)
        if call.exchange.query:
            call.ignored = ignored_parameters(route, call.exchange.query)
        if route.takes is not None:
            body = await call.exchange.body()
            await check_depth(body)
            call.form = route.takes.read(body)
            if route.takes.known:
                call.ignored = [*call.ignored, *ignored_fields(route, call.form)]
            del body  # a handler that is done with a large one can let it go
        answer = await route.handler(call)
        if self._audit is not None and route.method not in SAFE:
            await record_act(self._audit, route, call)
        if isinstance(answer, LineStream) and self._authenticator is not None and call.still_allowed:
            self._authenticator.watch(call.exchange, partial(_all_allowed, call.still_allowed))
        return answer if isinstance(answer, Answer | LineStream) else Answer(route.status, answer)

    async def _identify(self, call: HttpCall[Any, Any], authenticator: RequestAuthenticator) -> None:
        """By the key that was sent, else by the session in the cookie."""
        exchange, authorization = call.exchange, call.header(b"authorization")
        token = session_token(exchange.headers) if authorization is None else None
        if token is None:
            call.identity = await authenticator.identify(authorization, exchange.peer())
        else:
            check_origin(exchange.method, exchange.headers, proof=True)
            again = partial(authenticator.identify_session, token, exchange.peer())
            call.identity = await again()
            call.still_allowed.append(again)
        authenticator.enter(call.identity, exchange)

    async def _send(self, exchange: HttpExchange, answer: Answer | LineStream, flow_id: str, ignored: Sequence[str]) -> None:
        now = b"%d" % self._clock.now_ms()
        headers: Headers = [(b"x-meantime-now", now), (b"x-flow-id", flow_id.encode())]
        if is_of_console(exchange.path):
            headers += GUARDED
        if answer.headers:
            headers += [(name.lower().encode(), value.encode("latin-1")) for name, value in answer.headers.items()]
        if ignored:
            headers.append((b"x-meantime-ignored", ", ".join(ignored).encode()))
        if isinstance(answer, LineStream):
            headers += [(b"content-type", answer.media_type.encode()), (b"cache-control", b"no-store")]
            await answer.send(exchange, headers)
        else:
            if answer.body:
                headers.append((b"content-type", answer.media_type))
            exchange.send(answer.status, headers, answer.body)


async def _all_allowed(checks: Sequence[StillAllowed]) -> None:
    for check in checks:
        await check()


def _new_flow_id() -> str:
    """Different from all others, which needs no secret randomness."""
    return f"{getrandbits(128):032x}"


def _problem(error: MeantimeError) -> Answer:
    found = rendered(error)
    if isinstance(error, MethodNotAllowed):
        allow = {"Allow": ", ".join(["OPTIONS", *error.allowed])}
        if error.method == "OPTIONS":
            return Answer(204, headers=allow)
        return Answer(found.status, found.body, headers=allow, media_type=MEDIA_TYPE, refusal=error.code)
    return Answer(found.status, found.body, headers=found.headers, media_type=MEDIA_TYPE, refusal=error.code)


def _bug(exchange: HttpExchange, error: Exception) -> Answer:
    found = rendered_bug(exchange.method, exchange.path, error)
    return Answer(found.status, found.body, media_type=MEDIA_TYPE, refusal="internal")
