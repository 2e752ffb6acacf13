"""`POST /event-types/{name}/events`: publish a batch. The hottest route, so it touches the body's bytes only once."""

from typing import Any

from meantime.api.call import Answer, HttpCall
from meantime.streams.publishing.records import BatchItemResponse, BatchRejected

Events = list[dict[str, Any]]
Items = list[BatchItemResponse]


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
        return Answer(422, rejected.items)
    return Answer(200) if items is None else Answer(207, items)
