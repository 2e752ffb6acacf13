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
from meantime.streams.publishing.records import Item, Rejected

RESPONSES = {
    207: ResponseSpec(list[Item], description="The storage refused some events.", generate_examples=False),
    422: ResponseSpec(list[Item], description="Some events are not valid; nothing was written.", generate_examples=False),
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
    flow_id = structlog.contextvars.get_contextvars().get("flow_id", "")
    try:
        items = await streams.publisher.publish(name, await request.body(), flow_id)
    except Rejected as rejected:
        return _answer(422, rejected.items)
    return Response(b"", status_code=200, media_type=MediaType.JSON) if items is None else _answer(207, items)


def _answer(status: int, items: list[Item]) -> Response[Any]:
    return Response(msgspec.json.encode(items), status_code=status, media_type=MediaType.JSON)


ROUTES = [publish]
