"""`POST /event-types/{name}/events`: publish a batch. The hottest route, so it touches the body's bytes only once."""

import asyncio
from typing import Any

import msgspec

from meantime.api.call import Answer, HttpCall
from meantime.api.http.exchange import joined
from meantime.streams.publishing.records import BatchItemResponse, BatchRejected

Events = list[dict[str, Any]]
Items = list[BatchItemResponse]

ENCODED_AT_ONCE = 2000


async def publish(call: HttpCall[bytes, None]) -> Answer:
    """Publish a batch of events

    A JSON array of events, each of at most 999,000 bytes. 200 and no body when all are written. 422 with an item for each
    event when some are not valid: then nothing was written. 207 with the same items when the storage refused some.
    """
    publishing = call.services.streams.publisher.publish(call.names["name"], call.form, call.flow_id)
    call.form = b""  # held by the publisher alone, which lets a large one go early
    try:
        items = await publishing
    except BatchRejected as rejected:
        return Answer(422, await encoded(rejected.items), refusal="invalid")
    return Answer(200) if items is None else Answer(207, await encoded(items))


async def encoded(items: Items) -> bytes:
    """As JSON. Of very many, some at a time: others have their turn in between. They are let go in the same way."""
    if len(items) <= ENCODED_AT_ONCE:
        return msgspec.json.encode(items)
    pieces, size, before = list[bytes](), 0, b"["
    for first in range(0, len(items), ENCODED_AT_ONCE):
        pieces.append(before + msgspec.json.encode(items[first : first + ENCODED_AT_ONCE])[1:-1])
        size, before = size + len(pieces[-1]), b","
        await asyncio.sleep(0)
    while items:
        del items[-ENCODED_AT_ONCE:]
        await asyncio.sleep(0)
    return await joined([*pieces, b"]"], size)
