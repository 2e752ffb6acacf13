"""What subscriptions look like on the wire, and how what clients send is read."""

from contextlib import suppress
from functools import partial
from typing import Annotated, Any
from urllib.parse import urlencode

import msgspec
from msgspec import Meta

from meantime.access.authorization import OF_SUBSCRIPTIONS, READERS, check_authorization, is_listed, require_listed
from meantime.access.scopes import Identity
from meantime.api.call import HttpCall
from meantime.api.rights import require_in_lists
from meantime.api.streams.event_types import Attributes
from meantime.api.streams.reading import CursorForm, as_text
from meantime.clock import rfc3339
from meantime.errors import Invalid, NotFound
from meantime.streams.model import PartitionKey
from meantime.streams.subscriptions.model import GivenSubscriptionCursor, PartitionStats, Subscription, SubscriptionDraft

MOST_CURSORS = 1000
LONGEST_NAME = 255
READ_FROM = ("begin", "end", "cursors")

Name = Annotated[str, Meta(min_length=1, max_length=LONGEST_NAME)]
ReadFrom = Annotated[str, Meta(extra_json_schema={"enum": list(READ_FROM)})]


class SubscribedCursor(CursorForm, kw_only=True):
    """A cursor of one of the event types of a subscription. Its token is not looked at."""

    event_type: str
    cursor_token: Any = None


SubscribedCursors = Annotated[list[SubscribedCursor], Meta(max_length=MOST_CURSORS)]


class SubscriptionAuthorization(msgspec.Struct, kw_only=True):
    """Who of those that may read its event types may use it: `readers` read and commit, `admins` change and reset it."""

    admins: Attributes
    readers: Attributes


class SubscriptionTerms(msgspec.Struct, kw_only=True):
    owning_application: Name
    event_types: Annotated[list[str], Meta(min_length=1)]
    consumer_group: Name | None = "default"
    read_from: ReadFrom | None = "end"
    authorization: SubscriptionAuthorization | None = None


class SubscriptionForm(SubscriptionTerms, kw_only=True):
    """Owner, event types and group make it the same subscription. `read_from` may be written in capitals; with `cursors`,
    `initial_cursors` name every partition, otherwise they are ignored."""

    initial_cursors: SubscribedCursors | None = None


class SubscriptionChange(SubscriptionTerms, kw_only=True):
    """Only `authorization` may differ. `initial_cursors` are not looked into: they are where it once began."""

    initial_cursors: Annotated[list[dict[str, Any]], Meta(max_length=MOST_CURSORS)] | None = None


class CursorsForm(msgspec.Struct, kw_only=True):
    items: SubscribedCursors


class CommittedCursor(msgspec.Struct, frozen=True):
    partition: str
    offset: str
    event_type: str
    cursor_token: str


class InitialCursor(msgspec.Struct, frozen=True):
    event_type: str
    partition: str
    offset: str


class PartitionReport(msgspec.Struct, frozen=True, omit_defaults=True):
    partition: str
    state: Annotated[str, Meta(extra_json_schema={"enum": ["unassigned", "assigned", "reassigning"]})]
    stream_id: str | None = None
    assignment_type: Annotated[str, Meta(extra_json_schema={"enum": ["direct", "auto"]})] | None = None
    unconsumed_events: int | None = None
    consumer_lag_seconds: int | None = None


class EventTypeReport(msgspec.Struct, frozen=True):
    event_type: str
    partitions: list[PartitionReport]


class SubscriptionDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    id: str
    owning_application: str
    event_types: list[str]
    consumer_group: str
    read_from: ReadFrom
    created_at: str
    updated_at: str
    initial_cursors: list[InitialCursor]
    authorization: Any = None
    status: list[EventTypeReport] | None = None


class Link(msgspec.Struct, frozen=True):
    href: str


class Links(msgspec.Struct, frozen=True, omit_defaults=True):
    prev: Link | None = None
    next: Link | None = None


class Page(msgspec.Struct, frozen=True, rename={"links": "_links"}):
    items: list[SubscriptionDocument]
    links: Links


def document_of(subscription: Subscription, status: list[EventTypeReport] | None = None) -> SubscriptionDocument:
    return SubscriptionDocument(
        id=str(subscription.id),
        owning_application=subscription.owning_application,
        event_types=list(subscription.event_types),
        consumer_group=subscription.consumer_group,
        read_from=subscription.read_from,
        created_at=rfc3339(subscription.created_at_ms),
        updated_at=rfc3339(subscription.updated_at_ms),
        initial_cursors=[
            InitialCursor(place.event_type or "", place.partition or "", place.offset or "")
            for place in subscription.initial_cursors
        ],
        authorization=subscription.access,
        status=status,
    )


def reports(subscription: Subscription, found: dict[PartitionKey, PartitionStats]) -> list[EventTypeReport]:
    return [
        EventTypeReport(name, [_report(one) for (of, _), one in found.items() if of == name])
        for name in subscription.event_types
    ]


def _report(one: PartitionStats) -> PartitionReport:
    return PartitionReport(
        partition=str(one.partition),
        state=one.state,
        stream_id=one.stream_id,
        assignment_type=one.assignment_type,
        unconsumed_events=one.unconsumed_events,
        consumer_lag_seconds=one.lag_seconds,
    )


def links(filters: list[tuple[str, str]], offset: int, limit: int, *, more: bool) -> Links:
    def link(start: int) -> Link:
        return Link("/subscriptions?" + urlencode([("offset", start), ("limit", limit), *filters]))

    return Links(prev=link(max(0, offset - limit)) if offset > 0 else None, next=link(offset + limit) if more else None)


def read_draft(document: dict[str, Any]) -> SubscriptionDraft:
    event_types = document.get("event_types")
    if not isinstance(event_types, list) or not event_types or not all(isinstance(name, str) for name in event_types):
        raise Invalid("event_types has to be a list of names of event types, at least one")
    read_from = document.get("read_from")
    read_from = "end" if read_from is None else read_from
    if not isinstance(read_from, str) or read_from.lower() not in READ_FROM:
        raise Invalid("read_from has to be begin, end or cursors")
    cursors = document.get("initial_cursors")
    if read_from.lower() == "cursors" and not cursors:
        raise Invalid("initial_cursors are needed when read_from is cursors")
    check_authorization(document.get("authorization"), OF_SUBSCRIPTIONS)
    group = document.get("consumer_group")
    return SubscriptionDraft(
        owning_application=_name(document.get("owning_application"), "owning_application"),
        event_types=tuple(sorted(set(event_types))),
        consumer_group="default" if group is None else _name(group, "consumer_group"),
        read_from=read_from.lower(),
        initial_cursors=tuple(places_in(cursors)) if read_from.lower() == "cursors" else (),
        access=document.get("authorization"),
    )


def _name(value: object, what: str) -> str:
    if not isinstance(value, str) or not 1 <= len(value) <= LONGEST_NAME or "\x00" in value:
        raise Invalid(f"{what} has to be a text of 1 to {LONGEST_NAME} characters")
    return value


def places_in(items: object) -> list[GivenSubscriptionCursor]:
    return [
        GivenSubscriptionCursor(as_text(item.get("event_type")), as_text(item.get("partition")), as_text(item.get("offset")))
        for item in objects_in(items)
    ]


def objects_in(items: object) -> list[dict[str, Any]]:
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise Invalid("a list of objects is needed, each with event_type, partition and what else belongs to it")
    if len(items) > MOST_CURSORS:
        raise Invalid(f"at most {MOST_CURSORS} at once")
    return items


async def require_read(call: HttpCall[Any, Any], event_types: tuple[str, ...]) -> None:
    """The caller may read all of them; those that do not exist are not judged here."""
    for name in event_types:
        call.identity.require("read", name)
        with suppress(NotFound):
            await require_in_lists(call, name, READERS)


def may_use(identity: Identity, subscription: Subscription) -> bool:
    """Whether its authorization, if it has one, lists this key."""
    return subscription.access is None or is_listed(identity, subscription.access, *OF_SUBSCRIPTIONS)


async def allowed(call: HttpCall[Any, Any], *lists: str) -> Subscription:
    """The subscription in the path, if the caller may read all its event types and is in one of these lists of its
    authorization (readers, where none is named). A change of its authorization ends its streams; a change of those of its
    event types is looked for while one is open."""
    subscription = await call.services.streams.subscriptions.get(call.names["id"])
    await require_read(call, subscription.event_types)
    require_listed(call.identity, subscription.access, f"subscription {str(subscription.id)!r}", *(lists or (READERS,)))
    call.still_allowed.append(partial(require_read, call, subscription.event_types))
    return subscription


async def shown(call: HttpCall[Any, Any], *lists: str) -> Subscription:
    """The same for what has no events in it: onlookers see it, whoever may read."""
    if call.identity.may("look"):
        return await call.services.streams.subscriptions.get(call.names["id"])
    return await allowed(call, *lists)
