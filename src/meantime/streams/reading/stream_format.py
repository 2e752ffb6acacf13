"""What a line of a stream looks like: a cursor, and the events up to it as the bytes that they are."""

from collections.abc import Iterable

import msgspec

from meantime.kafka.consumer import Stamped
from meantime.streams.cursors import Cursor

END_OF_CURSOR = b'"}'


def head_of(partition: int) -> bytes:
    """How every line of this partition begins."""
    return b'{"cursor":{"partition":"%d","offset":"' % partition


def line(head: bytes, cursor: Cursor, tail: bytes, values: Iterable[bytes]) -> bytes:
    """One line of a stream; events go in as they are, unless they would break the line."""
    events = b",".join(values)
    if not events:
        return b"%b%b%b}\n" % (head, str(cursor).encode(), tail)
    if b"\n" in events or b"\r" in events:
        events = b",".join(map(_on_one_line, values))
    return b'%b%b%b,"events":[%b]}\n' % (head, str(cursor).encode(), tail, events)


def full_lines(head: bytes, order: int, first: int, values: list[bytes], limit: int) -> bytes:
    """Many lines of `limit` events each, of neighbouring offsets in one timeline; the way of most events."""
    start = head + str(Cursor(order, 0)).encode()[:-18]
    if limit == 1:
        lines = [b'%b%018d"},"events":[%b]}\n' % (start, *event) for event in enumerate(values, first)]
    else:
        lines = [
            b'%b%018d"},"events":[%b]}\n' % (start, first + end - 1, b",".join(values[end - limit : end]))
            for end in range(limit, len(values) + 1, limit)
        ]
    block = b"".join(lines)
    if block.count(b"\n") == len(lines) and b"\r" not in block:
        return block
    return b"".join(
        line(head, Cursor(order, first + end - 1), END_OF_CURSOR, values[end - limit : end])
        for end in range(limit, len(values) + 1, limit)
    )


def timed_lines(head: bytes, order: int, first: int, values: list[bytes], limit: int) -> bytes:
    """The same for a reader who wants to know when events were written."""
    batches = ((end, values[end - limit : end]) for end in range(limit, len(values) + 1, limit))
    return b"".join(line(head, Cursor(order, first + end - 1), times(batch), batch) for end, batch in batches)


def times(values: Iterable[bytes]) -> bytes:
    """The end of a cursor, and the instants of these events."""
    instants = b",".join(b"%d" % value.written_at_ms for value in values if isinstance(value, Stamped))
    return b'"},"written_at_ms":[%b]' % instants


def _on_one_line(value: bytes) -> bytes:
    return msgspec.json.format(value, indent=-1)
