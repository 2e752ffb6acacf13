"""Events into batches, and batches into the lines of a stream: when a batch is due, what it holds, what it looks like.

Pure, with the time as a parameter. A batch never spans two timelines. It is due when it has `batch_limit` events, when its
timeline is over, or when the partition has been silent for the flush time; with nothing to say it is a keep-alive, which
repeats the place reached. What waits in memory is bounded: beyond `MOST_BYTES` the fullest partition is flushed early.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from meantime.kafka.consumer import Stamped
from meantime.streams.cursors import Cursor
from meantime.streams.reading.limits import StreamLimits

MOST_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class Batch:
    cursor: Cursor
    values: list[bytes]


@dataclass(slots=True)
class _Piece:
    order: int
    first: int
    values: list[bytes]
    taken: int = 0


class Buffer:
    """The events of one partition that wait to be sent, in order."""

    __slots__ = ("_counts", "_pieces", "bytes", "count")

    def __init__(self) -> None:
        self._pieces: deque[_Piece] = deque()
        self._counts: deque[list[int]] = deque()
        self.count = 0
        self.bytes = 0

    def append(self, order: int, first: int, values: list[bytes]) -> None:
        if not values:
            return
        self._pieces.append(_Piece(order, first, values))
        if not self._counts or self._counts[-1][0] != order:
            self._counts.append([order, 0])
        self._counts[-1][1] += len(values)
        self.count += len(values)
        self.bytes += sum(map(len, values))

    def full(self, limit: int) -> bool:
        """Whether a batch of this size can be taken, or one that ends with its timeline."""
        return bool(self._counts) and (self._counts[0][1] >= limit or len(self._counts) > 1)

    def take(self, limit: int) -> Batch:
        """Up to so many events of one timeline; there must be some."""
        order, available = self._counts[0]
        wanted = min(limit, available)
        values: list[bytes] = []
        offset = -1
        while len(values) < wanted:
            offset = self._take_from_first_piece(wanted, values)
        self._forget(values)
        return Batch(Cursor(order, offset), values)

    def _take_from_first_piece(self, wanted: int, values: list[bytes]) -> int:
        piece = self._pieces[0]
        end = min(len(piece.values), piece.taken + wanted - len(values))
        values += piece.values[piece.taken : end]
        piece.taken = end
        if end == len(piece.values):
            self._pieces.popleft()
        return piece.first + end - 1

    def _forget(self, values: list[bytes]) -> None:
        self._counts[0][1] -= len(values)
        if self._counts[0][1] == 0:
            self._counts.popleft()
        self.count -= len(values)
        self.bytes -= sum(map(len, values))


@dataclass(slots=True)
class _Lane:
    """One partition of a stream: what waits, the place reached, when a line was last sent."""

    head: bytes
    place: Cursor
    sent_at: float
    buffer: Buffer
    keep_alives: int = 0


class Batcher:
    """The lines of a low-level stream over some partitions of one event type."""

    def __init__(self, places: Mapping[int, Cursor], limits: StreamLimits, now: float) -> None:
        self._limits = limits
        self._left = limits.stream_limit or None
        self._ready: list[bytes] = []
        self._lanes = {
            partition: _Lane(b'{"cursor":{"partition":"%d","offset":"' % partition, place, now, Buffer())
            for partition, place in places.items()
        }

    @property
    def finished(self) -> bool:
        """Whether a limit of the client has been reached."""
        return self._left == 0 or self._kept_alive_long_enough()

    @property
    def due_at(self) -> float:
        """When the next line must be sent, whatever there is to say."""
        return min(lane.sent_at for lane in self._lanes.values()) + self._limits.flush_for

    def add(self, partition: int, order: int, first: int, values: list[bytes], now: float) -> None:
        if self._left is not None:
            values = values[: self._left]
            self._left -= len(values)
        lane = self._lanes[partition]
        if not lane.buffer.count and len(values) >= self._limits.batch_limit:
            first, values = self._pass_on(lane, order, first, values, now)
        lane.buffer.append(order, first, values)

    def _pass_on(self, lane: _Lane, order: int, first: int, values: list[bytes], now: float) -> tuple[int, list[bytes]]:
        """Full batches need not wait in the buffer; what is left does."""
        whole = len(values) - len(values) % self._limits.batch_limit
        make = timed_lines if self._limits.written_at else full_lines
        self._ready.append(make(lane.head, order, first, values[:whole], self._limits.batch_limit))
        lane.place, lane.sent_at, lane.keep_alives = Cursor(order, first + whole - 1), now, 0
        return first + whole, values[whole:]

    def lines(self, now: float) -> list[bytes]:
        """What is due by now; everything when the stream has had its last event."""
        if self._left == 0:
            return self.rest()
        lines, self._ready = self._ready, []
        for lane in self._lanes.values():
            while lane.buffer.full(self._limits.batch_limit):
                lines.append(self._batch(lane, now))
            if now - lane.sent_at >= self._limits.flush_for:
                lines.append(self._batch(lane, now) if lane.buffer.count else self._keep_alive(lane, now))
        while sum(lane.buffer.bytes for lane in self._lanes.values()) > MOST_BYTES:
            lines.append(self._batch(max(self._lanes.values(), key=lambda lane: lane.buffer.bytes), now))
        return lines

    def rest(self) -> list[bytes]:
        """Whatever waits, batch by batch."""
        lines, self._ready = self._ready, []
        for lane in self._lanes.values():
            while lane.buffer.count:
                lines.append(self._batch(lane, lane.sent_at))
        return lines

    def _batch(self, lane: _Lane, now: float) -> bytes:
        batch = lane.buffer.take(self._limits.batch_limit)
        lane.place, lane.sent_at, lane.keep_alives = batch.cursor, now, 0
        tail = times(batch.values) if self._limits.written_at else b'"}'
        return line(lane.head, batch.cursor, tail, batch.values)

    def _keep_alive(self, lane: _Lane, now: float) -> bytes:
        lane.sent_at = now
        lane.keep_alives += 1
        return line(lane.head, lane.place, b'"}', ())

    def _kept_alive_long_enough(self) -> bool:
        limit = self._limits.keep_alive_limit
        return limit > 0 and all(lane.keep_alives >= limit for lane in self._lanes.values())


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
        line(head, Cursor(order, first + end - 1), b'"}', values[end - limit : end])
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
