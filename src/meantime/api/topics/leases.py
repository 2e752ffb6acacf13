"""`/topics/{topic}/leases`: what consumers do. The consumer is named by `consumer_id`, in the body or the query."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from typing import Any, TypeVar

import msgspec
from litestar import Response, get, post
from litestar.enums import MediaType
from litestar.params import FromPath, FromQuery

from meantime.api.dependencies import TheTopics
from meantime.api.identity import AnyRequest, allow
from meantime.api.streaming import LineStream
from meantime.api.topics.forms import ClaimForm, PullForm, lease_view, read, read_claims
from meantime.clock import Clock
from meantime.errors import Malformed, MeantimeError, Unauthenticated
from meantime.names import check_identifier, is_identifier
from meantime.tasks import start
from meantime.topics.leasing.receivers import LeaseStream
from meantime.topics.model import LeaseClaim, Outcome, Refused, Topic
from meantime.topics.rules import NOT_FOUND
from meantime.topics.topics import Topics

KEEP_ALIVE_EVERY = 4.0
NDJSON = "application/x-ndjson"
_NEWLINE = b"\n"

Answer = TypeVar("Answer")


@post("/topics/{topic:str}/leases", tags=["topics"], summary="Pull: lease what is due", status_code=200)
async def pull(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> Response[bytes]:
    """`{consumer_id, limit 10, lease_ms 30000, wait_ms 0}`: new leases in time order, at once or when there are any."""
    form = read(await request.body(), PullForm)
    consumer_id = consumer(request, topic, form.consumer_id)
    wait_ms = _or(form.wait_ms, 0)
    pulling = topics.leasing.pull(topic, consumer_id, _or(form.limit, 10), _or(form.lease_ms, 30_000), wait_ms)
    leases = await (_while_connected(request, pulling) if wait_ms else pulling)
    return _json({"leases": [lease_view(lease) for lease in leases]})


@get("/topics/{topic:str}/leases", tags=["topics"], summary="Push: a stream of leases, as messages become due")
async def push(
    request: AnyRequest,
    topics: TheTopics,
    topic: FromPath[str],
    buffer: FromQuery[int] = 100,
    lease_ms: FromQuery[int] = 30_000,
) -> LineStream:
    """`application/x-ndjson`, one lease a line, first those that the consumer still holds; an empty line keeps the
    connection alive. The leases that a consumer holds count against `buffer`. One stream per consumer in the cluster."""
    consumer_id = consumer(request, topic, None)
    opened = AsyncExitStack()
    stream = await opened.enter_async_context(topics.leasing.stream(topic, consumer_id, buffer, lease_ms))
    return LineStream(_Leases(stream, opened, topics.clock), media_type=NDJSON)


@post("/topics/{topic:str}/leases/extend", tags=["topics"], summary="Let leases end later or sooner", status_code=200)
async def extend(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> Response[bytes]:
    """`{consumer_id, leases: [{id, version, at_ms | after_ms}]}`: one result per lease, in their order."""
    return await _claims(request, topics, topic, topics.holding.extend)


@post("/topics/{topic:str}/leases/release", tags=["topics"], summary="Give messages back for later", status_code=200)
async def release(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> Response[bytes]:
    """`{consumer_id, leases: [{id, version, at_ms | after_ms}]}`: one result per lease, in their order."""
    return await _claims(request, topics, topic, topics.holding.release)


@post("/topics/{topic:str}/leases/delete", tags=["topics"], summary="Delete messages that are done", status_code=200)
async def finish(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> Response[bytes]:
    """`{consumer_id, leases: [{id, version}]}`: one result per lease, in their order."""
    return await _claims(request, topics, topic, topics.holding.delete)


def consumer(request: AnyRequest, topic: str, in_body: str | None) -> str:
    """The id of the consumer, from the body or the query."""
    consumer_id = in_body or request.query_params.get("consumer_id")
    if not consumer_id:
        raise Unauthenticated("say which consumer you are: give consumer_id")
    check_identifier(consumer_id, "consumer id")
    allow(request, "consume", topic)
    return consumer_id


Apply = Callable[[Topic, str, Sequence[LeaseClaim]], Awaitable[list[Outcome]]]


async def _claims(request: AnyRequest, topics: Topics, name: str, apply: Apply) -> Response[bytes]:
    in_body, forms = read_claims(await request.body())
    consumer_id = consumer(request, name, in_body)
    topic = await topics.catalog.get(name)
    claims = [_claim(form) for form in forms]
    sound = [claim for claim in claims if isinstance(claim, LeaseClaim)]
    outcomes = iter(await apply(topic, consumer_id, sound) if sound else ())
    return _json({"results": [next(outcomes) if isinstance(claim, LeaseClaim) else claim for claim in claims]})


def _claim(form: ClaimForm | Refused) -> LeaseClaim | Outcome:
    """What cannot be an id is the id of no message."""
    if not isinstance(form, ClaimForm) or not is_identifier(form.id):
        return Outcome(form.id, NOT_FOUND)
    return LeaseClaim(form.id, form.version, form.at_ms, form.after_ms)


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


async def _while_connected(request: AnyRequest, work: Awaitable[Answer]) -> Answer:
    """A pull ends with its connection: a client that has disconnected leases nothing."""
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({working, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise Malformed("the client has disconnected")
        return working.result()
    finally:
        working.cancel()
        gone.cancel()


async def _disconnected(request: AnyRequest) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _json(document: Any) -> Response[bytes]:
    return Response(msgspec.json.encode(document), media_type=MediaType.JSON)


ROUTES = [pull, push, extend, release, finish]
