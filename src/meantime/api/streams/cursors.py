"""Partitions of an event type, and arithmetic with cursors: distances, shifts and lags."""

from typing import Any

import msgspec
from litestar import get, post
from litestar.params import FromPath, FromQuery

from meantime.api.dependencies import TheReading
from meantime.api.identity import AnyRequest, allow
from meantime.api.streams.reading import given_cursor, given_cursors
from meantime.errors import Invalid, Malformed
from meantime.streams.reading import partitions as questions
from meantime.streams.reading.offsets import PartitionState
from meantime.streams.reading.reader import GivenCursor

MOST_CURSORS = 1000
LARGEST_SHIFT = 10**17


class PartitionDocument(msgspec.Struct, frozen=True, omit_defaults=True):
    partition: str
    oldest_available_offset: str
    newest_available_offset: str
    unconsumed_events: int | None = None


class CursorDocument(msgspec.Struct, frozen=True):
    partition: str
    offset: str


class Distance(msgspec.Struct, frozen=True):
    initial_cursor: CursorDocument
    final_cursor: CursorDocument
    distance: int


@get("/event-types/{name:str}/partitions", tags=["streams"], summary="Where each partition begins and ends")
async def list_partitions(
    request: AnyRequest, reading: TheReading, name: FromPath[str], cursors: FromQuery[str | None] = None
) -> list[PartitionDocument]:
    allow(request, "read", name)
    consumed = _array(cursors.encode()) if cursors else []
    return [_partition(state) for state in await questions.partition_states(reading, name, given_cursors(consumed))]


@get("/event-types/{name:str}/partitions/{partition:str}", tags=["streams"], summary="Where a partition begins and ends")
async def show_partition(
    request: AnyRequest,
    reading: TheReading,
    name: FromPath[str],
    partition: FromPath[str],
    consumed_offset: FromQuery[str | None] = None,
) -> PartitionDocument:
    allow(request, "read", name)
    return _partition(await questions.partition_state(reading, name, partition, consumed_offset))


@post(
    "/event-types/{name:str}/cursor-distances",
    tags=["streams"],
    summary="How many events lie between two cursors",
    status_code=200,
)
async def cursor_distances(request: AnyRequest, reading: TheReading, name: FromPath[str]) -> list[Distance]:
    """`initial_cursor` is exclusive, `final_cursor` inclusive; negative backwards."""
    allow(request, "read", name)
    pairs = [_pair(item) for item in _array(await request.body())]
    found = await questions.distances(reading, name, pairs)
    return [
        Distance(_document(initial), _document(final), distance)
        for (initial, final), distance in zip(pairs, found, strict=True)
    ]


@post(
    "/event-types/{name:str}/shifted-cursors",
    tags=["streams"],
    summary="Move cursors forward or back by a number of events",
    status_code=200,
)
async def shifted_cursors(request: AnyRequest, reading: TheReading, name: FromPath[str]) -> list[CursorDocument]:
    allow(request, "read", name)
    shifts = [(given_cursor(item), _shift(item)) for item in _array(await request.body())]
    found = await questions.shifted(reading, name, shifts)
    return [CursorDocument(place.partition, str(place.cursor)) for place in found]


@post("/event-types/{name:str}/cursors-lag", tags=["streams"], summary="How many events are left to read", status_code=200)
async def cursors_lag(request: AnyRequest, reading: TheReading, name: FromPath[str]) -> list[PartitionDocument]:
    allow(request, "read", name)
    cursors = given_cursors(_array(await request.body()))
    return [_partition(state) for state in await questions.lags(reading, name, cursors)]


def _array(body: bytes) -> list[dict[str, Any]]:
    try:
        document = msgspec.json.decode(body)
    except msgspec.DecodeError as error:
        raise Malformed(f"not JSON: {error}") from error
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
    return PartitionDocument(str(state.partition), str(state.oldest), str(state.newest), state.unconsumed)


ROUTES = [list_partitions, show_partition, cursor_distances, shifted_cursors, cursors_lag]
