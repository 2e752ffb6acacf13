"""Cursors of subscriptions: what is committed, committing, resetting."""

from typing import Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import Meta

from meantime.access.authorization import ADMINS
from meantime.api.call import Answer, HttpCall
from meantime.api.subscriptions.documents import CommittedCursor, SubscribedCursor, allowed, objects_in, places_in, shown
from meantime.errors import Malformed
from meantime.streams.subscriptions import commits
from meantime.streams.subscriptions.stream import as_known

RESULT = {True: "committed", False: "outdated"}


class StreamId(msgspec.Struct):
    stream_id: Annotated[str, Meta(description="That of the answer whose batches are committed.")] = msgspec.field(
        name="X-Nakadi-StreamId"
    )


class Cursors(msgspec.Struct, frozen=True):
    items: list[CommittedCursor]


class CommitResultView(msgspec.Struct, frozen=True):
    """`cursor` is as it was sent."""

    cursor: SubscribedCursor
    result: Annotated[str, Meta(extra_json_schema={"enum": list(RESULT.values())})]


class CommitResults(msgspec.Struct, frozen=True):
    items: list[CommitResultView]


async def show(call: HttpCall[None, None]) -> Cursors:
    """What has been committed"""
    subscription, subscriptions = await shown(call), call.services.streams.subscriptions
    items = []
    for (name, partition), committed in (await subscriptions.store.cursors(subscription.id)).items():
        cursor = as_known(await subscriptions.reading.catalog.entry(name), committed.cursor)
        items.append(CommittedCursor(str(partition), str(cursor), name, str(uuid4())))
    return Cursors(items)


async def commit(call: HttpCall[dict[str, Any], None]) -> Answer:
    """Commit what has been processed

    204 when every cursor moved; 200 with a result for each when some were outdated; 403 with another key than the one
    that opened the stream.
    """
    subscription = await allowed(call)
    stream_id = call.header(b"x-nakadi-streamid")
    if not stream_id:
        raise Malformed("the header X-Nakadi-StreamId is required")
    items = objects_in(call.form.get("items"))
    subscriptions, key_id = call.services.streams.subscriptions, call.identity.key_id
    results = await commits.commit(subscriptions, subscription, stream_id, places_in(items), key_id)
    if all(results):
        return Answer(204)
    committed = [{"cursor": item, "result": RESULT[moved]} for item, moved in zip(items, results, strict=True)]
    return Answer(200, {"items": committed})


async def reset(call: HttpCall[dict[str, Any], None]) -> Answer:
    """Reset cursors; streams end

    The next streams go on from here. Partitions that are not named keep what is committed.
    """
    subscription, places = await allowed(call, ADMINS), places_in(call.form.get("items"))
    await call.services.streams.subscriptions.reset(subscription, places)
    call.act.count, call.act.detail = len(places), {"event_types": list(subscription.event_types)}
    return Answer(204)
