"""Event types over HTTP: declare, look at, change and delete them."""

from typing import Any

import msgspec
from litestar import Response, delete, get, post, put
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath

from meantime.api.bodies import read_object
from meantime.api.dependencies import TheStreams
from meantime.api.identity import AnyRequest, allow, identity_of
from meantime.streams.catalog.declarations import ENRICHMENT
from meantime.streams.model import STRATEGIES


class EventTypeDocument(msgspec.Struct, kw_only=True):
    """An event type as it is shown; fields that a client sends and this page does not list are ignored."""

    name: str
    owning_application: str
    category: str
    schema: dict[str, Any]
    partition_strategy: str
    partition_key_fields: list[str]
    options: dict[str, Any]
    default_statistic: dict[str, Any]


SHOWN = {200: ResponseSpec(EventTypeDocument, generate_examples=False)}
CREATED = {201: ResponseSpec(EventTypeDocument, generate_examples=False)}


@get("/event-types", tags=["streams"], summary="All event types")
async def list_event_types(request: AnyRequest, streams: TheStreams) -> list[dict[str, Any]]:
    """With authentication on, those that the key may read or publish to."""
    identity = identity_of(request)
    return [
        document
        for document in await streams.event_types.all()
        if identity.may("read", document["name"]) or identity.may("publish", document["name"])
    ]


@get("/event-types/{name:str}", tags=["streams"], summary="One event type", responses=SHOWN)
async def show_event_type(request: AnyRequest, streams: TheStreams, name: FromPath[str]) -> dict[str, Any]:
    identity = identity_of(request)
    if not identity.may("publish", name):
        identity.require("read", name)
    return (await streams.event_types.get(name)).document


@post("/event-types", tags=["streams"], summary="Declare an event type", responses=CREATED)
async def create_event_type(request: AnyRequest, streams: TheStreams) -> dict[str, Any]:
    """409 when the name is taken, 422 when the declaration is not valid. `adopt_topic` serves an existing topic of the
    storage `adopt_storage_id`, or of the default one, and the event type shows which."""
    allow(request, "admin")
    return (await streams.event_types.create(await read_object(request))).document


@put("/event-types/{name:str}", tags=["streams"], summary="Change an event type", responses=SHOWN)
async def update_event_type(request: AnyRequest, streams: TheStreams, name: FromPath[str]) -> dict[str, Any]:
    """What is not mentioned stays as it is. Name, category, clean-up policy and partitions cannot be changed (422)."""
    allow(request, "admin")
    return (await streams.event_types.update(name, await read_object(request))).document


@delete("/event-types/{name:str}", tags=["streams"], summary="Delete an event type and its events", status_code=200)
async def delete_event_type(request: AnyRequest, streams: TheStreams, name: FromPath[str]) -> Response[bytes]:
    """409 while subscriptions exist. Open streams end; the name is free at once."""
    allow(request, "admin")
    await streams.event_types.delete(name)
    return Response(b"", status_code=200)


@get("/registry/partition-strategies", tags=["streams"], summary="The partition strategies that there are")
async def list_partition_strategies() -> list[str]:
    return list(STRATEGIES)


@get("/registry/enrichment-strategies", tags=["streams"], summary="The enrichment strategies that there are")
async def list_enrichment_strategies() -> list[str]:
    return [ENRICHMENT]


ROUTES = [
    list_event_types,
    show_event_type,
    create_event_type,
    update_event_type,
    delete_event_type,
    list_partition_strategies,
    list_enrichment_strategies,
]
