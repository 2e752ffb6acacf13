"""What a stream of a subscription sends, and what its client still has to commit.

Pure, with the time as a parameter. A stream pauses when `max_uncommitted` events are out; a batch is never larger than what
may still go out. A commit covers every batch up to it. A partition on its way to another stream sends nothing any more.
"""

from collections import deque
from collections.abc import Mapping
from uuid import UUID

import msgspec

from meantime.streams.cursors import Cursor
from meantime.streams.model import PartitionKey
from meantime.streams.reading.batching import MOST_BYTES, Batcher, PartitionOutput
from meantime.streams.reading.limits import StreamLimits
from meantime.streams.reading.stream_format import line


class HeldPartition(PartitionOutput):
    """One partition that the stream holds. `place` is where its client is, `_sent` what it has not committed."""

    def __init__(self, key: PartitionKey, committed: Cursor, place: Cursor, now: float) -> None:
        super().__init__(key, place, now)
        self.committed = committed
        self.leaving = False
        self.uncommitted = 0
        self._sent: deque[tuple[Cursor, int]] = deque()
        self._waiting_since = now
        self.tail = b'","event_type":"%b","cursor_token":"' % key[0].encode()

    def note_sent(self, cursor: Cursor, count: int, now: float) -> None:
        super().note_sent(cursor, count, now)
        if not self.uncommitted:
            self._waiting_since = now
        self._sent.append((_stored(cursor), count))
        self.uncommitted += count

    @property
    def reached(self) -> Cursor:
        """The furthest place that the client can have from here."""
        return max(self.committed, _stored(self.place))

    def commit(self, cursor: Cursor, now: float) -> None:
        self.committed = max(self.committed, cursor)
        self._waiting_since = now
        while self._sent and self._sent[0][0] <= cursor:
            self.uncommitted -= self._sent.popleft()[1]
        if self._sent and self._sent[0][0].order == cursor.order:
            last, count = self._sent[0]
            left = min(count, last.offset - cursor.offset)
            self._sent[0] = (last, left)
            self.uncommitted -= count - left

    def overdue_at(self, commit_for: float) -> float | None:
        """When the client has taken too long to commit; None while it has nothing to."""
        return self._waiting_since + commit_for if self.uncommitted else None


class SubscriptionBatcher(Batcher[HeldPartition]):
    """The lines of all partitions that the stream holds."""

    def __init__(self, stream_id: UUID, limits: StreamLimits, max_uncommitted: int) -> None:
        super().__init__(limits)
        self.stream_id = stream_id
        self._max_uncommitted = max_uncommitted
        self._lines = 0

    @property
    def uncommitted(self) -> int:
        return sum(partition.uncommitted for partition in self.partitions.values())

    @property
    def allowed(self) -> int:
        allowed = self._max_uncommitted - self.uncommitted
        return min(allowed, self.limits.stream_limit - self.sent) if self.limits.stream_limit else allowed

    @property
    def full(self) -> bool:
        """Whether more events would only pile up."""
        waiting = any(partition.buffer.count for partition in self._sending())
        return self.waiting_bytes > MOST_BYTES or (waiting and self.allowed <= 0)

    @property
    def finished(self) -> bool:
        return 0 < self.limits.stream_limit <= self.sent or super().finished

    def debug_line(self, partition: HeldPartition, message: str) -> bytes:
        """A line without events that says something about the stream."""
        info = b',"info":%b' % msgspec.json.encode({"debug": message})
        return line(partition.head, partition.place, self._tail(partition, ()) + info, ())

    def _sending(self) -> list[HeldPartition]:
        return [partition for partition in self.partitions.values() if not partition.leaving]

    def _tail(self, partition: HeldPartition, values: "list[bytes] | tuple[()]") -> bytes:
        """A token looks like a UUID, since some clients insist on it; it names the stream and the line."""
        self._lines += 1
        return b'%b%b%012x"}' % (partition.tail, str(self.stream_id)[:24].encode(), self._lines)


def overdue(held: Mapping[PartitionKey, HeldPartition], commit_for: float, now: float) -> list[HeldPartition]:
    return [each for each in held.values() if (at := each.overdue_at(commit_for)) is not None and at <= now]


def next_overdue_at(held: Mapping[PartitionKey, HeldPartition], commit_for: float) -> float | None:
    return min((at for each in held.values() if (at := each.overdue_at(commit_for)) is not None), default=None)


def _stored(cursor: Cursor) -> Cursor:
    return Cursor(max(cursor.order, 1), cursor.offset)
