"""An event type as a reader of its storages must know it: timelines, their ends, and the clusters that hold them.

The driver learns it over the public API before each batch and hands tasks exact ranges of offsets, so that tasks ask
nobody. The API keeps secrets to itself: credentials for Kafka come with the options, or from PostgreSQL.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

from meantime.errors import Invalid, NotFound
from meantime.kafka.settings import Storage, asks_for_credentials
from meantime.streams.cursors import (
    BEFORE_FIRST,
    Cursor,
    NamedPosition,
    PartitionTimelines,
    parse,
    parse_partition,
    partition_timelines,
)
from meantime.streams.model import Timeline

if TYPE_CHECKING:
    from meantime.sdk import model as wire
    from meantime.sdk.client import Client

Cursors = Mapping[str, Cursor]
"""The place reached, by partition."""


@dataclass(frozen=True, slots=True)
class EventTypeLayout:
    event_type: str
    timelines: tuple[Timeline, ...]
    oldest: Cursors
    """The last place from which nothing that can be read is missed."""
    newest: Cursors

    def track(self, partition: str) -> PartitionTimelines:
        """A switch between the two calls of `look_up` leaves `newest` in a timeline that is closed by now."""
        newest = self.newest[partition]
        high = newest.offset + 1 if newest.order == self.timelines[-1].order else 0
        return partition_timelines(self.timelines, int(partition), high=high)

    def resolved(self, place: str | Mapping[str, str] | None, default: str) -> dict[str, Cursor]:
        """The cursors that an option means; a partition that it does not name begins at `default`."""
        given: Mapping[str, str] = {} if place is None or isinstance(place, str) else place
        for name in given:
            parse_partition(name, len(self.newest))
        rest = place if isinstance(place, str) else default
        return {name: self._place(name, given.get(name, rest)) for name in self.newest}

    def _place(self, partition: str, text: str) -> Cursor:
        place = parse(text)
        if isinstance(place, Cursor):
            return self.track(partition).settled(place)
        return self.oldest[partition] if place is NamedPosition.BEGIN else self.newest[partition]


def look_up(client: "Client", event_type: str) -> EventTypeLayout:
    """The newest places are asked for first: timelines that are read afterwards are sure to reach that far."""
    partitions = client.partitions(event_type)
    timelines = tuple(_timeline(found, len(partitions)) for found in client.timelines(event_type))
    return EventTypeLayout(
        event_type,
        timelines,
        {one.partition: _before(_cursor(one.oldest_available_offset)) for one in partitions},
        {one.partition: _cursor(one.newest_available_offset) for one in partitions},
    )


def storages(client: "Client", settings: Mapping[str, Mapping[str, str]], postgres: str | None = None) -> dict[str, Storage]:
    """All storages, with the settings that the options add; what a storage demands and nobody gives is looked up."""
    found = {one.id: one for one in client.storages()}
    unknown = settings.keys() - {id.lower() for id in found}
    if unknown:
        raise NotFound(f"option 'kafka.{min(unknown)}.…' names no storage: there are {', '.join(sorted(found))}")
    return {id: _storage(one, settings.get(id.lower(), {}), postgres) for id, one in found.items()}


def default_storage(client: "Client", postgres: str | None = None) -> Storage:
    for one in client.storages():
        if one.default:
            return _storage(one, {}, postgres)
    raise Invalid("the cluster has no default storage")


def texts(cursors: Cursors) -> dict[str, str]:
    """Cursors for a checkpoint."""
    return {partition: str(cursor) for partition, cursor in cursors.items()}


def cursors(offset: Mapping[str, str]) -> dict[str, Cursor]:
    """Cursors out of a checkpoint."""
    found = {partition: parse(text) for partition, text in offset.items()}
    return {partition: place for partition, place in found.items() if isinstance(place, Cursor)}


def _storage(found: "wire.Storage", more: Mapping[str, str], postgres: str | None) -> Storage:
    kafka = found.kafka_configuration
    known: Mapping[str, str] = kafka.settings
    if postgres and not more and asks_for_credentials(known):
        from meantime.pipelines.event_types.postgres_storages import registered_settings

        known = registered_settings(postgres, found.id)
    return Storage(found.id, kafka.bootstrap_servers, {**known, **more}, found.default)


def _timeline(found: "wire.Timeline", partitions: int) -> Timeline:
    latest = found.latest_position
    return Timeline(
        id=UUID(found.id) if found.id else None,
        event_type=found.event_type,
        order=found.order,
        storage_id=found.storage_id,
        topic=found.topic,
        partitions=partitions,
        created_at_ms=_unix_ms(found.created_at),
        latest_offsets=None if latest is None else tuple(latest["offsets"]),
        deleted=found.deleted,
    )


def _unix_ms(text: str | None) -> int:
    return 0 if text is None else round(datetime.fromisoformat(text).timestamp() * 1000)


def _cursor(text: str) -> Cursor:
    place = parse(text)
    assert isinstance(place, Cursor), "a partition names its ends by cursors"
    return place


def _before(cursor: Cursor) -> Cursor:
    return Cursor(cursor.order, max(cursor.offset - 1, BEFORE_FIRST))
