"""`/topics/{topic}/messages`: what producers do. The group that asks is in `X-Producer-Group`."""

from typing import Any

import msgspec
from litestar import Response, delete, get, patch, post
from litestar.enums import MediaType
from litestar.params import FromPath, FromQuery

from meantime.api.dependencies import TheTopics
from meantime.api.identity import AnyRequest, allow, producer_group
from meantime.api.topics.forms import MoveForm, message_view, read, read_drafts, read_ids
from meantime.errors import Forbidden, Invalid, Unauthenticated
from meantime.names import check_identifier, is_identifier
from meantime.topics.model import Outcome
from meantime.topics.rules import NOT_FOUND

MOST_LISTED = 1_000

# `delete` is also the name of a way to delete many at once; a message may bear it all the same.
BULK = "delete"
MESSAGE = ["/topics/{topic:str}/messages/{message_id:str}", f"/topics/{{topic:str}}/messages/{BULK}"]


@post("/topics/{topic:str}/messages", tags=["topics"], summary="Create messages")
async def create(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> Response[bytes]:
    """`{"messages": [{id?, at_ms | after_ms, body | body_b64}]}`. 201 when all were created, else 207; one result per
    message, in their order. An id that exists is not created again."""
    group = producer_group(request)
    results = await topics.producing.create(topic, group, read_drafts(await request.body()))
    all_created = all(result.status == "created" for result in results)
    return _json({"results": results}, 201 if all_created else 207)


@get("/topics/{topic:str}/messages", tags=["topics"], summary="The messages of a producer group")
async def list_messages(
    request: AnyRequest, topics: TheTopics, topic: FromPath[str], after: FromQuery[str] = "", limit: FromQuery[int] = 100
) -> Response[bytes]:
    """Ordered by id, from the one after `after`; `next` continues the list."""
    wanted = request.query_params.get("producer_group")
    group = producer_group(request)
    if wanted not in (None, "", group):
        raise Forbidden("only the owner may list the messages of a producer group")
    if not 1 <= limit <= MOST_LISTED:
        raise Invalid(f"limit must be from 1 to {MOST_LISTED}", field="limit")
    if after:
        check_identifier(after, "message id")
    found = await topics.producing.messages(topic, group, after, limit)
    now_ms = topics.clock.now_ms()
    following = found[-1].id if len(found) == limit else None
    return _json({"messages": [message_view(message, now_ms) for message in found], "next": following})


@get(MESSAGE, tags=["topics"], summary="A message, for its owner or holder")
async def get_message(
    request: AnyRequest,
    topics: TheTopics,
    topic: FromPath[str],
    message_id: FromPath[str] = BULK,
    consumer_id: FromQuery[str | None] = None,
) -> Response[bytes]:
    group = producer_group(request) if request.headers.get("X-Producer-Group") else None
    if not group and not consumer_id:
        raise Unauthenticated("say who you are: send X-Producer-Group or consumer_id")
    if consumer_id:
        check_identifier(consumer_id, "consumer id")
        allow(request, "consume", topic)
    message = await topics.producing.message(topic, message_id, group, consumer_id or None)
    return _json(message_view(message, topics.clock.now_ms()))


@patch(MESSAGE, tags=["topics"], summary="Move a message in time")
async def move(
    request: AnyRequest, topics: TheTopics, topic: FromPath[str], message_id: FromPath[str] = BULK
) -> Response[bytes]:
    """`{at_ms | after_ms, version?}`, by its owner. 409 `leased` while a consumer has it, `stale_version` if it changed."""
    group = producer_group(request)
    form = read(await request.body(), MoveForm)
    outcome = await topics.producing.move(topic, message_id, group, form.at_ms, form.after_ms, form.version)
    return _json({"id": message_id, "version": outcome.version, "at_ms": outcome.at_ms})


@delete(MESSAGE, tags=["topics"], summary="Delete a message", status_code=204)
async def delete_message(
    request: AnyRequest,
    topics: TheTopics,
    topic: FromPath[str],
    message_id: FromPath[str] = BULK,
    version: FromQuery[int | None] = None,
) -> None:
    """By its owner; again is fine. 409 `leased` while a consumer has it."""
    await topics.producing.delete(topic, message_id, producer_group(request), version)


@post(f"/topics/{{topic:str}}/messages/{BULK}", tags=["topics"], summary="Delete messages", status_code=200)
async def delete_messages(request: AnyRequest, topics: TheTopics, topic: FromPath[str]) -> Response[bytes]:
    """`{"ids": [...]}`, by their owner; one result per id, in their order."""
    group = producer_group(request)
    ids = read_ids(await request.body())
    sound = [one for one in ids if one is not None and is_identifier(one)]
    outcomes = iter(await topics.producing.delete_many(topic, group, sound))
    results = [next(outcomes) if one is not None and is_identifier(one) else Outcome(one, NOT_FOUND) for one in ids]
    return _json({"results": [{"id": result.id, "status": result.status} for result in results]})


def _json(document: Any, status_code: int = 200) -> Response[bytes]:
    return Response(msgspec.json.encode(document), status_code=status_code, media_type=MediaType.JSON)


ROUTES = [create, list_messages, get_message, move, delete_message, delete_messages]
