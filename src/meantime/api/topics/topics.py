"""`/topics`: their settings, what is ahead in them, who takes from them. Messages and leases have modules of their own."""

from typing import Any

import msgspec
from litestar import Response, delete, get, post, put
from litestar.enums import MediaType
from litestar.params import FromPath, FromQuery

from meantime.api.dependencies import TheTopics
from meantime.api.identity import AnyRequest, allow, identity_of
from meantime.api.topics import leases as topic_leases
from meantime.api.topics import messages as topic_messages
from meantime.api.topics.forms import RedriveForm, read, topic_view
from meantime.errors import Invalid
from meantime.topics.rules import AVAILABLE, DEAD, PROCESSING, WAITING
from meantime.topics.settings import SettingsChange

MOST_REDRIVEN = 10_000


@put("/topics/{topic:str}", tags=["topics"], summary="Make a topic, or change its settings")
async def put_topic(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> Response[Any]:
    """All settings are optional; an omitted one keeps its value. `bucket_count` cannot change."""
    _allow_making(request, topic)
    made, new = await topics.catalog.put(topic, read(await request.body(), SettingsChange))
    return Response(topic_view(made), status_code=201 if new else 200)


def _allow_making(request: AnyRequest, topic: str) -> None:
    """An application makes the topics of its own retries and dead letters; all others are for admins."""
    application, _, purpose = topic.rpartition(".")
    if not (purpose in ("retry", "dead") and application and identity_of(request).may("produce", application)):
        allow(request, "admin")


@get("/topics", tags=["topics"], summary="All topics")
async def list_topics(request: AnyRequest, topics: TheTopics) -> dict[str, Any]:
    _look(request, None)
    return {"topics": [topic_view(topic) for topic in await topics.catalog.all()]}


@get("/topics/{topic:str}", tags=["topics"], summary="A topic's settings, and how many messages it has")
async def get_topic(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> dict[str, Any]:
    _look(request, topic)
    found = await topics.catalog.get(topic)
    return topic_view(found) | {"counts": msgspec.to_builtins(await topics.counts.counts(found))}


@delete("/topics/{topic:str}", tags=["topics"], summary="Delete a topic with all its messages", status_code=202)
async def delete_topic(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> Response[bytes]:
    """It does not exist any more from now on; its name is free when all is removed."""
    allow(request, "admin")
    await topics.catalog.delete(topic)
    return Response(b"{}", status_code=202, media_type=MediaType.JSON)


@get("/topics/{topic:str}/load", tags=["topics"], summary="What is ahead, slot by slot")
async def load(
    request: AnyRequest,
    topics: TheTopics,
    topic: FromPath[str],
    from_ms: FromQuery[int],
    to_ms: FromQuery[int],
    step_ms: FromQuery[int],
) -> dict[str, Any]:
    """Half-open slots from `from_ms`, at most 10,000; every slot is listed."""
    _look(request, topic)
    found = await topics.catalog.get(topic)
    return {"slots": msgspec.to_builtins(await topics.counts.load(found, from_ms, to_ms, step_ms))}


@get("/topics/{topic:str}/count", tags=["topics"], summary="How many messages there are, by status and range")
async def count(
    request: AnyRequest,
    topics: TheTopics,
    topic: FromPath[str],
    status: FromQuery[str | None] = None,
    from_ms: FromQuery[int | None] = None,
    to_ms: FromQuery[int | None] = None,
) -> dict[str, int]:
    _look(request, topic)
    counts = await topics.counts.counts(await topics.catalog.get(topic), from_ms, to_ms)
    by_status = {WAITING: counts.waiting, PROCESSING: counts.processing, AVAILABLE: counts.available, DEAD: counts.dead}
    if status is not None and status not in by_status:
        raise Invalid(f"status must be one of {', '.join(by_status)}, not {status!r}", field="status")
    return {"count": by_status[status] if status is not None else sum(by_status.values())}


@get("/topics/{topic:str}/consumers", tags=["topics"], summary="The connected consumers, their nodes and buckets")
async def consumers(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> dict[str, Any]:
    _look(request, topic)
    return {"consumers": msgspec.to_builtins(await topics.leasing.consumers(topic))}


@post("/topics/{topic:str}/redrive", tags=["topics"], summary="Send dead messages back", status_code=200)
async def redrive(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> dict[str, Any]:
    """`{to?, limit?}`: dead letters go back to the topic they came from, or to `to`, and start again from the first
    attempt. Answers with how many moved, and how many were skipped because their topic is gone or has that id."""
    allow(request, "admin")
    form = read(await request.body(), RedriveForm)
    limit = MOST_REDRIVEN if form.limit is None else form.limit
    if not 1 <= limit <= MOST_REDRIVEN:
        raise Invalid(f"limit must be from 1 to {MOST_REDRIVEN}", field="limit")
    redriven: dict[str, Any] = msgspec.to_builtins(await topics.dead_letters.redrive(topic, form.to, limit))
    return redriven


def _look(request: AnyRequest, topic: str | None) -> None:
    """Producers and consumers may see what is ahead in a topic, not only operators."""
    identity = identity_of(request)
    if not any(scope.startswith(("produce:", "consume:") if topic is None else "produce:") for scope in identity.scopes):
        identity.require("consume", topic)


ROUTES = [
    put_topic,
    list_topics,
    get_topic,
    delete_topic,
    load,
    count,
    consumers,
    redrive,
    *topic_messages.ROUTES,
    *topic_leases.ROUTES,
]
