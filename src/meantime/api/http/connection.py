"""What connections share: the application that answers, the limits, and who is connected."""

import asyncio
import json
from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Protocol

import structlog

from meantime.api.http.exchange import HttpExchange
from meantime.api.http.limits import BodyBudget, HttpLimits

log = structlog.get_logger(__name__)

REASONS = {status.value: status.phrase for status in HTTPStatus} | {413: "Content Too Large", 422: "Unprocessable Entity"}
LINGER_FOR = 2.0
"""Seconds in which a client whose body was refused may go on sending, so that it reads the answer before a reset."""


def peer_of(transport: asyncio.BaseTransport) -> str:
    """The address at the other end; empty for a Unix socket."""
    found = transport.get_extra_info("peername")
    return str(found[0]) if isinstance(found, tuple) else ""


def speaks_tls(transport: asyncio.BaseTransport) -> bool:
    return transport.get_extra_info("sslcontext") is not None


class HttpConnection(Protocol):
    """A connection as the server sees it when it stops."""

    def stop(self) -> None:
        """Close as soon as nothing is in flight; at once if nothing is."""

    def abort(self) -> None: ...


class Application(Protocol):
    """What answers. `stamp` are the headers that every answer carries, also those that no handler has made."""

    def __call__(self, exchange: HttpExchange) -> Coroutine[Any, Any, None]: ...

    def stamp(self) -> bytes: ...


class Connections:
    """All connections of one server, and what they need to know."""

    def __init__(self, application: Application, limits: HttpLimits, loop: asyncio.AbstractEventLoop) -> None:
        self.application = application
        self.limits = limits
        self.budget = BodyBudget(limits.max_bodies_bytes)
        self.loop = loop
        self.open: set[HttpConnection] = set()
        self.answering: dict[HttpExchange, asyncio.Task[None]] = {}
        self.stopping = False
        self.on_empty: Callable[[], None] | None = None

    def start(self, exchange: HttpExchange) -> None:
        """Answer it in a task of its own."""
        self.answering[exchange] = self.loop.create_task(self._answer(exchange))

    async def _answer(self, exchange: HttpExchange) -> None:
        """Every request comes through here, so the task forgets itself: a callback at its end would cost more."""
        try:
            await self.application(exchange)
        except Exception as error:
            log.error("answer_failed", exc_info=error)
        finally:
            del self.answering[exchange]

    @property
    def full(self) -> bool:
        return len(self.open) >= self.limits.max_connections

    def add(self, connection: HttpConnection) -> None:
        self.open.add(connection)

    def remove(self, connection: HttpConnection) -> None:
        self.open.discard(connection)
        if not self.open and self.on_empty is not None:
            self.on_empty()


def refusal(status: int, detail: str, code: str, *, retryable: bool = False) -> bytes:
    """A problem document for a request that could not be read so far that there is an exchange."""
    document = {
        "type": "about:blank",
        "title": REASONS[status],
        "status": status,
        "detail": detail,
        "code": code,
        "retryable": retryable,
    }
    return json.dumps(document).encode()
