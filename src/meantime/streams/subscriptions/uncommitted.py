"""What a stream of a subscription sends, and what its client still has to commit.

Pure, with the time as a parameter. A stream pauses when `max_uncommitted` events are out; a batch is never larger than what
may still go out. A commit covers every batch up to it. A partition on its way to another stream sends nothing any more.
"""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

import msgspec

from meantime.streams.cursors import Cursor
from meantime.streams.reading.batching import MOST_BYTES, Batch, Buffer, line
from meantime.streams.reading.limits import StreamLimits
from meantime.streams.reading.shared_consumer import Key


class Lane:
    """One partition that the stream holds. `place` is where its client is, `sent` what it has not committed."""

    def __init__(self, key: Key, committed: Cursor, place: Cursor, now: float) -> None:
        self.key = key
        self.committed = committed
        self.place = place
        self.sent_at = now
        self.buffer = Buffer()
        self.keep_alives = 0
        self.leaving = False
        self.uncommitted = 0
        self._sent: deque[tuple[Cursor, int]] = deque()
        self._waiting_since = now
        self.head = b'{"cursor":{"partition":"%d","offset":"' % key[1]
        self.tail = b'","event_type":"%b","cursor_token":"' % key[0].encode()

    def note_sent(self, batch: Batch, now: float) -> None:
        if not self.uncommitted:
            self._waiting_since = now
        self.place, self.sent_at, self.keep_alives = batch.cursor, now, 0
        self._sent.append((_stored(batch.cursor), len(batch.values)))
        self.uncommitted += len(batch.values)

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


@dataclass(slots=True)
class Lanes:
    """All partitions that the stream holds."""

    stream_id: UUID
    limits: StreamLimits
    max_uncommitted: int
    held: dict[Key, Lane] = field(default_factory=dict)
    sent: int = 0
    _lines: int = 0

    @property
    def uncommitted(self) -> int:
        return sum(lane.uncommitted for lane in self.held.values())

    @property
    def allowed(self) -> int:
        """How many events may go out now."""
        allowed = self.max_uncommitted - self.uncommitted
        return min(allowed, self.limits.stream_limit - self.sent) if self.limits.stream_limit else allowed

    @property
    def full(self) -> bool:
        """Whether more events would only pile up."""
        waiting = any(lane.buffer.count for lane in self._sending())
        too_many = sum(lane.buffer.bytes for lane in self.held.values()) > MOST_BYTES
        return too_many or (waiting and self.allowed <= 0)

    @property
    def finished(self) -> bool:
        """Whether a limit of the client has been reached."""
        if self.limits.stream_limit and self.sent >= self.limits.stream_limit:
            return True
        limit, sending = self.limits.keep_alive_limit, self._sending()
        return limit > 0 and bool(sending) and all(lane.keep_alives >= limit for lane in sending)

    def due_at(self, now: float) -> float:
        """When the next line must be sent, whatever there is to say."""
        return min((lane.sent_at for lane in self._sending()), default=now) + self.limits.flush_for

    def lines(self, now: float) -> list[bytes]:
        lines: list[bytes] = []
        for lane in self._sending():
            lines += self._lines_of(lane, now)
        return lines

    def rest(self, now: float) -> list[bytes]:
        """At the end of a stream: what waits and may still go out."""
        lines = []
        for lane in self._sending():
            while lane.buffer.count and self.allowed > 0:
                lines.append(self._batch(lane, now))
        return lines

    def _sending(self) -> list[Lane]:
        """Whoever waited longest comes first, so that a busy partition does not keep the others from their turn."""
        return sorted((lane for lane in self.held.values() if not lane.leaving), key=lambda lane: lane.sent_at)

    def _lines_of(self, lane: Lane, now: float) -> list[bytes]:
        lines: list[bytes] = []
        while (allowed := self.allowed) > 0 and lane.buffer.full(min(self.limits.batch_limit, allowed)):
            lines.append(self._batch(lane, now))
        if now - lane.sent_at >= self.limits.flush_for:
            send = lane.buffer.count and self.allowed > 0
            lines.append(self._batch(lane, now) if send else self._keep_alive(lane, now))
        return lines

    def _batch(self, lane: Lane, now: float) -> bytes:
        batch = lane.buffer.take(min(self.limits.batch_limit, self.allowed))
        lane.note_sent(batch, now)
        self.sent += len(batch.values)
        return line(lane.head, batch.cursor, self._tail(lane), batch.values)

    def _keep_alive(self, lane: Lane, now: float) -> bytes:
        lane.sent_at = now
        lane.keep_alives += 1
        return line(lane.head, lane.place, self._tail(lane), ())

    def debug_line(self, lane: Lane, message: str) -> bytes:
        """A line without events that says something about the stream."""
        info = msgspec.json.encode({"debug": message})
        return line(lane.head, lane.place, self._tail(lane) + b',"info":%b' % info, ())

    def _tail(self, lane: Lane) -> bytes:
        """A token looks like a UUID, since some clients insist on it; it names the stream and the line."""
        self._lines += 1
        return b'%b%b%012x"}' % (lane.tail, str(self.stream_id)[:24].encode(), self._lines)


def overdue(lanes: Mapping[Key, Lane], commit_for: float, now: float) -> list[Lane]:
    return [lane for lane in lanes.values() if (at := lane.overdue_at(commit_for)) is not None and at <= now]


def next_overdue_at(lanes: Mapping[Key, Lane], commit_for: float) -> float | None:
    return min((at for lane in lanes.values() if (at := lane.overdue_at(commit_for)) is not None), default=None)


def _stored(cursor: Cursor) -> Cursor:
    return Cursor(max(cursor.order, 1), cursor.offset)
