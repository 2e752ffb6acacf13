"""Calls of subscriptions: readers that share partitions and whose place is kept by the broker."""

from collections.abc import Sequence

from meantime.sdk.calls.call import JSON, Call, Response, body, fields, names, nothing, path, reading
from meantime.sdk.model import Committed, Cursor, Subscription, SubscriptionBatch, SubscriptionStats

_read_committed = reading(list[Committed], "items")


def subscribe(
    event_types: str | Sequence[str],
    *,
    owning_application: str = "meantime",
    consumer_group: str = "default",
    read_from: str = "end",
    initial_cursors: Sequence[Cursor] | None = None,
) -> Call[Subscription]:
    """A subscription to one or more event types; the same again is the same subscription.

    >>> subscription = client.subscribe("orders", consumer_group="billing", read_from="begin")
    >>> for batch in client.subscription_events(subscription.id):
    ...     bill(batch.events)
    ...     client.commit(batch)
    """
    document = fields(
        owning_application=owning_application,
        event_types=names(event_types),
        consumer_group=consumer_group,
        read_from=read_from,
        initial_cursors=list(initial_cursors) if initial_cursors else None,
    )
    return Call("POST", path("subscriptions"), reading(Subscription), body(document), JSON)


def subscriptions(
    *, event_type: str | None = None, owning_application: str | None = None, limit: int | None = None, offset: int = 0
) -> Call[list[Subscription]]:
    """A page of subscriptions, the newest first.

    >>> [one.consumer_group for one in client.subscriptions(event_type="orders", limit=100)]
    ['billing']
    """
    query = {"event_type": event_type, "owning_application": owning_application, "limit": limit, "offset": offset or None}
    return Call("GET", path("subscriptions", query=query), reading(list[Subscription], "items"))


def subscription(id: str) -> Call[Subscription]:
    """One subscription."""
    return Call("GET", path("subscriptions", id), reading(Subscription))


def delete_subscription(id: str) -> Call[None]:
    """Forget a subscription and its place."""
    return Call("DELETE", path("subscriptions", id), nothing)


def committed_cursors(id: str) -> Call[list[Cursor]]:
    """How far a subscription has come."""
    return Call("GET", path("subscriptions", id, "cursors"), reading(list[Cursor], "items"))


def commit(batch: SubscriptionBatch) -> Call[bool]:
    """Say that a batch is done. False when a later one was committed already."""
    return commit_cursors(batch.subscription_id, batch.stream_id, [batch.cursor])


def commit_cursors(id: str, stream_id: str, cursors: Sequence[Cursor]) -> Call[bool]:
    """Commit cursors that came through a stream, one per partition."""
    headers = {**JSON, "X-Nakadi-StreamId": stream_id}
    return Call("POST", path("subscriptions", id, "cursors"), _all_committed, body({"items": list(cursors)}), headers)


def _all_committed(answer: Response) -> bool:
    if answer.status == 204 or not answer.content:
        return True
    return all(item.result == "committed" for item in _read_committed(answer))


def reset_cursors(id: str, cursors: Sequence[Cursor]) -> Call[None]:
    """Set a subscription back (or forward); open streams are ended."""
    return Call("PATCH", path("subscriptions", id, "cursors"), nothing, body({"items": list(cursors)}), JSON)


def subscription_stats(id: str, *, show_time_lag: bool = False) -> Call[list[SubscriptionStats]]:
    """Per event type and partition: who reads it and how far behind; with `show_time_lag` also in seconds."""
    query = {"show_time_lag": "true"} if show_time_lag else None
    return Call("GET", path("subscriptions", id, "stats", query=query), reading(list[SubscriptionStats], "items"))
