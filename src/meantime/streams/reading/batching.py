"""Events into batches: when a batch is due and what it holds, for low-level streams and for streams of subscriptions.

Pure, with the time as a parameter. A batch never spans two timelines. It is due when it has `batch_limit` events, when its
timeline is over, or when the partition has been silent for the flush time; with nothing to say it is a keep-alive, which
repeats the place reached. `Batcher` decides that for both kinds of streams; each kind says how many events may go out now
and how its lines end. A batch of an eager stream is due when there is anything, and ends where offsets have a gap.
"""

import sys
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from meantime.streams.cursors import Cursor
from meantime.streams.model import PartitionKey
from meantime.streams.reading.limits import StreamLimits
from meantime.streams.reading.stream_format import END_OF_CURSOR, full_lines, head_of, line, timed_lines, times

MOST_BYTES: Final = 8 << 20
"""Most bytes of a stream's events that wait in memory."""


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events of one timeline up to and with the one at `cursor`."""

    cursor: Cursor
    values: list[bytes]


@dataclass(slots=True)
class _Chunk:
    """Events of neighbouring offsets; `taken` of them are gone already."""

    order: int
    first: int
    values: list[bytes]
    taken: int = 0


class EventBuffer:
    """The events of one partition that wait to be sent, in order."""

    __slots__ = ("_chunks", "_counts", "bytes", "count")

    def __init__(self) -> None:
        self._chunks: deque[_Chunk] = deque()
        self._counts: deque[list[int]] = deque()
        self.count = 0
        self.bytes = 0

    def append(self, order: int, first: int, values: list[bytes]) -> None:
        if not values:
            return
        self._chunks.append(_Chunk(order, first, values))
        if not self._counts or self._counts[-1][0] != order:
            self._counts.append([order, 0])
        self._counts[-1][1] += len(values)
        self.count += len(values)
        self.bytes += sum(map(len, values))

    def full(self, limit: int) -> bool:
        """Whether a batch of this size can be taken, or one that ends with its timeline."""
        return bool(self._counts) and (self._counts[0][1] >= limit or len(self._counts) > 1)

    def take(self, limit: int) -> EventBatch:
        """Up to so many events of one timeline; there must be some."""
        order, available = self._counts[0]
        wanted = min(limit, available)
        values: list[bytes] = []
        offset = -1
        while len(values) < wanted:
            offset = self._take_from_first_chunk(wanted, values)
        self._forget(values)
        return EventBatch(Cursor(order, offset), values)

    def _take_from_first_chunk(self, wanted: int, values: list[bytes]) -> int:
        chunk = self._chunks[0]
        end = min(len(chunk.values), chunk.taken + wanted - len(values))
        values += chunk.values[chunk.taken : end]
        chunk.taken = end
        if end == len(chunk.values):
            self._chunks.popleft()
        return chunk.first + end - 1

    def take_neighbours(self, limit: int) -> EventBatch:
        """Up to so many events of neighbouring offsets; there must be some."""
        order, values = self._chunks[0].order, list[bytes]()
        offset = self._take_from_first_chunk(limit, values)
        self._forget(values)
        return EventBatch(Cursor(order, offset), values)

    def _forget(self, values: list[bytes]) -> None:
        self._counts[0][1] -= len(values)
        if self._counts[0][1] == 0:
            self._counts.popleft()
        self.count -= len(values)
        self.bytes -= sum(map(len, values))


class PartitionOutput:
    """One partition of a stream: what waits, the place reached, when a line was last sent."""

    def __init__(self, key: PartitionKey, place: Cursor, now: float) -> None:
        self.key = key
        self.place = place
        self.sent_at = now
        self.keep_alives = 0
        self.buffer = EventBuffer()
        self.head = head_of(key[1])

    def note_sent(self, cursor: Cursor, count: int, now: float) -> None:
        """`count` events up to and with `cursor` have gone out."""
        self.place, self.sent_at, self.keep_alives = cursor, now, 0

    def note_keep_alive(self, now: float) -> None:
        self.sent_at = now
        self.keep_alives += 1


P = TypeVar("P", bound=PartitionOutput)


class Batcher(Generic[P]):
    """The lines of a stream over some partitions."""

    def __init__(self, limits: StreamLimits) -> None:
        self.limits = limits
        self.partitions: dict[PartitionKey, P] = {}
        self.sent = 0
        """Events that went out."""

    @property
    def allowed(self) -> int:
        """How many events may go out now."""
        return sys.maxsize

    @property
    def finished(self) -> bool:
        """Whether a limit of the client has been reached."""
        limit = self.limits.keep_alive_limit
        return limit > 0 and min((partition.keep_alives for partition in self._sending()), default=0) >= limit

    @property
    def waiting_bytes(self) -> int:
        return sum(partition.buffer.bytes for partition in self.partitions.values())

    def due_at(self, now: float) -> float:
        """When the next line must be sent, whatever there is to say."""
        return min((partition.sent_at for partition in self._sending()), default=now) + self.limits.flush_for

    def lines(self, now: float) -> list[bytes]:
        """What is due by now."""
        lines: list[bytes] = []
        for partition in self._in_turn():
            lines += self._lines_of(partition, now)
        return lines

    def rest(self, now: float) -> list[bytes]:
        """At the end of a stream: whatever waits and may still go out, batch by batch."""
        lines = []
        for partition in self._in_turn():
            while partition.buffer.count and self.allowed > 0:
                lines.append(self._batch(partition, now))
        return lines

    def _sending(self) -> Iterable[P]:
        """The partitions that may send."""
        return self.partitions.values()

    def _in_turn(self) -> list[P]:
        """Whoever waited longest comes first, so that a busy partition does not keep the others from their turn."""
        return sorted(self._sending(), key=lambda partition: partition.sent_at)

    def _lines_of(self, partition: P, now: float) -> list[bytes]:
        lines: list[bytes] = []
        while (allowed := self.allowed) > 0 and self._has_batch(partition.buffer, min(self.limits.batch_limit, allowed)):
            lines.append(self._batch(partition, now))
        if now - partition.sent_at >= self.limits.flush_for:
            send = partition.buffer.count and self.allowed > 0
            lines.append(self._batch(partition, now) if send else self._keep_alive(partition, now))
        return lines

    def _has_batch(self, buffer: EventBuffer, limit: int) -> bool:
        return buffer.count > 0 if self.limits.eager else buffer.full(limit)

    def _batch(self, partition: P, now: float) -> bytes:
        take = partition.buffer.take_neighbours if self.limits.eager else partition.buffer.take
        batch = take(min(self.limits.batch_limit, self.allowed))
        partition.note_sent(batch.cursor, len(batch.values), now)
        self.sent += len(batch.values)
        return line(partition.head, batch.cursor, self._tail(partition, batch.values), batch.values)

    def _keep_alive(self, partition: P, now: float) -> bytes:
        partition.note_keep_alive(now)
        return line(partition.head, partition.place, self._tail(partition, ()), ())

    def _tail(self, partition: P, values: "list[bytes] | tuple[()]") -> bytes:
        """The end of the cursor, and what follows it before the events."""
        return times(values) if values and self.limits.written_at else END_OF_CURSOR


class StreamBatcher(Batcher[PartitionOutput]):
    """The lines of a low-level stream. Nobody commits, so what waits too long in memory is sent early."""

    def __init__(self, places: Mapping[PartitionKey, Cursor], limits: StreamLimits, now: float) -> None:
        super().__init__(limits)
        self._left = limits.stream_limit or None
        self._ready: list[bytes] = []
        self.partitions = {key: PartitionOutput(key, place, now) for key, place in places.items()}

    @property
    def finished(self) -> bool:
        return self._left == 0 or super().finished

    def add(self, key: PartitionKey, order: int, first: int, values: list[bytes], now: float) -> None:
        if self._left is not None:
            values = values[: self._left]
            self._left -= len(values)
        partition = self.partitions[key]
        if not partition.buffer.count and len(values) >= self.limits.batch_limit:
            first, values = self._pass_on(partition, order, first, values, now)
        partition.buffer.append(order, first, values)

    def lines(self, now: float) -> list[bytes]:
        """What is due by now; everything when the stream has had its last event."""
        if self._left == 0:
            return self.rest(now)
        lines, self._ready = self._ready, []
        lines += super().lines(now)
        while self.waiting_bytes > MOST_BYTES:
            lines.append(self._batch(max(self.partitions.values(), key=lambda each: each.buffer.bytes), now))
        return lines

    def rest(self, now: float) -> list[bytes]:
        lines, self._ready = self._ready, []
        return lines + super().rest(now)

    def _pass_on(
        self, partition: PartitionOutput, order: int, first: int, values: list[bytes], now: float
    ) -> tuple[int, list[bytes]]:
        """Full batches need not wait in the buffer; what is left does."""
        whole = len(values) - len(values) % self.limits.batch_limit
        make = timed_lines if self.limits.written_at else full_lines
        self._ready.append(make(partition.head, order, first, values[:whole], self.limits.batch_limit))
        partition.note_sent(Cursor(order, first + whole - 1), whole, now)
        self.sent += whole
        return first + whole, values[whole:]
