"""Timelines and switches over HTTP: where the events of an event type live, and how to move on to another storage."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from litestar import Response, get, post
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, HeaderParameter

from meantime.api.bodies import read_object
from meantime.api.dependencies import TheStreams
from meantime.api.identity import AnyRequest, allow
from meantime.clock import rfc3339
from meantime.errors import Invalid, NotFound
from meantime.streams.model import Timeline
from meantime.streams.switching.model import Switch
from meantime.streams.switching.switches import SwitchRequest


class LatestPosition(msgspec.Struct, frozen=True):
    """The last offset by partition, -1 where nothing was ever written."""

    offsets: list[int]


class TimelineView(msgspec.Struct, frozen=True):
    id: str | None
    event_type: str
    order: int
    storage_id: str
    topic: str
    created_at: str
    switched_at: str | None
    cleaned_up_at: str | None
    deleted: bool
    latest_position: LatestPosition | None


class SwitchView(msgspec.Struct, frozen=True):
    id: str
    state: str
    owner: str
    started_at: str
    finished_at: str | None
    stall_ms: float | None
    error: str | None
    storage_id: str
    force: bool


REPEATED = {
    200: ResponseSpec(TimelineView, description="The switch with this key was done before.", generate_examples=False)
}


@get("/event-types/{name:str}/timelines", tags=["timelines"], summary="The timelines of an event type, oldest first")
async def list_timelines(request: AnyRequest, streams: TheStreams, name: FromPath[str]) -> list[TimelineView]:
    allow(request, "read", name)
    return [show_timeline(timeline) for timeline in (await streams.catalog.reload(name)).timelines]


@post(
    "/event-types/{name:str}/timelines",
    tags=["timelines"],
    summary="Switch an event type to another storage",
    responses=REPEATED,
)
async def switch(
    request: AnyRequest,
    streams: TheStreams,
    name: FromPath[str],
    key: Annotated[str | None, HeaderParameter(name="Idempotency-Key", max_length=255)] = None,
) -> Response[TimelineView]:
    """`{storage_id, force?}`. 201 with the new timeline once all nodes use it; the same `Idempotency-Key` again 200 with the
    same timeline. 409 while another switch runs; 503 with who did not answer, and then nothing has changed."""
    allow(request, "admin")
    timeline, made = await streams.switches.start(_switch_request(name, await read_object(request), key))
    return Response(show_timeline(timeline), status_code=201 if made else 200)


@get("/event-types/{name:str}/switches", tags=["timelines"], summary="Switches of an event type, oldest first")
async def list_switches(request: AnyRequest, streams: TheStreams, name: FromPath[str]) -> list[SwitchView]:
    allow(request, "read", name)
    return [show_switch(switch) for switch in await streams.switches.of(name)]


@get("/event-types/{name:str}/switches/{switch_id:str}", tags=["timelines"], summary="How far a switch is")
async def show_one_switch(
    request: AnyRequest, streams: TheStreams, name: FromPath[str], switch_id: FromPath[str]
) -> SwitchView:
    allow(request, "read", name)
    try:
        id = UUID(switch_id)
    except ValueError:
        raise NotFound(f"event type {name!r} has no switch {switch_id!r}") from None
    return show_switch(await streams.switches.get(name, id))


def _switch_request(name: str, given: dict[str, Any], key: str | None) -> SwitchRequest:
    storage_id, force = given.get("storage_id"), given.get("force")
    if not isinstance(storage_id, str):
        raise Invalid("say where to: storage_id is the id of a storage")
    if force is not None and not isinstance(force, bool):
        raise Invalid("force is true or false")
    return SwitchRequest(name, storage_id, bool(force), key or None)


def show_timeline(timeline: Timeline) -> TimelineView:
    offsets = timeline.latest_offsets
    return TimelineView(
        id=str(timeline.id) if timeline.id else None,
        event_type=timeline.event_type,
        order=timeline.order,
        storage_id=timeline.storage_id,
        topic=timeline.topic,
        created_at=rfc3339(timeline.created_at_ms),
        switched_at=_instant(timeline.switched_at_ms),
        cleaned_up_at=_instant(timeline.cleaned_up_at_ms),
        deleted=timeline.deleted,
        latest_position=None if offsets is None else LatestPosition(list(offsets)),
    )


def show_switch(switch: Switch) -> SwitchView:
    return SwitchView(
        id=str(switch.id),
        state=switch.state.value,
        owner=switch.owner.node_id,
        started_at=rfc3339(switch.started_at_ms),
        finished_at=_instant(switch.finished_at_ms),
        stall_ms=switch.stall_ms,
        error=switch.error,
        storage_id=switch.storage_id,
        force=switch.force,
    )


def _instant(instant_ms: int | None) -> str | None:
    return None if instant_ms is None else rfc3339(instant_ms)


ROUTES = [list_timelines, switch, list_switches, show_one_switch]
