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
from typing import Any, Concatenate, ParamSpec, TypeVar

import httpx

from meantime.sdk.calls.call import Answer, Call
from meantime.sdk.core import Core, Done, Pause, Request, reason
from meantime.sdk.http.connection import CONNECT_FOR, Wires, direct
from meantime.sdk.http.streaming import Streams

T = TypeVar("T")
P = ParamSpec("P")
Opened = tuple[Answer, AsyncIterator[bytes]]

#: Failures after which it is certain that no node has seen the request.
NEVER_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.UnsupportedProtocol)
LIMITS = httpx.Limits(max_connections=1000, max_keepalive_connections=100, keepalive_expiry=15)
#: Nodes on this machine are never asked through a proxy of the environment.
DIRECT: dict[str, None] = {"all://127.0.0.1": None, "all://localhost": None, "all://[::1]": None}


class StreamBroken(Exception):
    """The connection of an open stream failed; opening it again may help."""


@dataclass(frozen=True, slots=True)
class Stream:
    headers: Mapping[str, str]
    chunks: Iterator[bytes]


@dataclass(frozen=True, slots=True)
class AsyncStream:
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Sender:
    """Sends calls and blocks until they are done. May be used by many threads."""

    def __init__(self, core: Core, verify: SSLContext | bool, transport: httpx.BaseTransport | None) -> None:
        self.core = core
        self._http = httpx.Client(verify=_trust(core, verify), transport=transport, limits=LIMITS, mounts=DIRECT)

    def send(self, call: Call[T], *, retry_for: float | None = None) -> T:
        exchange = self.core.begin(call, retry_for=retry_for)
        while True:
            outcome: Done[T] | Pause
            try:
                response = self._http.request(**_arguments(exchange.request()))
            except httpx.TransportError as error:
                outcome = exchange.failed(error, arrived=not isinstance(error, NEVER_SENT))
            else:
                outcome = exchange.answered(_answer(response))
            if isinstance(outcome, Done):
                return outcome.value
            time.sleep(outcome.seconds)

    @contextmanager
    def stream(self, call: Call[Any], *, silence_for: float) -> Iterator[Stream]:
        exchange = self.core.begin(call, retry_for=self.core.retries.reconnect_for)
        while True:
            with ExitStack() as opened:
                outcome: Done[Any] | Pause
                try:
                    arguments = _arguments(exchange.request(), silence_for)
                    response = opened.enter_context(self._http.stream(**arguments))
                    if response.is_error:
                        response.read()
                except httpx.TransportError as error:
                    outcome = exchange.failed(error, arrived=False)
                else:
                    outcome = exchange.answered(_answer(response, whole=response.is_error))
                if isinstance(outcome, Done):
                    yield Stream(_headers(response), _chunks(response))
                    return
            time.sleep(outcome.seconds)

    def close(self) -> None:
        self._http.close()


class AsyncSender:
    """Sends calls without blocking the event loop."""

    def __init__(self, core: Core, verify: SSLContext | bool, transport: httpx.AsyncBaseTransport | None) -> None:
        self.core = core
        self._http = httpx.AsyncClient(verify=_trust(core, verify), transport=transport, limits=LIMITS, mounts=DIRECT)
        self._wires = Wires() if transport is None and all(map(direct, core.urls)) else None
        self._streams = Streams()

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

    async def _ask(self, request: Request) -> Answer:
        if self._wires is not None:
            return await self._wires.request(request)
        return _answer(await self._http.request(**_arguments(request)))

    @asynccontextmanager
    async def stream(self, call: Call[Any], *, silence_for: float) -> AsyncIterator[AsyncStream]:
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
                    yield AsyncStream(answer.headers, _async_chunks(chunks))
                    return
            await asyncio.sleep(outcome.seconds)

    def _open(self, request: Request, silence_for: float) -> AbstractAsyncContextManager[Opened]:
        if self._wires is not None:
            return self._streams.opened(request, silence_for)
        return self._open_with_httpx(request, silence_for)

    @asynccontextmanager
    async def _open_with_httpx(self, request: Request, silence_for: float) -> AsyncIterator[Opened]:
        async with self._http.stream(**_arguments(request, silence_for)) as response:
            if response.is_error:
                await response.aread()
            yield _answer(response, whole=response.is_error), response.aiter_raw()

    async def aclose(self) -> None:
        if self._wires is not None:
            self._wires.close()
        self._streams.close()
        await self._http.aclose()


def _trust(core: Core, verify: SSLContext | bool) -> SSLContext | bool:
    """Certificates are loaded only where they are looked at: it takes longer than all else at the start."""
    return verify if any(url.startswith("https:") for url in core.urls) else False


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


def _answer(response: httpx.Response, *, whole: bool = True) -> Answer:
    return Answer(response.status_code, _headers(response), response.content if whole else b"")


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
