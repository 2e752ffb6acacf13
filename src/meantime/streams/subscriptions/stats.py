"""How a subscription is doing: who reads what, how much is left, how old the oldest unread event is."""

from collections.abc import Mapping
from dataclasses import replace

from meantime.errors import BadCursor
from meantime.streams.cursors import Cursor, NamedPosition
from meantime.streams.model import PartitionKey
from meantime.streams.reading.offsets import TimelineOffsets
from meantime.streams.subscriptions.model import Committed, PartitionStats, Subscription
from meantime.streams.subscriptions.rules import ConnectedStream, plan
from meantime.streams.subscriptions.stream import as_known
from meantime.streams.subscriptions.subscriptions import Subscriptions

Stats = dict[PartitionKey, PartitionStats]


async def stats(subscriptions: Subscriptions, subscription: Subscription, *, with_ages: bool = False) -> Stats:
    """All partitions. The age of what is next to be read has to be fetched, so it is told only on request."""
    keys = await subscriptions.keys(subscription)
    committed = await subscriptions.store.cursors(subscription.id)
    registry = subscriptions.registry(subscription.id)
    await registry.look()
    found = assignments(keys, registry.readers, registry.owners)
    offsets = {
        name: subscriptions.reading.offsets(await subscriptions.reading.catalog.entry(name))
        for name in subscription.event_types
    }
    next_places: dict[PartitionKey, Cursor] = {}
    for key in committed.keys() & found.keys():
        next_places[key], left = await _unread(offsets[key[0]], committed[key])
        found[key] = replace(found[key], unconsumed_events=left)
    if with_ages:
        unread = {key: place for key, place in next_places.items() if found[key].unconsumed_events}
        ages = await _ages(subscriptions, offsets, unread)
        found |= {key: replace(found[key], lag_seconds=ages.get(key, 0)) for key in next_places}
    return found


def assignments(keys: list[PartitionKey], readers: list[ConnectedStream], owners: Mapping[PartitionKey, str]) -> Stats:
    planned = plan(keys, readers, owners)
    by_stream = {reader.stream_id: reader for reader in readers}
    return {key: _assignment(key, owners.get(key), planned.get(key), by_stream) for key in keys}


def _assignment(
    key: PartitionKey, owner: str | None, planned: str | None, readers: Mapping[str, ConnectedStream]
) -> PartitionStats:
    reader = readers.get(owner or "")
    if owner is None or (reader is None and planned is None):
        return PartitionStats(key[1], "unassigned")
    kind = "direct" if reader is not None and reader.direct is not None else "auto"
    return PartitionStats(key[1], "assigned" if planned == owner else "reassigning", owner, kind)


async def _unread(offsets: TimelineOffsets, committed: Committed) -> tuple[Cursor, int]:
    """Where the next reader would go on, and how much there is to read from there."""
    partition = committed.key[1]
    place: Cursor | NamedPosition = as_known(offsets.entry, committed.cursor)
    try:
        start = await offsets.readable(partition, place)
    except BadCursor:
        start = await offsets.readable(partition, NamedPosition.BEGIN)
    return start, await offsets.lag(partition, start)


async def _ages(
    subscriptions: Subscriptions, offsets: Mapping[str, TimelineOffsets], places: Mapping[PartitionKey, Cursor]
) -> dict[PartitionKey, int]:
    timelines = {
        key: next(timeline for timeline in offsets[key[0]].entry.timelines if timeline.order == place.order)
        for key, place in places.items()
    }
    wanted = {key: (timelines[key], key[1], place.offset + 1) for key, place in places.items()}
    written = await subscriptions.reading.written_at_ms(wanted)
    return {key: max(0, (subscriptions.clock.now_ms() - at_ms) // 1000) for key, at_ms in written.items()}
