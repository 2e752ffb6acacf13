"""`POST /event-types/{name}/events`: publish a batch. The hottest route, so it touches the body's bytes only once."""

from typing import Any

import msgspec
import structlog
from litestar import Response, post
from litestar.enums import MediaType
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath

from meantime.api.dependencies import TheStreams
from meantime.api.identity import AnyRequest, allow
from meantime.streams.publishing.publisher import Publisher
from meantime.streams.publishing.records import BatchItemResponse, BatchRejected

RESPONSES = {
    207: ResponseSpec(list[BatchItemResponse], description="The storage refused some events.", generate_examples=False),
    422: ResponseSpec(
        list[BatchItemResponse], description="Some events are not valid; nothing was written.", generate_examples=False
    ),
}


@post(
    "/event-types/{name:str}/events",
    tags=["streams"],
    summary="Publish a batch of events",
    description="A JSON array of events. 200 and no body when all are written.",
    status_code=200,
    responses=RESPONSES,
)
async def publish(request: AnyRequest, streams: TheStreams, name: FromPath[str]) -> Response[Any]:
    allow(request, "publish", name)
    status, body = await publish_batch(streams.publisher, name, await request.body())
    return Response(body, status_code=status, media_type=MediaType.JSON)


async def publish_batch(publisher: Publisher, name: str, body: bytes) -> tuple[int, bytes]:
    """The status and the JSON that answer a publish, whichever way it came in."""
    flow_id = structlog.contextvars.get_contextvars().get("flow_id", "")
    try:
        items = await publisher.publish(name, body, flow_id)
    except BatchRejected as rejected:
        return 422, msgspec.json.encode(rejected.items)
    return (200, b"") if items is None else (207, msgspec.json.encode(items))


ROUTES = [publish]
