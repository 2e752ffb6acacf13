"""Storages over HTTP: the Kafka clusters that event types may be switched to."""

from typing import Any

import msgspec
from litestar import Response, delete, get, post, put
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath

from meantime.api.bodies import read_object
from meantime.api.dependencies import TheStreams
from meantime.api.identity import AnyRequest, allow
from meantime.streams.catalog.storages import show_storage


class StorageView(msgspec.Struct, kw_only=True):
    """A storage as it is shown; secrets among its settings are left out."""

    id: str
    storage_type: str
    kafka_configuration: dict[str, Any]
    default: bool


SHOWN = {200: ResponseSpec(StorageView, generate_examples=False)}
CREATED = {201: ResponseSpec(StorageView, generate_examples=False)}


@get("/storages", tags=["storages"], summary="All storages")
async def list_storages(request: AnyRequest, streams: TheStreams) -> list[dict[str, Any]]:
    allow(request, "admin")
    return [show_storage(storage) for storage in await streams.storages.all()]


@get("/storages/{storage_id:str}", tags=["storages"], summary="One storage", responses=SHOWN)
async def show(request: AnyRequest, streams: TheStreams, storage_id: FromPath[str]) -> dict[str, Any]:
    allow(request, "admin")
    return show_storage(await streams.storages.get(storage_id))


@post("/storages", tags=["storages"], summary="Register a storage", responses=CREATED)
async def register(request: AnyRequest, streams: TheStreams) -> dict[str, Any]:
    """It is probed first: 422 when it does not answer."""
    allow(request, "admin")
    return show_storage(await streams.storages.register(await read_object(request)))


@put(
    "/storages/default/{storage_id:str}", tags=["storages"], summary="Choose the storage of new event types", responses=SHOWN
)
async def make_default(request: AnyRequest, streams: TheStreams, storage_id: FromPath[str]) -> dict[str, Any]:
    allow(request, "admin")
    return show_storage(await streams.storages.make_default(storage_id))


@delete("/storages/{storage_id:str}", tags=["storages"], summary="Forget a storage", status_code=204)
async def forget(request: AnyRequest, streams: TheStreams, storage_id: FromPath[str]) -> Response[None]:
    """403 while it is the default or used by a timeline."""
    allow(request, "admin")
    await streams.storages.delete(storage_id)
    return Response(None, status_code=204)


@get("/storages/default", tags=["storages"], summary="The storage named default", responses=SHOWN)
async def show_default(request: AnyRequest, streams: TheStreams) -> dict[str, Any]:
    """`/storages/default/…` hides this name from the routes above, so it has routes of its own."""
    allow(request, "admin")
    return show_storage(await streams.storages.get("default"))


@delete("/storages/default", tags=["storages"], summary="Forget the storage named default", status_code=204)
async def forget_default(request: AnyRequest, streams: TheStreams) -> Response[None]:
    allow(request, "admin")
    await streams.storages.delete("default")
    return Response(None, status_code=204)


ROUTES = [list_storages, show, register, make_default, forget, show_default, forget_default]
