"""`/subscriptions`: create, list, change and delete subscriptions, and their statistics."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from meantime.access.authorization import ADMINS, OF_SUBSCRIPTIONS
from meantime.api.call import Answer, HttpCall
from meantime.api.subscriptions.documents import (
    EventTypeReport,
    Page,
    SubscriptionDocument,
    allowed,
    document_of,
    links,
    may_use,
    read_draft,
    reports,
    require_read,
    shown,
)
from meantime.errors import Forbidden, Invalid, Malformed
from meantime.streams.subscriptions.model import Subscription
from meantime.streams.subscriptions.stats import assignments, stats
from meantime.streams.subscriptions.subscriptions import Subscriptions

LARGEST_PAGE = 1000
LARGEST_OFFSET = 2**63 - 1


class ListQuery(msgspec.Struct, kw_only=True):
    """The bounds are enforced by the handler."""

    owning_application: str | None = None
    event_type: Annotated[list[str], Meta(description="Those that subscribe to all of these.")] = []
    offset: Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": LARGEST_OFFSET})] = 0
    limit: Annotated[int, Meta(extra_json_schema={"minimum": 1, "maximum": LARGEST_PAGE})] = 20
    show_status: Annotated[bool, Meta(description="Show also who reads which partition.")] = False


class LagQuery(msgspec.Struct):
    show_time_lag: Annotated[bool, Meta(description="Show also how old the oldest unread event of each partition is.")] = (
        False
    )


class SubscriptionStats(msgspec.Struct, frozen=True):
    items: list[EventTypeReport]


async def create(call: HttpCall[dict[str, Any], None]) -> Answer:
    """Subscribe to event types

    201 when it is new; 200 when the same application has subscribed to the same event types in the same group.
    """
    draft = read_draft(call.form)
    await require_read(call, draft.event_types)
    subscription, new = await call.services.streams.subscriptions.create(draft)
    if not new and not may_use(call.identity, subscription):
        raise Forbidden("this subscription exists, and its authorization does not list this key")
    path = f"/subscriptions/{subscription.id}"
    return Answer(201 if new else 200, document_of(subscription), headers={"Location": path, "Content-Location": path})


async def list_all(call: HttpCall[None, ListQuery]) -> Page:
    """All subscriptions, newest first

    With authentication on, those whose event types the key may read; with `look` all.
    """
    query, subscriptions = call.query, call.services.streams.subscriptions
    if not 0 <= query.offset <= LARGEST_OFFSET:
        raise Malformed("'offset' parameter can't be lower than 0")
    if not 1 <= query.limit <= LARGEST_PAGE:
        raise Malformed(f"'limit' parameter should have value between 1 and {LARGEST_PAGE}")
    found = await subscriptions.page(query.owning_application, query.event_type, query.offset, query.limit + 1)
    items = [
        document_of(subscription, await _status(subscriptions, subscription) if query.show_status else None)
        for subscription in found[: query.limit]
        if await _may_see(call, subscription)
    ]
    filters = [("owning_application", query.owning_application)] if query.owning_application else []
    filters += [("event_type", name) for name in query.event_type]
    return Page(items, links(filters, query.offset, query.limit, more=len(found) > query.limit))


async def _may_see(call: HttpCall[Any, Any], subscription: Subscription) -> bool:
    if call.identity.may("look"):
        return True
    try:
        await require_read(call, subscription.event_types)
    except Forbidden:
        return False
    return may_use(call.identity, subscription)


async def show(call: HttpCall[None, None]) -> SubscriptionDocument:
    """A subscription"""
    return document_of(await shown(call, *OF_SUBSCRIPTIONS))


async def update(call: HttpCall[dict[str, Any], None]) -> Answer:
    """Change who may use a subscription

    Only `authorization` can change, by its admins if it has one. Its streams end; who may still read opens them again.
    """
    subscription = await allowed(call, ADMINS)
    draft = read_draft(call.form)
    same = (subscription.owning_application, subscription.event_types, subscription.consumer_group)
    if (draft.owning_application, draft.event_types, draft.consumer_group) != same:
        raise Invalid("a subscription keeps its owning_application, event_types and consumer_group")
    if draft.access is not None and draft.access != subscription.access:
        await call.services.streams.subscriptions.update_access(subscription, draft.access)
    return Answer(204)


async def delete(call: HttpCall[None, None]) -> Answer:
    """Delete a subscription; its streams end"""
    await call.services.streams.subscriptions.delete(await allowed(call, ADMINS))
    return Answer(204)


async def show_stats(call: HttpCall[None, LagQuery]) -> SubscriptionStats:
    """Readers, unconsumed events and lag by partition"""
    subscription = await shown(call, *OF_SUBSCRIPTIONS)
    found = await stats(call.services.streams.subscriptions, subscription, with_ages=call.query.show_time_lag)
    return SubscriptionStats(reports(subscription, found))


async def _status(subscriptions: Subscriptions, subscription: Subscription) -> list[EventTypeReport]:
    """Who reads what, without asking Kafka how much is left."""
    registry = subscriptions.registry(subscription.id)
    await registry.look()
    found = assignments(await subscriptions.keys(subscription), registry.readers, registry.owners)
    return reports(subscription, found)
