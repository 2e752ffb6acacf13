"""Streams of subscriptions: `GET …/events`, and `POST …/events` for those who choose their partitions."""

import random
from typing import Any

from litestar import get, post
from litestar.params import FromPath

from meantime.api.bodies import read_object
from meantime.api.dependencies import TheSubscriptions
from meantime.api.identity import AnyRequest
from meantime.api.streaming import LineStream
from meantime.api.streams.reading import OptionalInt, as_text
from meantime.api.subscriptions.documents import allowed, objects_in
from meantime.errors import Invalid, Malformed
from meantime.streams.model import PartitionKey
from meantime.streams.reading.limits import GivenLimits, commit_timeout, max_uncommitted, stream_limits
from meantime.streams.subscriptions.model import Subscription, SubscriptionStreamOptions
from meantime.streams.subscriptions.subscriptions import Subscriptions

DESCRIPTION = "One line per batch, `{cursor, events}`. Commit cursors with the `X-Nakadi-StreamId` of the answer."


@get(
    "/subscriptions/{id:str}/events",
    tags=["subscriptions"],
    summary="Read a subscription; partitions are assigned",
    description=DESCRIPTION,
)
async def events(
    request: AnyRequest,
    subscriptions: TheSubscriptions,
    id: FromPath[str],
    max_uncommitted_events: OptionalInt = None,
    batch_limit: OptionalInt = None,
    stream_limit: OptionalInt = None,
    batch_flush_timeout: OptionalInt = None,
    stream_timeout: OptionalInt = None,
    stream_keep_alive_limit: OptionalInt = None,
    commit_timeout: OptionalInt = None,
) -> LineStream:
    subscription = await allowed(request, subscriptions, id)
    given = GivenLimits(batch_limit, stream_limit, batch_flush_timeout, stream_timeout, stream_keep_alive_limit)
    return await _open(subscriptions, subscription, _options(given, max_uncommitted_events, commit_timeout, None))


@post(
    "/subscriptions/{id:str}/events",
    tags=["subscriptions"],
    summary="Read a subscription from chosen partitions",
    description=DESCRIPTION,
    status_code=200,
)
async def events_of_partitions(request: AnyRequest, subscriptions: TheSubscriptions, id: FromPath[str]) -> LineStream:
    subscription = await allowed(request, subscriptions, id)
    body = await read_object(request)
    given = GivenLimits(
        batch_limit=_number(body, "batch_limit"),
        stream_limit=_number(body, "stream_limit"),
        batch_flush_timeout=_number(body, "batch_flush_timeout"),
        stream_timeout=_number(body, "stream_timeout"),
        stream_keep_alive_limit=_number(body, "stream_keep_alive_limit"),
    )
    options = _options(
        given,
        _number(body, "max_uncommitted_events"),
        _number(body, "commit_timeout"),
        await _chosen(subscriptions, subscription, body.get("partitions")),
    )
    return await _open(subscriptions, subscription, options)


def _options(
    given: GivenLimits, uncommitted: int | None, commit_within: int | None, direct: frozenset[PartitionKey] | None
) -> SubscriptionStreamOptions:
    return SubscriptionStreamOptions(
        limits=stream_limits(given, spread=random.uniform(-1, 1)),
        max_uncommitted=max_uncommitted(uncommitted),
        commit_for=commit_timeout(commit_within),
        direct=direct,
    )


async def _open(subscriptions: Subscriptions, subscription: Subscription, options: SubscriptionStreamOptions) -> LineStream:
    stream = await subscriptions.open_stream(subscription, options)
    return LineStream(stream, headers={"X-Nakadi-StreamId": str(stream.id)})


def _number(body: dict[str, Any], name: str) -> int | None:
    value = body.get(name)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
        raise Malformed(f"{name} has to be a whole number")
    return value


async def _chosen(subscriptions: Subscriptions, subscription: Subscription, items: object) -> frozenset[PartitionKey] | None:
    """The partitions that the client names; none means that they are assigned to it."""
    if not items:
        return None
    keys = {(name, str(partition)): (name, partition) for name, partition in await subscriptions.keys(subscription)}
    named = [(as_text(item.get("event_type")), as_text(item.get("partition"))) for item in objects_in(items)]
    if len(set(named)) != len(named):
        raise Invalid("a partition is named twice")
    if unknown := [f"{name}:{partition}" for name, partition in named if (name, partition) not in keys]:
        raise Invalid(f"some partitions do not belong to the subscription: {', '.join(unknown[:10])}")
    return frozenset(keys[name or "", partition or ""] for name, partition in named)


ROUTES = [events, events_of_partitions]
