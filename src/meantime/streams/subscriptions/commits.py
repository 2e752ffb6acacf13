"""Committing: what a client says it has done with, checked and moved forward in one statement, on any node."""

from collections.abc import Sequence
from uuid import UUID

from prometheus_client import Counter

from meantime.errors import BadCursor, Forbidden, Invalid
from meantime.metrics import REGISTRY
from meantime.streams.cursors import Cursor, NamedPosition, partition_timelines
from meantime.streams.model import PartitionKey
from meantime.streams.subscriptions.model import GivenSubscriptionCursor, Subscription
from meantime.streams.subscriptions.store import CommitResult, stored
from meantime.streams.subscriptions.stream_ids import opened_with
from meantime.streams.subscriptions.subscriptions import Subscriptions

COMMITS = Counter("meantime_commits_total", "Cursors committed.", registry=REGISTRY)


async def commit(
    subscriptions: Subscriptions,
    subscription: Subscription,
    stream_id: str,
    given: Sequence[GivenSubscriptionCursor],
    key_id: str | None = None,
) -> list[bool]:
    """Whether each cursor moved, in order. A stream that does not hold one of the partitions commits nothing, nor does
    anybody with another key than the one that has opened it."""
    stream = _stream_id(stream_id)
    if key_id is not None and not opened_with(stream, key_id):
        await _refuse(subscriptions, subscription, stream)
    wanted = [await _checked(subscriptions, subscription, stream, place) for place in given]
    highest: dict[PartitionKey, Cursor] = {}
    for key, cursor in wanted:
        highest[key] = max(cursor, highest.get(key, cursor))
    moved = await subscriptions.store.commit(subscription.id, stream, subscriptions.node_id, highest)
    for key, outcome in moved.items():
        if outcome.stream_id != stream:
            raise Invalid(f"stream {stream_id!r} does not hold {key[0]}:{key[1]}; nothing was committed")
        _tell(subscriptions, stream, key, highest[key], outcome)
    return _results(wanted, moved)


async def _refuse(subscriptions: Subscriptions, subscription: Subscription, stream_id: UUID) -> None:
    cursors = await subscriptions.store.cursors(subscription.id)
    if any(committed.stream_id == stream_id for committed in cursors.values()):
        raise Forbidden(f"stream {str(stream_id)!r} was opened with another key; nothing was committed")
    raise Invalid(f"stream {str(stream_id)!r} holds no partition of this subscription; nothing was committed")


def _stream_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise Invalid(f"{text!r} is not the id of a stream") from None


async def _checked(
    subscriptions: Subscriptions, subscription: Subscription, stream_id: UUID, given: GivenSubscriptionCursor
) -> tuple[PartitionKey, Cursor]:
    key, place = await subscriptions.parsed(subscription.event_types, given)
    if isinstance(place, NamedPosition):
        raise BadCursor("malformed", f"{given.offset!r} cannot be committed: use the cursor of a batch")
    catalog = subscriptions.reading.catalog
    entry = await catalog.entry(key[0])
    if place.order > entry.active.order:
        entry = await catalog.reload(key[0])
    partition_timelines(entry.timelines, key[1]).settled(place)
    stream = subscriptions.streams.get(stream_id)
    reached = stream.reached(key) if stream is not None else None
    if reached is None:
        reached = await subscriptions.reading.offsets(entry).end(key[1])
    if stored(place) > stored(reached):
        raise BadCursor("beyond_end", f"{given.offset!r} was not sent to stream {str(stream_id)!r}")
    return key, stored(place)


def _tell(subscriptions: Subscriptions, stream_id: UUID, key: PartitionKey, cursor: Cursor, outcome: CommitResult) -> None:
    if outcome.moved:
        COMMITS.inc()
        if (stream := subscriptions.streams.get(stream_id)) is not None:
            stream.commit(key, cursor)


def _results(wanted: Sequence[tuple[PartitionKey, Cursor]], moved: dict[PartitionKey, CommitResult]) -> list[bool]:
    """A cursor was committed if it went beyond everything before it."""
    reached = {key: outcome.before for key, outcome in moved.items()}
    results = []
    for key, cursor in wanted:
        committed = moved[key].moved and cursor > reached[key]
        results.append(committed)
        if committed:
            reached[key] = cursor
    return results
