"""The two thin shells around the core: one sends with `httpx.Client`, one with `httpx.AsyncClient`.

`send` carries out a call to its end, `stream` opens a stream; both follow what the exchange says. `method` and
`async_method` turn a function that builds a call into a method of a client, keeping its signature, types and docstring.
"""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from ssl import SSLContext
from threading import Lock
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

import httpx

from meantime.sdk.calls.call import Call, Response
from meantime.sdk.core import Core, Done, Pause, Request, reason
from meantime.sdk.http.connection import CONNECT_FOR, ConnectionPool, is_direct
from meantime.sdk.http.stream_connection import StreamConnections
from meantime.sdk.node_urls import is_secure

T = TypeVar("T")
P = ParamSpec("P")
Opened = tuple[Response, AsyncIterator[bytes]]

#: Failures after which it is certain that no node has seen the request.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=15)
#: Nodes on this machine are never asked through a proxy of the environment.
DIRECT: dict[str, None] = {"all://127.0.0.1": None, "all://localhost": None, "all://[::1]": None}


class StreamBroken(Exception):
    """The connection of an open stream failed; opening it again may help."""


@dataclass(frozen=True, slots=True)
class ResponseStream:
    headers: Mapping[str, str]
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class AsyncResponseStream:
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


H = TypeVar("H", httpx.Client, httpx.AsyncClient)


class ByScheme(Generic[H]):
    """One httpx client for `https://` nodes, which verifies them, and one for all others. Each is made when it is needed:
    to load the trusted certificates takes longer than all else at the start."""

    def __init__(self, make: Callable[[SSLContext | bool], H], verify: SSLContext | bool) -> None:
        self._make: Callable[[SSLContext | bool], H] = make
        self._verify = verify
        self._made: dict[bool, H] = {}
        self._making = Lock()
        self._closed = False

    def of(self, url: str) -> H:
        secure = is_secure(url)
        with self._making:
            if self._closed:
                raise RuntimeError("the client has been closed")
            if secure not in self._made:
                self._made[secure] = self._make(self._verify if secure else False)
            return self._made[secure]

    def close(self) -> list[H]:
        """What was made and has to be closed; nothing is made any more."""
        with self._making:
            self._closed = True
            return list(self._made.values())


class Sender:
    """Sends calls and blocks until they are done. May be used by many threads."""

    def __init__(self, core: Core, verify: SSLContext | bool, transport: httpx.BaseTransport | None) -> None:
        self.core = core
        self._clients = ByScheme(
            lambda trust: httpx.Client(verify=trust, transport=transport, limits=LIMITS, mounts=DIRECT), verify
        )

    def send(self, call: Call[T], *, retry_for: float | None = None) -> T:
        exchange = self.core.begin(call, retry_for=retry_for)
        while True:
            outcome: Done[T] | Pause
            try:
                request = exchange.request()
                response = self._clients.of(request.url).request(**_arguments(request))
            except httpx.TransportError as error:
                outcome = exchange.failed(error, arrived=not isinstance(error, NEVER_SENT))
            else:
                outcome = exchange.answered(_answer(response))
            if isinstance(outcome, Done):
                return outcome.value
            time.sleep(outcome.seconds)

    @contextmanager
    def stream(self, call: Call[Any], *, silence_for: float) -> Iterator[ResponseStream]:
        exchange = self.core.begin(call, retry_for=self.core.retries.reconnect_for)
        while True:
            with ExitStack() as opened:
                outcome: Done[Any] | Pause
                try:
                    request = exchange.request()
                    http = self._clients.of(request.url)
                    response = opened.enter_context(http.stream(**_arguments(request, silence_for)))
                    if response.is_error:
                        response.read()
                except httpx.TransportError as error:
                    outcome = exchange.failed(error, arrived=False)
                else:
                    outcome = exchange.answered(_answer(response, whole=response.is_error))
                if isinstance(outcome, Done):
                    yield ResponseStream(_headers(response), _chunks(response))
                    return
            time.sleep(outcome.seconds)

    def close(self) -> None:
        for client in self._clients.close():
            client.close()


class AsyncSender:
    """Sends calls without blocking the event loop."""

    def __init__(self, core: Core, verify: SSLContext | bool, transport: httpx.AsyncBaseTransport | None) -> None:
        self.core = core
        self._clients = ByScheme(
            lambda trust: httpx.AsyncClient(verify=trust, transport=transport, limits=LIMITS, mounts=DIRECT), verify
        )
        self._connections = ConnectionPool()
        self._streams = StreamConnections()
        self._direct: dict[str, bool] = {}
        self._may_be_direct = transport is None

    async def send(self, call: Call[T], *, retry_for: float | None = None) -> T:
        exchange = self.core.begin(call, retry_for=retry_for)
        while True:
            outcome: Done[T] | Pause
            try:
                answer = await self._ask(exchange.request())
            except httpx.TransportError as error:
                outcome = exchange.failed(error, arrived=not isinstance(error, NEVER_SENT))
            else:
                outcome = exchange.answered(answer)
            if isinstance(outcome, Done):
                return outcome.value
            await asyncio.sleep(outcome.seconds)

    async def _ask(self, request: Request) -> Response:
        if self._is_direct(request.url):
            return await self._connections.request(request)
        return _answer(await self._clients.of(request.url).request(**_arguments(request)))

    def _is_direct(self, url: str) -> bool:
        """Each node is judged by itself, once: what the environment says of proxies takes long to read."""
        node = url[: url.find("/", url.find("//") + 2)]
        if node not in self._direct:
            self._direct[node] = self._may_be_direct and is_direct(node)
        return self._direct[node]

    @asynccontextmanager
    async def stream(self, call: Call[Any], *, silence_for: float) -> AsyncIterator[AsyncResponseStream]:
        exchange = self.core.begin(call, retry_for=self.core.retries.reconnect_for)
        while True:
            async with AsyncExitStack() as stack:
                outcome: Done[Any] | Pause
                try:
                    answer, chunks = await stack.enter_async_context(self._open(exchange.request(), silence_for))
                except httpx.TransportError as error:
                    outcome = exchange.failed(error, arrived=False)
                else:
                    outcome = exchange.answered(answer)
                if isinstance(outcome, Done):
                    yield AsyncResponseStream(answer.headers, _async_chunks(chunks))
                    return
            await asyncio.sleep(outcome.seconds)

    def _open(self, request: Request, silence_for: float) -> AbstractAsyncContextManager[Opened]:
        if self._is_direct(request.url):
            return self._streams.opened(request, silence_for)
        return self._open_with_httpx(request, silence_for)

    @asynccontextmanager
    async def _open_with_httpx(self, request: Request, silence_for: float) -> AsyncIterator[Opened]:
        async with self._clients.of(request.url).stream(**_arguments(request, silence_for)) as response:
            if response.is_error:
                await response.aread()
            yield _answer(response, whole=response.is_error), response.aiter_raw()

    async def aclose(self) -> None:
        self._connections.close()
        self._streams.close()
        for client in self._clients.close():
            await client.aclose()


def _chunks(response: httpx.Response) -> Iterator[bytes]:
    try:
        yield from response.iter_raw()
    except httpx.TransportError as error:
        raise StreamBroken(reason(error)) from error


async def _async_chunks(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    try:
        async for chunk in chunks:
            yield chunk
    except httpx.TransportError as error:
        raise StreamBroken(reason(error)) from error


def _arguments(request: Request, silence_for: float | None = None) -> dict[str, Any]:
    timeout = httpx.Timeout(silence_for or request.answer_for, connect=CONNECT_FOR)
    return {
        "method": request.method,
        "url": request.url,
        "headers": request.headers,
        "content": request.content,
        "timeout": timeout,
    }


def _answer(response: httpx.Response, *, whole: bool = True) -> Response:
    return Response(response.status_code, _headers(response), response.content if whole else b"")


def _headers(response: httpx.Response) -> Mapping[str, str]:
    return {name.lower(): value for name, value in response.headers.items()}


def method(build: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], T]:
    def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = self.send(build(*args, **kwargs))
        return result

    return _like(build, call)


def async_method(build: Callable[P, Call[T]]) -> Callable[Concatenate[Any, P], Coroutine[Any, Any, T]]:
    async def call(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await self.send(build(*args, **kwargs))
        return result

    return _like(build, call)


C = TypeVar("C", bound=Callable[..., Any])


def _like(build: Callable[..., Any], call: C) -> C:
    """Give a method the name, the documentation and the signature of what it was made from."""
    parameters = inspect.signature(build).parameters.values()
    owner = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    call.__name__ = call.__qualname__ = build.__name__
    call.__doc__ = build.__doc__
    call.__dict__["__signature__"] = inspect.Signature([owner, *parameters])
    return call
