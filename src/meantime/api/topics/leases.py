"""`/topics/{topic}/leases`: what consumers do. The consumer is named by `consumer_id`, in the body or the query; where keys
are asked for, the id belongs to the key that it came with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from meantime.api.call import HttpCall
from meantime.api.http.exchange import HttpExchange
from meantime.api.streaming import NDJSON, LineStream
from meantime.api.topics.forms import (
    LEASE_MS,
    LEASES,
    ClaimForm,
    ConsumerQuery,
    LeaseLimit,
    LeaseTime,
    PullForm,
    ReleaseForm,
    read_claims,
    read_releases,
)
from meantime.api.topics.views import LeasesView, OutcomesView, lease_view
from meantime.clock import Clock
from meantime.errors import Malformed, MeantimeError, Unauthenticated
from meantime.names import check_identifier, is_identifier
from meantime.tasks import start
from meantime.topics.holders import holder_of
from meantime.topics.leasing.receivers import LeaseStream
from meantime.topics.model import Lease, LeaseClaim, Outcome, Refused, Topic
from meantime.topics.rules import NOT_FOUND

KEEP_ALIVE_EVERY = 4.0
_NEWLINE = b"\n"


class PushQuery(ConsumerQuery, forbid_unknown_fields=True):
    buffer: LeaseLimit = 100
    lease_ms: LeaseTime = LEASE_MS


async def pull(call: HttpCall[PullForm, ConsumerQuery]) -> LeasesView:
    """Pull: lease what is due

    `{consumer_id, limit, lease_ms, wait_ms}`: new leases in time order, at once, or when there are any within `wait_ms`.
    """
    asked, leasing = call.form, call.services.topics.leasing
    consumer_id = holder(call, asked.consumer_id or call.query.consumer_id)
    limit = LEASES if asked.limit is None else asked.limit
    lease_ms = LEASE_MS if asked.lease_ms is None else asked.lease_ms
    wait_ms = asked.wait_ms or 0
    pulling = leasing.pull(call.names["topic"], consumer_id, limit, lease_ms, wait_ms)
    leases = await (_while_connected(call.exchange, pulling) if wait_ms else pulling)
    return LeasesView([lease_view(lease) for lease in leases])


async def push(call: HttpCall[None, PushQuery]) -> LineStream:
    """Push: a stream of leases, as messages become due

    `application/x-ndjson`, one lease a line, first those that the consumer still holds; an empty line keeps the connection
    alive. The leases that a consumer holds count against `buffer`. One stream per consumer in the cluster.
    """
    topics, query = call.services.topics, call.query
    consumer_id = holder(call, query.consumer_id)
    opened = AsyncExitStack()
    opening = topics.leasing.stream(call.names["topic"], consumer_id, query.buffer, query.lease_ms)
    stream = await opened.enter_async_context(opening)
    return LineStream(_Leases(stream, opened, topics.clock), media_type=NDJSON)


async def extend(call: HttpCall[bytes, ConsumerQuery]) -> OutcomesView:
    """Let leases end later or sooner

    `{consumer_id, leases: [{id, version, at_ms | after_ms}]}`: one result per lease, in their order.
    """
    return await _claims(call, call.services.topics.holding.extend)


async def release(call: HttpCall[bytes, ConsumerQuery]) -> OutcomesView:
    """Give messages back for later

    `{consumer_id, leases: [{id, version, at_ms | after_ms, reason?}]}`: one result per lease, in their order. Without an
    instant a message is due again when the topic's `retry` says, later with every attempt. `reason` is shown to whoever gets
    the message next, to its owner and in the dead letter.
    """
    return await _claims(call, call.services.topics.holding.release, read_releases)


async def finish(call: HttpCall[bytes, ConsumerQuery]) -> OutcomesView:
    """Delete messages that are done

    `{consumer_id, leases: [{id, version}]}`: one result per lease, in their order.
    """
    return await _claims(call, call.services.topics.holding.delete)


def holder(call: HttpCall[Any, Any], given: str | None) -> str:
    """The consumer, as it was given in the body or the query, with the key that it comes with."""
    if not given:
        raise Unauthenticated("say which consumer you are: give consumer_id")
    return holder_of(check_identifier(given, "consumer id"), call.identity.key_id)


Apply = Callable[[Topic, str, Sequence[LeaseClaim]], Awaitable[list[Outcome]]]
Read = Callable[[bytes], tuple[str | None, Sequence[ClaimForm | Refused]]]


async def _claims(call: HttpCall[bytes, ConsumerQuery], apply: Apply, read: Read = read_claims) -> OutcomesView:
    in_body, forms = read(call.form)
    consumer_id = holder(call, in_body or call.query.consumer_id)
    topic = await call.services.topics.catalog.get(call.names["topic"])
    claims = [_claim(form) for form in forms]
    sound = [claim for claim in claims if isinstance(claim, LeaseClaim)]
    outcomes = iter(await apply(topic, consumer_id, sound) if sound else ())
    return OutcomesView([next(outcomes) if isinstance(claim, LeaseClaim) else claim for claim in claims])


def _claim(form: ClaimForm | Refused) -> LeaseClaim | Outcome:
    """What cannot be an id is the id of no message."""
    if not isinstance(form, ClaimForm) or not is_identifier(form.id):
        return Outcome(form.id, NOT_FOUND)
    reason = form.reason if isinstance(form, ReleaseForm) else None
    return LeaseClaim(form.id, form.version, form.at_ms, form.after_ms, reason)


class _Leases:
    """The lines of one stream: a lease each, as it is handed out; what has ended before it could be sent is left out."""

    def __init__(self, stream: LeaseStream, opened: AsyncExitStack, clock: Clock) -> None:
        self._stream = stream
        self._opened = opened
        self._clock = clock
        self._cut = asyncio.Event()
        self._closing: asyncio.Task[None] | None = None

    async def chunks(self) -> AsyncIterator[bytes]:
        yield _NEWLINE
        while True:
            try:
                leases = await self._stream.next(KEEP_ALIVE_EVERY)
            except MeantimeError:
                self._cut.set()
                return
            now_ms = self._clock.now_ms()
            lines = [msgspec.json.encode(lease_view(lease)) for lease in leases if lease.at_ms > now_ms]
            yield _NEWLINE.join([*lines, b""]) if lines else _NEWLINE

    async def cut(self) -> None:
        await self._cut.wait()

    def close(self) -> None:
        self._closing = self._closing or start(self._opened.aclose(), name="close lease stream")


async def _while_connected(exchange: HttpExchange, work: Coroutine[Any, Any, list[Lease]]) -> list[Lease]:
    """A pull ends with its connection: a client that has disconnected leases nothing. It ends empty when the node stops."""
    working = asyncio.create_task(work, name="pull while connected")
    exchange.when_ending(lambda: _cancel(working))
    try:
        return await working
    except asyncio.CancelledError:
        if not working.cancelled() or not (exchange.gone or exchange.stopping):
            raise
        if exchange.gone:
            raise Malformed("the client has disconnected") from None
        return []
    finally:
        exchange.when_ending(None)
        working.cancel()


def _cancel(working: asyncio.Task[Any]) -> None:
    working.cancel()
