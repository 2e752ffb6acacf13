"""`GET /event-types/{name}/events`: the stream of an event type, from cursors that the client keeps."""

import random
from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from meantime.api.bodies import decoded
from meantime.api.call import HttpCall
from meantime.api.streaming import LineStream
from meantime.errors import Malformed
from meantime.json_depth import check_small
from meantime.streams.reading.limits import FLUSH_FOR, LONGEST_FOR, GivenLimits, stream_limits
from meantime.streams.reading.reader import GivenCursor

NotNegative = Annotated[int, Meta(extra_json_schema={"minimum": 0})]
AtLeastOne = Annotated[int, Meta(extra_json_schema={"minimum": 1})]
Text = Annotated[str | int, Meta(description="A number is taken for the text that it looks like.")]


class StreamQuery(msgspec.Struct, kw_only=True):
    """What may be asked of every stream. The bounds are enforced by the slice, after it has found what is to be read."""

    batch_limit: Annotated[AtLeastOne | None, Meta(description="Most events in a line.")] = 1
    stream_limit: Annotated[
        NotNegative | None, Meta(description="The stream ends after so many events; 0: never. Not below batch_limit.")
    ] = 0
    batch_flush_timeout: Annotated[
        NotNegative | None,
        Meta(description=f"Seconds until a line is sent that is not full; 0: {FLUSH_FOR}. Not above stream_timeout."),
    ] = 0
    stream_timeout: Annotated[
        NotNegative | None,
        Meta(description=f"Seconds until the stream ends; 0, or more than {LONGEST_FOR}: about an hour."),
    ] = 0
    stream_keep_alive_limit: Annotated[
        NotNegative | None,
        Meta(description="The stream ends after so many lines in a row without events, in every partition; 0: never."),
    ] = 0


class EventsQuery(StreamQuery, kw_only=True):
    written_at: Annotated[bool, Meta(description="Lines also say when each of their events was written.")] = False
    eager: Annotated[
        bool,
        Meta(
            description="Lines are sent at once with what there is, up to batch_limit. Events of a line have neighbouring "
            "offsets: the cursor of each can be counted back from that of the line."
        ),
    ] = False


class CursorsHeader(msgspec.Struct):
    cursors: Annotated[
        str | None,
        Meta(
            description="A JSON array of cursors: begin after each of them, and read only their partitions. "
            "Without it, begin at the end of every partition.",
            examples=['[{"partition":"0","offset":"BEGIN"}]'],
        ),
    ] = msgspec.field(name="X-Nakadi-Cursors", default=None)


class CursorForm(msgspec.Struct, kw_only=True):
    """`offset` as a batch or a partition showed it, `BEGIN` or `END`."""

    partition: Text
    offset: Text


class CursorDocument(msgspec.Struct, frozen=True):
    partition: str
    offset: str


class BatchLine(msgspec.Struct):
    """A line of a stream. One without `events` keeps the connection alive."""

    cursor: CursorDocument
    events: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    written_at_ms: list[int] | msgspec.UnsetType = msgspec.UNSET


async def events(call: HttpCall[None, EventsQuery]) -> LineStream:
    """Read events as they come

    One line per batch, `{cursor, events}`; lines without `events` keep the connection alive. With `written_at=true` a line
    also has `written_at_ms`, an instant for each event. With `eager=true` no line waits until it is full. 412 when a cursor
    cannot be used; the problem says where to go on.
    """
    name, reading = call.names["name"], call.services.streams.reading
    await reading.catalog.entry(name)
    given = replace(given_limits(call.query), written_at=call.query.written_at, eager=call.query.eager)
    limits = stream_limits(given, spread=random.uniform(-1, 1))
    return LineStream(await reading.open_stream(name, in_header(call.header(b"x-nakadi-cursors")), limits))


def given_limits(query: StreamQuery) -> GivenLimits:
    return GivenLimits(
        query.batch_limit,
        query.stream_limit,
        query.batch_flush_timeout,
        query.stream_timeout,
        query.stream_keep_alive_limit,
    )


def in_header(text: str | None) -> list[GivenCursor]:
    return [] if text is None else given_cursors(small_json(text, "the header X-Nakadi-Cursors"))


def small_json(text: str, what: str) -> Any:
    """JSON that did not come as a body."""
    check_small(text.encode())
    return decoded(text, what)


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
