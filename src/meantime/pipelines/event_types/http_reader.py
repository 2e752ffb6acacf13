"""Reads the same ranges over the HTTP stream, where the tasks of `meantime.events` cannot reach Kafka.

A stream is limited to the events of its range, which are counted exactly, so it ends by itself. A broken one goes on where
it stopped.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec

from meantime.errors import Unreachable
from meantime.pipelines.event_types.ranges import Range
from meantime.pipelines.spark.broker import Broker
from meantime.streams.cursors import Cursor

BATCH = 1000
TRIES = 5

Row = tuple[str, str, int, str, int, datetime]


class _Place(msgspec.Struct):
    partition: str
    offset: str


class _Line(msgspec.Struct):
    cursor: _Place
    events: list[msgspec.Raw] = []
    written_at_ms: list[int] = []


def read(broker: Broker, event_type: str, ranges: Iterable[Range]) -> Iterator[Row]:
    headers = {"Authorization": f"Bearer {broker.key}"} if broker.key else {}
    with httpx.Client(base_url=broker.url.split(",")[0], headers=headers, timeout=60.0) as client:
        for wanted in ranges:
            yield from _range(client, event_type, wanted)


def _range(client: httpx.Client, event_type: str, wanted: Range) -> Iterator[Row]:
    reached, failures = wanted.first, 0
    while reached < wanted.end:
        try:
            for row in _stream(client, event_type, wanted, reached):
                reached = row[2] + 1
                yield row
        except httpx.TransportError as error:
            failures += 1
            if failures == TRIES:
                raise Unreachable(f"the stream of {event_type!r} broke {TRIES} times: {error}") from error


def _stream(client: httpx.Client, event_type: str, wanted: Range, first: int) -> Iterator[Row]:
    cursor = {"partition": str(wanted.partition), "offset": str(Cursor(wanted.order, first - 1))}
    left = wanted.end - first
    query: dict[str, Any] = {"stream_limit": left, "batch_limit": min(BATCH, left), "batch_flush_timeout": 1}
    headers = {"X-Nakadi-Cursors": msgspec.json.encode([cursor]).decode()}
    target = f"/event-types/{event_type}/events"
    with client.stream("GET", target, params=query | {"written_at": "true"}, headers=headers) as answer:
        if answer.status_code != httpx.codes.OK:
            raise Unreachable(f"cannot read {event_type!r}: {answer.read().decode()[:500]}")
        for text in answer.iter_lines():
            if text.strip():
                yield from _rows(msgspec.json.decode(text, type=_Line), wanted)


def _rows(line: _Line, wanted: Range) -> Iterator[Row]:
    last = int(line.cursor.offset.rsplit("-", 1)[-1]) if line.events else 0
    first = last - len(line.events) + 1
    for offset, event, written_ms in zip(range(first, last + 1), line.events, line.written_at_ms, strict=True):
        cursor = str(Cursor(wanted.order, offset))
        written_at = datetime.fromtimestamp(written_ms / 1000, UTC)
        yield bytes(event).decode(), str(wanted.partition), offset, cursor, wanted.order, written_at
