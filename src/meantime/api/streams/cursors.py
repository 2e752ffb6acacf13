"""Partitions of an event type, and arithmetic with cursors: distances, shifts and lags."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from meantime.api.bodies import decoded
from meantime.api.call import HttpCall
from meantime.api.streams.reading import CursorDocument, CursorForm, given_cursor, given_cursors, small_json
from meantime.errors import Invalid, Malformed
from meantime.streams.reading import partitions as questions
from meantime.streams.reading.offsets import PartitionState
from meantime.streams.reading.reader import GivenCursor

MOST_CURSORS = 1000
LARGEST_SHIFT = 10**17
LATEST_MS = 10**15

_AtOnce = Meta(max_length=MOST_CURSORS)


class PartitionDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    partition: str
    oldest_available_offset: str
    newest_available_offset: str
    unconsumed_events: int | None = None
    start_after: str | None = None


class PartitionsQuery(msgspec.Struct):
    cursors: Annotated[
        str | None,
        Meta(
            description=f"A JSON array of at most {MOST_CURSORS} cursors: their partitions also show what is left to read.",
            examples=['[{"partition":"0","offset":"BEGIN"}]'],
        ),
    ] = None
    written_from_ms: Annotated[
        Annotated[int, Meta(ge=0, le=LATEST_MS)] | None,
        Meta(
            description="An instant: `start_after` is the cursor after which the first event lies that was written then or "
            "later, `unconsumed_events` how many there are from there."
        ),
    ] = None


class OffsetQuery(msgspec.Struct):
    consumed_offset: Annotated[str | None, Meta(description="Show also how many events are left to read after it.")] = None


class CursorPair(msgspec.Struct, kw_only=True):
    """`initial_cursor` is exclusive, `final_cursor` inclusive; both are of the same partition."""

    initial_cursor: CursorForm
    final_cursor: CursorForm


class CursorShift(CursorForm, kw_only=True):
    """Negative shifts go back."""

    shift: Annotated[int, Meta(ge=-LARGEST_SHIFT, le=LARGEST_SHIFT)] | None = 0


class Distance(msgspec.Struct, frozen=True):
    initial_cursor: CursorDocument
    final_cursor: CursorDocument
    distance: int


CursorList = Annotated[list[CursorForm], _AtOnce]
Pairs = Annotated[list[CursorPair], _AtOnce]
Shifts = Annotated[list[CursorShift], _AtOnce]


async def list_partitions(call: HttpCall[None, PartitionsQuery]) -> list[PartitionDocument]:
    """Where each partition begins and ends

    The oldest available offset is the first event that can still be read.
    """
    given = call.query.cursors
    consumed = given_cursors(_array(small_json(given, "the query parameter cursors"))) if given else []
    reading, written_from_ms = call.services.streams.reading, call.query.written_from_ms
    states = await questions.partition_states(reading, call.names["name"], consumed, written_from_ms)
    return [_partition(state) for state in states]


async def show_partition(call: HttpCall[None, OffsetQuery]) -> PartitionDocument:
    """Where a partition begins and ends"""
    reading, consumed = call.services.streams.reading, call.query.consumed_offset
    return _partition(await questions.partition_state(reading, call.names["name"], call.names["partition"], consumed))


async def distances(call: HttpCall[bytes, None]) -> list[Distance]:
    """How many events lie between two cursors

    `initial_cursor` is exclusive, `final_cursor` inclusive; negative backwards.
    """
    pairs = [_pair(item) for item in _array(decoded(call.form))]
    found = await questions.distances(call.services.streams.reading, call.names["name"], pairs)
    return [
        Distance(_document(initial), _document(final), distance)
        for (initial, final), distance in zip(pairs, found, strict=True)
    ]


async def shifted(call: HttpCall[bytes, None]) -> list[CursorDocument]:
    """Move cursors forward or back by a number of events

    Forward they may go past the end; 422 for a step before the beginning.
    """
    shifts = [(given_cursor(item), _shift(item)) for item in _array(decoded(call.form))]
    found = await questions.shifted(call.services.streams.reading, call.names["name"], shifts)
    return [CursorDocument(place.partition, str(place.cursor)) for place in found]


async def lags(call: HttpCall[bytes, None]) -> list[PartitionDocument]:
    """How many events are left to read

    One answer for each cursor, in `unconsumed_events`.
    """
    cursors = given_cursors(_array(decoded(call.form)))
    return [_partition(state) for state in await questions.lags(call.services.streams.reading, call.names["name"], cursors)]


def _array(document: object) -> list[dict[str, Any]]:
    if not isinstance(document, list) or not all(isinstance(item, dict) for item in document):
        raise Malformed("a JSON array of objects is needed")
    if len(document) > MOST_CURSORS:
        raise Invalid(f"at most {MOST_CURSORS} at once")
    return document


def _pair(item: dict[str, Any]) -> tuple[GivenCursor, GivenCursor]:
    initial, final = item.get("initial_cursor"), item.get("final_cursor")
    if not isinstance(initial, dict) or not isinstance(final, dict):
        raise Invalid("initial_cursor and final_cursor are needed, each with partition and offset")
    return given_cursor(initial), given_cursor(final)


def _shift(item: dict[str, Any]) -> int:
    shift = item.get("shift")
    if shift is None:
        return 0
    if isinstance(shift, bool) or not isinstance(shift, int) or abs(shift) > LARGEST_SHIFT:
        raise Invalid("shift is a whole number, negative to go back")
    return shift


def _document(given: GivenCursor) -> CursorDocument:
    return CursorDocument(given.partition or "", given.offset or "")


def _partition(state: PartitionState) -> PartitionDocument:
    start_after = None if state.start_after is None else str(state.start_after)
    return PartitionDocument(str(state.partition), str(state.oldest), str(state.newest), state.unconsumed, start_after)
