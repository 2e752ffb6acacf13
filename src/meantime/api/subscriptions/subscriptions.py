"""`/subscriptions`: create, list, change and delete subscriptions, and their statistics."""

import msgspec
from litestar import Response, delete, get, post, put
from litestar.params import FromPath, FromQuery

from meantime.api.bodies import read_object
from meantime.api.dependencies import TheSubscriptions
from meantime.api.identity import AnyRequest, identity_of
from meantime.api.subscriptions import cursors as subscription_cursors
from meantime.api.subscriptions import events as subscription_events
from meantime.api.subscriptions.documents import (
    EventTypeReport,
    Page,
    SubscriptionDocument,
    allow_all,
    allowed,
    document_of,
    links,
    read_draft,
    reports,
)
from meantime.errors import Invalid, Malformed
from meantime.streams.subscriptions.model import Subscription
from meantime.streams.subscriptions.stats import assignments, stats
from meantime.streams.subscriptions.subscriptions import Subscriptions

LARGEST_PAGE = 1000


class SubscriptionStatsDocument(msgspec.Struct, frozen=True):
    items: list[EventTypeReport]


@post("/subscriptions", tags=["subscriptions"], summary="Subscribe to event types")
async def create_subscription(request: AnyRequest, subscriptions: TheSubscriptions) -> Response[SubscriptionDocument]:
    """201 when it is new; 200 when the same application has subscribed to the same event types in the same group."""
    draft = read_draft(await read_object(request))
    allow_all(request, draft.event_types)
    subscription, new = await subscriptions.create(draft)
    path = f"/subscriptions/{subscription.id}"
    return Response(
        document_of(subscription), status_code=201 if new else 200, headers={"Location": path, "Content-Location": path}
    )


@get("/subscriptions", tags=["subscriptions"], summary="All subscriptions, newest first")
async def list_subscriptions(
    request: AnyRequest,
    subscriptions: TheSubscriptions,
    owning_application: FromQuery[str | None] = None,
    event_type: FromQuery[list[str] | None] = None,
    offset: FromQuery[int] = 0,
    limit: FromQuery[int] = 20,
    show_status: FromQuery[bool] = False,
) -> Page:
    if not 0 <= offset < 2**63:
        raise Malformed("'offset' parameter can't be lower than 0")
    if not 1 <= limit <= LARGEST_PAGE:
        raise Malformed(f"'limit' parameter should have value between 1 and {LARGEST_PAGE}")
    event_types = event_type or []
    found = await subscriptions.page(owning_application, event_types, offset, limit + 1)
    identity = identity_of(request)
    items = [
        document_of(subscription, await _status(subscriptions, subscription) if show_status else None)
        for subscription in found[:limit]
        if all(identity.may("read", name) for name in subscription.event_types)
    ]
    filters = [("owning_application", owning_application)] if owning_application else []
    filters += [("event_type", name) for name in event_types]
    return Page(items, links(filters, offset, limit, more=len(found) > limit))


@get("/subscriptions/{id:str}", tags=["subscriptions"], summary="A subscription")
async def show_subscription(request: AnyRequest, subscriptions: TheSubscriptions, id: FromPath[str]) -> SubscriptionDocument:
    return document_of(await allowed(request, subscriptions, id))


@put("/subscriptions/{id:str}", tags=["subscriptions"], summary="Change who may use a subscription", status_code=204)
async def update_subscription(request: AnyRequest, subscriptions: TheSubscriptions, id: FromPath[str]) -> None:
    """Only `authorization` can change."""
    subscription = await allowed(request, subscriptions, id)
    draft = read_draft(await read_object(request))
    same = (subscription.owning_application, subscription.event_types, subscription.consumer_group)
    if (draft.owning_application, draft.event_types, draft.consumer_group) != same:
        raise Invalid("a subscription keeps its owning_application, event_types and consumer_group")
    await subscriptions.update_access(subscription, draft.access)


@delete("/subscriptions/{id:str}", tags=["subscriptions"], summary="Delete a subscription; its streams end")
async def delete_subscription(request: AnyRequest, subscriptions: TheSubscriptions, id: FromPath[str]) -> None:
    await subscriptions.delete(await allowed(request, subscriptions, id))


@get("/subscriptions/{id:str}/stats", tags=["subscriptions"], summary="Readers, unconsumed events and lag by partition")
async def show_stats(
    request: AnyRequest, subscriptions: TheSubscriptions, id: FromPath[str], show_time_lag: FromQuery[bool] = False
) -> SubscriptionStatsDocument:
    subscription = await allowed(request, subscriptions, id)
    found = await stats(subscriptions, subscription, with_ages=show_time_lag)
    return SubscriptionStatsDocument(reports(subscription, found))


async def _status(subscriptions: Subscriptions, subscription: Subscription) -> list[EventTypeReport]:
    """Who reads what, without asking Kafka how much is left."""
    registry = subscriptions.registry(subscription.id)
    await registry.look()
    found = assignments(await subscriptions.keys(subscription), registry.readers, registry.owners)
    return reports(subscription, found)


ROUTES = [
    create_subscription,
    list_subscriptions,
    show_subscription,
    update_subscription,
    delete_subscription,
    show_stats,
    *subscription_cursors.ROUTES,
    *subscription_events.ROUTES,
]
