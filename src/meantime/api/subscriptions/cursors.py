"""Cursors of subscriptions: what is committed, committing, resetting."""

from typing import Annotated, Any
from uuid import uuid4

import msgspec
from litestar import Response, get, patch, post
from litestar.params import FromPath, HeaderParameter

from meantime.api.bodies import read_object
from meantime.api.dependencies import TheSubscriptions
from meantime.api.identity import AnyRequest
from meantime.api.subscriptions.documents import allowed, objects_in, places_in
from meantime.errors import Malformed
from meantime.streams.subscriptions.commits import commit
from meantime.streams.subscriptions.stream import as_known

RESULT = {True: "committed", False: "outdated"}


class CommittedCursor(msgspec.Struct, frozen=True):
    partition: str
    offset: str
    event_type: str
    cursor_token: str


class Cursors(msgspec.Struct, frozen=True):
    items: list[CommittedCursor]


@get("/subscriptions/{id:str}/cursors", tags=["subscriptions"], summary="What has been committed")
async def show_cursors(request: AnyRequest, subscriptions: TheSubscriptions, id: FromPath[str]) -> Cursors:
    subscription = await allowed(request, subscriptions, id)
    items = []
    for (name, partition), committed in (await subscriptions.store.cursors(subscription.id)).items():
        cursor = as_known(await subscriptions.reading.catalog.entry(name), committed.cursor)
        items.append(CommittedCursor(str(partition), str(cursor), name, str(uuid4())))
    return Cursors(items)


@post("/subscriptions/{id:str}/cursors", tags=["subscriptions"], summary="Commit what has been processed")
async def commit_cursors(
    request: AnyRequest,
    subscriptions: TheSubscriptions,
    id: FromPath[str],
    stream_id: Annotated[str | None, HeaderParameter(name="X-Nakadi-StreamId")] = None,
) -> Response[Any]:
    """204 when every cursor moved; 200 with a result for each when some were outdated."""
    subscription = await allowed(request, subscriptions, id)
    if not stream_id:
        raise Malformed("the header X-Nakadi-StreamId is required")
    items = objects_in((await read_object(request)).get("items"))
    results = await commit(subscriptions, subscription, stream_id, places_in(items))
    if all(results):
        return Response(None, status_code=204)
    committed = [{"cursor": item, "result": RESULT[moved]} for item, moved in zip(items, results, strict=True)]
    return Response({"items": committed}, status_code=200)


@patch("/subscriptions/{id:str}/cursors", tags=["subscriptions"], summary="Reset cursors; streams end", status_code=204)
async def reset_cursors(request: AnyRequest, subscriptions: TheSubscriptions, id: FromPath[str]) -> None:
    subscription = await allowed(request, subscriptions, id)
    await subscriptions.reset(subscription, places_in((await read_object(request)).get("items")))


ROUTES = [show_cursors, commit_cursors, reset_cursors]
