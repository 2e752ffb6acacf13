"""Which calls are acts of an operator, and what the audit log says of them: one row for each.

A call that is not here is the daily work of programs (publishing, creating and leasing messages, committing cursors, setting
timers), or it changes nothing. The target is the path of what was changed; where it has no name before it is made, the
handler says it. A handler also says how many there were, and what else is worth knowing; or that nothing was done at all.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from meantime.api.call import HttpCall
from meantime.api.routing import Route

ANYBODY = "anybody"
"""Who acts where authentication is off."""

ACTS: Mapping[str, tuple[str, str]] = {
    # --- streams ---
    "POST /event-types": ("create", "event-types"),
    "PUT /event-types/{name}": ("update", "event-types/{name}"),
    "DELETE /event-types/{name}": ("delete", "event-types/{name}"),
    "POST /event-types/{name}/timelines": ("switch", "event-types/{name}"),
    "PUT /subscriptions/{id}": ("update", "subscriptions/{id}"),
    "DELETE /subscriptions/{id}": ("delete", "subscriptions/{id}"),
    "PATCH /subscriptions/{id}/cursors": ("reset", "subscriptions/{id}"),
    "POST /storages": ("create", "storages"),
    "DELETE /storages/{storage_id}": ("delete", "storages/{storage_id}"),
    "PUT /storages/default/{storage_id}": ("default", "storages/{storage_id}"),
    # --- topics ---
    "PUT /topics/{topic}": ("update", "topics/{topic}"),
    "DELETE /topics/{topic}": ("delete", "topics/{topic}"),
    "POST /topics/{topic}/redrive": ("redrive", "topics/{topic}"),
    "POST /topics/{topic}/messages/move": ("move", "topics/{topic}/messages"),
    "POST /topics/{topic}/messages/delete": ("delete", "topics/{topic}/messages"),
    # --- applications ---
    "DELETE /apps/{app}": ("forget", "apps/{app}"),
    "POST /apps/{app}/pause": ("pause", "apps/{app}"),
    "POST /apps/{app}/resume": ("resume", "apps/{app}"),
    "PUT /apps/{app}/queues/{queue}/last": ("reset", "apps/{app}/queues/{queue}"),
    "POST /apps/{app}/queues/{queue}/pause": ("pause", "apps/{app}/queues/{queue}"),
    "POST /apps/{app}/queues/{queue}/resume": ("resume", "apps/{app}/queues/{queue}"),
    # --- schedules ---
    "PUT /schedules/{id}": ("update", "schedules/{id}"),
    "DELETE /schedules/{id}": ("delete", "schedules/{id}"),
    "POST /schedules/{id}/fire": ("fire", "schedules/{id}"),
    "POST /schedules/{id}/backfill": ("backfill", "schedules/{id}"),
    "POST /schedules/{id}/pause": ("pause", "schedules/{id}"),
    "POST /schedules/{id}/resume": ("resume", "schedules/{id}"),
    "POST /schedules/pause": ("pause", "schedules"),
    "POST /schedules/resume": ("resume", "schedules"),
    # --- keys ---
    "POST /keys": ("create", "keys"),
    "DELETE /keys/{id}": ("revoke", "keys/{id}"),
}


class AuditRecorder(Protocol):
    async def record(self, actor: str, action: str, target: str, count: int | None, detail: dict[str, Any]) -> None: ...


async def record_act(recorder: AuditRecorder, route: Route, call: HttpCall[Any, Any]) -> None:
    """Write down what a call has done, if it was an act."""
    known, act = ACTS.get(f"{route.method} {route.path}"), call.act
    if known is None or not act.done:
        return
    action, target = known
    who = {"key_id": call.identity.key_id} if call.identity.key_id else {}
    detail = who | {"flow_id": call.flow_id, "peer": call.exchange.peer()} | act.detail
    place = act.target or target.format(**call.names)
    await recorder.record(call.identity.name or ANYBODY, act.action or action, place, act.count, detail)
