"""Which partition an event goes to, as pure decisions made once per event type.

`random` spreads; `hash` sends equal keys to the same partition, in any process and release; `user_defined` obeys the event.
Partitions are numbered from 0, and named by these numbers as text.
"""

import random
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from meantime.streams.model import HASH, USER_DEFINED, EventType

Event = Mapping[str, Any]
Partitioner = Callable[[Event], int]

_encode = msgspec.json.Encoder(order="deterministic").encode


class NoPartition(Exception):
    """The event does not say where it belongs; the text is for the publisher."""


def partitioner(event_type: EventType) -> Partitioner | None:
    """The rule of an event type; None when any partition will do."""
    if event_type.partition_strategy == HASH:
        return _by_key(key_paths(event_type), event_type.partitions)
    if event_type.partition_strategy == USER_DEFINED:
        return _by_name(event_type.partitions)
    return None


def anywhere(count: int, partitions: int) -> list[int]:
    """Places for `count` events: evenly spread, neighbours together, beginning at random."""
    first, used = int(random.random() * partitions), min(count, partitions)
    if count == 1:
        return [first]
    spread: list[int] = []
    for place in range(used):
        spread += [(first + place) % partitions] * ((place + 1) * count // used - place * count // used)
    return spread


def key_paths(event_type: EventType) -> tuple[tuple[str, ...], ...]:
    """Where the key's fields are found; an event of category `data` has them below `data`."""
    prefix = ("data",) if event_type.category == "data" else ()
    return tuple((*prefix, *field.split(".")) for field in event_type.partition_key_fields)


def key_of(event: Event, paths: tuple[tuple[str, ...], ...]) -> bytes:
    return _encode([_field(event, path) for path in paths])


def _by_key(paths: tuple[tuple[str, ...], ...], partitions: int) -> Partitioner:
    return lambda event: zlib.crc32(key_of(event, paths)) % partitions


def _by_name(partitions: int) -> Partitioner:
    names = {str(partition): partition for partition in range(partitions)}

    def choose(event: Event) -> int:
        metadata = event.get("metadata")
        named = metadata.get("partition") if isinstance(metadata, dict) else None
        if named is None:
            raise NoPartition("metadata.partition is missing: this event type lets the event name its partition")
        if not isinstance(named, str) or named not in names:
            raise NoPartition(f"metadata.partition {named!r} is none of this event type's {partitions} partitions")
        return names[named]

    return choose


def _field(event: Event, path: tuple[str, ...]) -> Any:
    """A field may be nested, or have dots in its own name."""
    value: Any = event
    for depth, name in enumerate(path):
        if not isinstance(value, dict):
            value = None
            break
        rest = ".".join(path[depth:])
        if rest in value:
            value = value[rest]
            break
        value = value.get(name)
    if value is None:
        raise NoPartition(f"the key field {'.'.join(path)!r} is missing")
    return value
