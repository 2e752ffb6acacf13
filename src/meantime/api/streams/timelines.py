"""Timelines and switches over HTTP: where the events of an event type live, and how to move on to another storage."""

from typing import Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta

from meantime.api.call import Answer, HttpCall
from meantime.clock import rfc3339
from meantime.errors import Invalid, Malformed, NotFound
from meantime.streams.model import Timeline
from meantime.streams.switching.model import Switch, SwitchState
from meantime.streams.switching.switches import SwitchRequest

LONGEST_KEY = 255


class SwitchForm(msgspec.Struct, kw_only=True):
    """With `force` an old storage that is dead is left behind; one that answers is switched from as usual."""

    storage_id: str
    force: bool | None = False


class SwitchKey(msgspec.Struct):
    key: Annotated[
        Annotated[str, Meta(max_length=LONGEST_KEY)] | None,
        Meta(description="The same key within a day is the same switch."),
    ] = msgspec.field(name="Idempotency-Key", default=None)


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


class PhaseView(msgspec.Struct, frozen=True):
    """`acknowledge` and `seal` go on at the same time."""

    name: str
    ms: float


class AcknowledgementView(msgspec.Struct, frozen=True):
    node: str
    ms: float


class SwitchView(msgspec.Struct, frozen=True):
    """`phases` are those that are over; `acknowledged` says when each node had reacted to the lock, in milliseconds after
    it; `overtaken` are the nodes that had not when the switch went on."""

    id: str
    state: SwitchState
    owner: str
    started_at: str
    finished_at: str | None
    stall_ms: float | None
    error: str | None
    storage_id: str
    force: bool
    overtaken: list[str]
    phases: list[PhaseView]
    acknowledged: list[AcknowledgementView]


async def list_timelines(call: HttpCall[None, None]) -> list[TimelineView]:
    """The timelines of an event type, oldest first"""
    return [
        show_timeline(timeline) for timeline in (await call.services.streams.catalog.reload(call.names["name"])).timelines
    ]


async def switch(call: HttpCall[dict[str, Any], None]) -> Answer:
    """Switch an event type to another storage

    `{storage_id, force?}`. 201 with the new timeline once all nodes use it; the same `Idempotency-Key` again 200 with the
    same timeline. 409 while another switch runs; 503 with who did not answer, and then nothing has changed.
    """
    request = _switch_request(call.names["name"], call.form, call.header(b"idempotency-key"))
    timeline, made = await call.services.streams.switches.start(request)
    call.act.done, call.act.detail = made, {"storage_id": request.storage_id, "force": request.force}
    return Answer(201 if made else 200, show_timeline(timeline))


async def list_switches(call: HttpCall[None, None]) -> list[SwitchView]:
    """Switches of an event type, oldest first"""
    return [show_switch(switch) for switch in await call.services.streams.switches.of(call.names["name"])]


async def show(call: HttpCall[None, None]) -> SwitchView:
    """How far a switch is"""
    name, switch_id = call.names["name"], call.names["switch_id"]
    try:
        id = UUID(switch_id)
    except ValueError:
        raise NotFound(f"event type {name!r} has no switch {switch_id!r}") from None
    return show_switch(await call.services.streams.switches.get(name, id))


def _switch_request(name: str, given: dict[str, Any], key: str | None) -> SwitchRequest:
    if key is not None and len(key) > LONGEST_KEY:
        raise Malformed(f"the header Idempotency-Key has more than {LONGEST_KEY} characters")
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
        state=switch.state,
        owner=switch.owner.node_id,
        started_at=rfc3339(switch.started_at_ms),
        finished_at=_instant(switch.finished_at_ms),
        stall_ms=switch.stall_ms,
        error=switch.error,
        storage_id=switch.storage_id,
        force=switch.force,
        overtaken=list(switch.overtaken),
        phases=[PhaseView(phase.name, phase.ms) for phase in switch.phases],
        acknowledged=[AcknowledgementView(one.node, one.ms) for one in switch.acknowledged],
    )


def _instant(instant_ms: int | None) -> str | None:
    return None if instant_ms is None else rfc3339(instant_ms)
