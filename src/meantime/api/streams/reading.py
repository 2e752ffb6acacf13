"""`GET /event-types/{name}/events`: the stream of an event type, from cursors that the client keeps."""

import random
from typing import Annotated, Any

import msgspec
from litestar import Request, get
from litestar.params import FromPath, FromQuery, HeaderParameter

from meantime.api.dependencies import TheReading
from meantime.api.identity import allow
from meantime.api.streaming import LineStream
from meantime.errors import Malformed
from meantime.streams.reading.limits import GivenLimits, stream_limits
from meantime.streams.reading.reader import GivenCursor

OptionalInt = FromQuery[int | None]


@get(
    "/event-types/{name:str}/events",
    tags=["streams"],
    summary="Read events as they come",
    description="One line per batch, `{cursor, events}`; lines without `events` keep the connection alive. "
    "With `written_at=true` a line also has `written_at_ms`, an instant for each event.",
)
async def events(
    request: Request[Any, Any, Any],
    reading: TheReading,
    name: FromPath[str],
    cursors: Annotated[str | None, HeaderParameter(name="X-Nakadi-Cursors")] = None,
    batch_limit: OptionalInt = None,
    stream_limit: OptionalInt = None,
    batch_flush_timeout: OptionalInt = None,
    stream_timeout: OptionalInt = None,
    stream_keep_alive_limit: OptionalInt = None,
    written_at: FromQuery[bool] = False,
) -> LineStream:
    allow(request, "read", name)
    given = GivenLimits(batch_limit, stream_limit, batch_flush_timeout, stream_timeout, stream_keep_alive_limit, written_at)
    await reading.catalog.entry(name)
    limits = stream_limits(given, spread=random.uniform(-1, 1))
    return LineStream(await reading.open_stream(name, in_header(cursors), limits))


def in_header(text: str | None) -> list[GivenCursor]:
    if text is None:
        return []
    try:
        return given_cursors(msgspec.json.decode(text))
    except msgspec.DecodeError as error:
        raise Malformed(f"the header X-Nakadi-Cursors is not JSON: {error}") from error


def given_cursors(document: object) -> list[GivenCursor]:
    if not isinstance(document, list) or not all(isinstance(item, dict) for item in document):
        raise Malformed('cursors are a JSON array of objects: [{"partition": "0", "offset": "BEGIN"}]')
    return [given_cursor(item) for item in document]


def given_cursor(item: dict[str, Any]) -> GivenCursor:
    return GivenCursor(as_text(item.get("partition")), as_text(item.get("offset")))


def as_text(value: object) -> str | None:
    """Numbers are taken for the text that they look like, as lenient clients send them."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return value if isinstance(value, str) else None


ROUTES = [events]
