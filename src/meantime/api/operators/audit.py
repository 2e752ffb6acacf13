"""`/audit`: what operators have done."""

from typing import Annotated, Any

import msgspec

from meantime.api.call import HttpCall
from meantime.audit.audit_store import AuditEntry

MOST_ENTRIES = 1_000


class AuditQuery(msgspec.Struct, forbid_unknown_fields=True):
    from_ms: int | None = None
    to_ms: Annotated[int, msgspec.Meta(description="Exclusive.")] | None = None
    actor: Annotated[str, msgspec.Meta(description="The name of a key.")] | None = None
    before: Annotated[int, msgspec.Meta(ge=0, description="`next` of the page before.")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=MOST_ENTRIES)] = 100


class AuditEntryView(msgspec.Struct, frozen=True):
    """`actor` is the name of a key, `target` a path of the API, `count` how many things were changed, where that says
    something."""

    at_ms: int
    actor: str
    action: str
    target: str
    count: int | None
    detail: dict[str, Any]


class AuditView(msgspec.Struct, frozen=True):
    """Newest first; `next` continues the list, null at its end."""

    entries: list[AuditEntryView]
    next: int | None


async def list_entries(call: HttpCall[None, AuditQuery]) -> AuditView:
    """What operators have done, newest first

    Switches, resets, pauses, what was moved, deleted or sent back, storages, event types, topics and keys: who did it, with
    what, and how many there were.
    """
    asked = call.query
    found = await call.services.audit.page(asked.from_ms, asked.to_ms, asked.actor, asked.before, asked.limit)
    return AuditView([_view(entry) for entry in found], found[-1].id if len(found) == asked.limit else None)


def _view(entry: AuditEntry) -> AuditEntryView:
    return AuditEntryView(entry.at_ms, entry.actor, entry.action, entry.target, entry.count, entry.detail)
