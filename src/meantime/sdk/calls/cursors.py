"""Calls that calculate with cursors."""

from collections.abc import Sequence

import msgspec

from meantime.sdk.calls.call import JSON, Call, Response, body, path, reading
from meantime.sdk.model import Cursor, Partition


class _Distance(msgspec.Struct, frozen=True):
    distance: int


_read_distances = reading(list[_Distance])


def distances(event_type: str, pairs: Sequence[tuple[Cursor, Cursor]]) -> Call[list[int]]:
    """How many events lie between two cursors, the first exclusive and the last inclusive.

    >>> client.distances("orders", [(before, after)])
    [17]
    """
    document = [{"initial_cursor": initial, "final_cursor": final} for initial, final in pairs]
    return Call("POST", path("event-types", event_type, "cursor-distances"), _only_distances, body(document), JSON)


def _only_distances(answer: Response) -> list[int]:
    return [item.distance for item in _read_distances(answer)]


def shifted(event_type: str, shifts: Sequence[tuple[Cursor, int]]) -> Call[list[Cursor]]:
    """Each cursor moved by a number of events, backwards when negative."""
    document = [{"partition": cursor.partition, "offset": cursor.offset, "shift": shift} for cursor, shift in shifts]
    return Call("POST", path("event-types", event_type, "shifted-cursors"), reading(list[Cursor]), body(document), JSON)


def lag(event_type: str, cursors: Sequence[Cursor]) -> Call[list[Partition]]:
    """How many events each cursor is behind (`unconsumed_events`)."""
    target = path("event-types", event_type, "cursors-lag")
    return Call("POST", target, reading(list[Partition]), body(list(cursors)), JSON)
