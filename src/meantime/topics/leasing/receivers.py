"""Who receives leases on this node: a pull once, a stream as long as it lasts and has room.

A stream's room is its buffer less the leases that its consumer holds, wherever they were taken. What is offered to a
stream waits in its queue and can never be more than the buffer, so that a slow consumer costs memory, not time.

A lease may have been extended, released or deleted at another node whose notification is late or lost. So one whose end has
passed counts until the database has been asked, and so does what a full stream holds that nothing has happened to.
"""

import asyncio
from collections.abc import Mapping, Sequence

from meantime.errors import MeantimeError
from meantime.topics.leasing.prefetch import NEVER_MS
from meantime.topics.model import Lease
from meantime.topics.storage.messages import LeaseDemand


class PendingPull:
    """Ends with the first leases, or with none at its deadline."""

    def __init__(self, consumer_id: str, lease_ms: int, limit: int, deadline_ms: int) -> None:
        self.consumer_id = consumer_id
        self.lease_ms = lease_ms
        self.deadline_ms = deadline_ms
        self.tried = False
        self._limit = limit
        self.answer: asyncio.Future[list[Lease]] = asyncio.get_running_loop().create_future()

    def room(self, _: int) -> int:
        return 0 if self.answer.done() else self._limit

    def offer(self, leases: Sequence[Lease]) -> bool:
        """False when the caller has gone and cannot have them."""
        if self.answer.done():
            return False
        self.answer.set_result(list(leases))
        return True

    def end(self, reason: MeantimeError) -> None:
        if not self.answer.done():
            self.answer.set_exception(reason)


class LeaseStream:
    """`held` is when each lease of the consumer ends, as far as this node knows; `doubtful` when it may not be so; `changes`
    counts what has happened to them."""

    def __init__(self, consumer_id: str, lease_ms: int, buffer: int) -> None:
        self.consumer_id = consumer_id
        self.lease_ms = lease_ms
        self.buffer = buffer
        self.doubtful = False
        self.changes = 0
        self._held: dict[str, int] = {}
        self._next_end_ms = NEVER_MS
        self._changed_while_looking: dict[str, int | None] | None = None
        self._queue: list[Lease] = []
        self._changed = asyncio.Event()
        self._end: MeantimeError | None = None

    def room(self, _: int) -> int:
        return 0 if self._end else max(0, self.buffer - len(self._held))

    @property
    def held(self) -> int:
        """How many leases count against the buffer."""
        return len(self._held)

    def must_look(self, now_ms: int) -> bool:
        """Whether the database has to be asked what the consumer holds: in doubt, and when the end of a lease has passed."""
        if now_ms >= self._next_end_ms:
            self._next_end_ms = min(self._held.values(), default=NEVER_MS)
        return self.doubtful or now_ms >= self._next_end_ms

    @property
    def next_end_ms(self) -> int:
        """When the next lease ends by itself, or sooner."""
        return self._next_end_ms

    def hold(self, message_id: str, end_ms: int | None) -> None:
        """The consumer's lease ends at another instant, or is over (None)."""
        self.changes += 1
        if self._changed_while_looking is not None:
            self._changed_while_looking[message_id] = end_ms
        if end_ms is None:
            self._held.pop(message_id, None)
        else:
            self._held[message_id] = end_ms
            self._next_end_ms = min(self._next_end_ms, end_ms)

    def begin_look(self) -> None:
        self.doubtful = False
        self._changed_while_looking = {}

    def finish_look(self, held: Mapping[str, int]) -> None:
        """What the database says, except for what changed while it was being asked."""
        known = {**held, **(self._changed_while_looking or {})}
        self._changed_while_looking = None
        self._held = {id: end_ms for id, end_ms in known.items() if end_ms is not None}
        self._next_end_ms = min(self._held.values(), default=NEVER_MS)
        self.changes += 1

    def offer(self, leases: Sequence[Lease]) -> bool:
        for lease in leases:
            self.hold(lease.id, lease.at_ms)
        self._queue += leases
        self._changed.set()
        return True

    def end(self, reason: MeantimeError) -> None:
        self._end = reason
        self._changed.set()

    async def next(self, patience: float) -> list[Lease]:
        """All that is waiting to be sent, or nothing after `patience` seconds; raises when the stream has been ended."""
        if not self._queue and not self._end:
            self._changed.clear()
            loop = asyncio.get_running_loop()
            alarm = loop.call_later(patience, self._changed.set)
            try:
                await self._changed.wait()
            finally:
                alarm.cancel()
        if self._end:
            raise self._end
        leases, self._queue = self._queue, []
        return leases


Receiver = PendingPull | LeaseStream


def demands_of(receivers: list[tuple[Receiver, int]]) -> list[LeaseDemand]:
    """What they ask for together: the pulls of one consumer are one demand."""
    rooms: dict[tuple[str, int], int] = {}
    for receiver, room in receivers:
        key = receiver.consumer_id, receiver.lease_ms
        rooms[key] = rooms.get(key, 0) + room
    return [LeaseDemand(*key, room) for key, room in rooms.items()]


def demand_of(receiver: Receiver, room: int) -> LeaseDemand:
    return LeaseDemand(receiver.consumer_id, receiver.lease_ms, room)
