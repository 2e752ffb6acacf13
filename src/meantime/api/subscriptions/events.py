"""Streams of subscriptions: `GET …/events`, and `POST …/events` for those who choose their partitions."""

import random
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from meantime.api.call import HttpCall
from meantime.api.streaming import LineStream
from meantime.api.streams.reading import AtLeastOne, StreamQuery, Text, as_text, given_limits
from meantime.api.subscriptions.documents import MOST_CURSORS, CommittedCursor, allowed, objects_in
from meantime.errors import Invalid, Malformed
from meantime.streams.model import PartitionKey
from meantime.streams.reading.limits import MOST_COMMIT_FOR, commit_timeout, max_uncommitted, stream_limits
from meantime.streams.subscriptions.model import Subscription, SubscriptionStreamOptions
from meantime.streams.subscriptions.subscriptions import Subscriptions

CommitTimeout = Annotated[int, Meta(extra_json_schema={"minimum": 0, "maximum": MOST_COMMIT_FOR})]


class ReaderQuery(StreamQuery, kw_only=True):
    max_uncommitted_events: Annotated[
        AtLeastOne | None, Meta(description="Most events that are sent and not committed.")
    ] = 10
    commit_timeout: Annotated[
        CommitTimeout | None, Meta(description=f"Seconds until what was sent has to be committed; 0: {MOST_COMMIT_FOR}.")
    ] = MOST_COMMIT_FOR


class ChosenPartition(msgspec.Struct, kw_only=True):
    event_type: str
    partition: Text


class ReaderForm(ReaderQuery, kw_only=True):
    """Without partitions they are assigned."""

    partitions: Annotated[list[ChosenPartition], Meta(max_length=MOST_CURSORS)] | None = None


class StreamInfo(msgspec.Struct):
    debug: str


class SubscriptionBatch(msgspec.Struct):
    """A line of a stream. One without `events` keeps the connection alive, or says in `info` why the stream ends."""

    cursor: CommittedCursor
    events: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    info: StreamInfo | msgspec.UnsetType = msgspec.UNSET


async def assigned(call: HttpCall[None, ReaderQuery]) -> LineStream:
    """Read a subscription; partitions are assigned

    One line per batch, `{cursor, events}`. Commit cursors with the `X-Nakadi-StreamId` of the answer. 409 when every
    partition has its reader.
    """
    return await _open(call, await allowed(call), call.query, None)


async def chosen(call: HttpCall[dict[str, Any], None]) -> LineStream:
    """Read a subscription from chosen partitions

    One line per batch, `{cursor, events}`. Commit cursors with the `X-Nakadi-StreamId` of the answer. 409 when another
    stream has asked for one of the partitions.
    """
    subscription = await allowed(call)
    asked = ReaderQuery(**{name: _number(call.form, name) for name in ReaderQuery.__struct_fields__})
    direct = await _chosen(call.services.streams.subscriptions, subscription, call.form.get("partitions"))
    return await _open(call, subscription, asked, direct)


async def _open(
    call: HttpCall[Any, Any], subscription: Subscription, asked: ReaderQuery, direct: frozenset[PartitionKey] | None
) -> LineStream:
    options = SubscriptionStreamOptions(
        limits=stream_limits(given_limits(asked), spread=random.uniform(-1, 1)),
        max_uncommitted=max_uncommitted(asked.max_uncommitted_events),
        commit_for=commit_timeout(asked.commit_timeout),
        direct=direct,
        key_id=call.identity.key_id,
    )
    stream = await call.services.streams.subscriptions.open_stream(subscription, options)
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
    if items is None or items == []:
        return None
    keys = {(name, str(partition)): (name, partition) for name, partition in await subscriptions.keys(subscription)}
    named = [(as_text(item.get("event_type")), as_text(item.get("partition"))) for item in objects_in(items)]
    if len(set(named)) != len(named):
        raise Invalid("a partition is named twice")
    if unknown := [f"{name}:{partition}" for name, partition in named if (name, partition) not in keys]:
        raise Invalid(f"some partitions do not belong to the subscription: {', '.join(unknown[:10])}")
    return frozenset(keys[name or "", partition or ""] for name, partition in named)
