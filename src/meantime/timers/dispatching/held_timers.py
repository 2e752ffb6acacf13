"""The timers of one partition of `timer-due`, between their arrival and their end. Decides without I/O.

    arrives ──► unverified ──ledger──┐
       │                             ▼
       ├──────────────────────────► held ──is due──► in progress ──► ended (fired, cancelled, rejected)
       └── ended before: dropped     ▲                   │
                                     └── not delivered ──┘

The invariants: a timer is held at most once and ends at most once, however often it arrives; none is fired before its
second, nor before every cancel that came in time has been read (`covered_ms`, `Span.end`); the place of a timer in
`timer-due` is given up only with its end. A timer may arrive twice on purpose: straight from `timer-request` when its second
is near, for speed, and through the Spark job, for safety; a dispatcher that takes over reads again what the Spark job has
not taken in. One that comes through the Spark job after its second may have been cancelled by a request that the job took in
with it and has yet to bring along, so the ledger is asked about it, too.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from meantime.timers.dispatching.ended_timers import EndedTimers
from meantime.timers.dispatching.offset_tracker import OffsetTracker
from meantime.timers.model import CancelRequest, Future, SetRequest, TimerId
from meantime.timers.rules import IN_TIME_MS

NOWHERE = -1
"""The offset of a timer that has only been seen in `timer-request`."""
CATCH_UP_WITHIN_MS = 10_000
"""How long a share that is taken over waits for that, should records be missing."""
TIMER_BYTES = 700
"""What a held timer takes beside its callback."""
LATE_MS = 5_000
"""How late such a timer may be before the ledger is asked: its cancels are read beside it."""


class Span(NamedTuple):
    """Where reading `timer-due` begins, where it ended when that began, and when that was."""

    start: int = 0
    end: int = 0
    began_ms: int = 0


NOTHING = Span()


@dataclass(slots=True, eq=False)
class HeldTimer:
    """A timer on its way. `offset` is its place in `timer-due`."""

    share: int
    token: str
    second: int
    future: Future
    requested_ms: int
    offset: int = NOWHERE


@dataclass(slots=True)
class Cancels:
    """The cancels of one second: by token, their places in `timer-due`. `ahead` of the Spark job are those that it has not
    taken in: their timers may still come through it, however late."""

    touched_ms: int = 0
    places: dict[str, list[int]] = field(default_factory=dict)
    ahead: set[str] = field(default_factory=set)


class HeldTimers:
    def __init__(self, number: int, ended_timers: EndedTimers, span: Span = NOTHING, *, cancels_for: float = 10.0) -> None:
        self.number = number
        self.ended_timers = ended_timers
        self.offsets = OffsetTracker(span.start)
        self._span = span
        self._cancels_for_ms = round(cancels_for * 1000)
        self._buckets: dict[int, dict[str, HeldTimer]] = {}
        self._sizes: dict[int, int] = {}
        self._in_progress: dict[tuple[str, int], HeldTimer] = {}
        self._cancels: dict[int, Cancels] = {}
        self._unverified: list[HeldTimer] = []

    @property
    def held(self) -> int:
        return sum(map(len, self._buckets.values())) + len(self._in_progress)

    @property
    def held_bytes(self) -> int:
        """About how much memory is taken by timers that wait for their second."""
        return sum(self._sizes.values())

    def unsettled(self, now_ms: int) -> bool:
        """Whether something is under way elsewhere, or has yet to be read."""
        return bool(self._in_progress) or not self._caught_up(now_ms)

    def next_second(self) -> int | None:
        return min(self._buckets, default=None)

    def waiting(self, second: int) -> int:
        """How many timers wait for a second."""
        return len(self._buckets.get(second, ()))

    # Arriving

    def set(self, request: SetRequest, now_ms: int, offset: int = NOWHERE) -> None:
        """A timer arrives."""
        if offset != NOWHERE:
            self.offsets.note(offset)
        known = self._find(request.token, request.second)
        if known is not None:
            self._again(known, offset)
        elif self.ended_timers.has_ended(request.token, request.second):
            self._settle(offset)
        else:
            held = HeldTimer(self.number, request.token, request.second, request.future, request.requested_ms, offset)
            self._hold(held, late_ms=now_ms - request.second * 1000)

    def arrives_again(self, timer: TimerId, offset: int) -> bool:
        """Whether a timer that comes through the Spark job is known already; there is nothing more to do with it then."""
        known = self._find(timer.token, timer.second)
        if known is None and not self.ended_timers.has_ended(timer.token, timer.second):
            return False
        self.offsets.note(offset)
        if known is not None:
            self._again(known, offset)
        else:
            self._settle(offset)
        return True

    def cancel(self, request: CancelRequest, now_ms: int, offset: int = NOWHERE) -> None:
        """A cancel arrives; its place is kept for as long as its timer may still come."""
        if offset != NOWHERE:
            self.offsets.note(offset)
        if self.ended_timers.has_ended(request.token, request.second):
            self._settle(offset)
            return
        cancels = self._cancels.setdefault(request.second, Cancels())
        cancels.touched_ms = now_ms
        places = cancels.places.setdefault(request.token, [])
        if offset != NOWHERE:
            places.append(offset)
        else:
            cancels.ahead.add(request.token)

    def taken_in(self, cancel: CancelRequest, now_ms: int, *, far: bool) -> None:
        """The Spark job has a cancel that was read ahead of it, so it comes again with its timer. A far one may be forgotten
        until then; a near one is kept for the usual time, since both may be on their way."""
        cancels = self._cancels.get(cancel.second)
        if cancels is None:
            return
        cancels.ahead.discard(cancel.token)
        cancels.touched_ms = now_ms
        if far and cancels.places.get(cancel.token) == []:
            del cancels.places[cancel.token]

    def drop(self, offset: int) -> None:
        """Something arrived that is neither."""
        self.offsets.note(offset)
        self._settle(offset)

    # Firing

    def pop_due(self, now_ms: int, covered_ms: int) -> tuple[list[HeldTimer], list[HeldTimer]]:
        """The earliest second that is due by `now_ms`: its timers to fire, and those that were cancelled. `now_ms` may lie
        ahead for a caller who lets nothing out before. The caller must call `end`, `put_back`, or `mark_in_progress` for
        what takes longer, before anything else arrives."""
        second = self.next_second()
        if not self._caught_up(now_ms) or second is None or second * 1000 > min(now_ms, covered_ms + IN_TIME_MS):
            return [], []
        bucket = self._buckets.pop(second)
        del self._sizes[second]
        cancels = self._cancels.get(second)
        if cancels is None:
            return list(bucket.values()), []
        fire = [held for token, held in bucket.items() if token not in cancels.places]
        return fire, [held for token, held in bucket.items() if token in cancels.places]

    def end(self, ended: Iterable[HeldTimer], at_ms: int) -> None:
        """These have ended for good."""
        away, add, settle = self._in_progress, self.ended_timers.add, self.offsets.settle
        for held in ended:
            away.pop((held.token, held.second), None)
            add(held.token, held.second, at_ms)
            if held.offset != NOWHERE:
                settle(held.offset)

    def put_back(self, popped: Iterable[HeldTimer]) -> None:
        """These could not be delivered yet, or are believed not to have ended."""
        for held in popped:
            self._in_progress.pop((held.token, held.second), None)
            self._put(held)

    def mark_in_progress(self, popped: Iterable[HeldTimer]) -> None:
        """These are being dealt with elsewhere."""
        for held in popped:
            self._in_progress[held.token, held.second] = held

    def pop_unverified(self) -> list[HeldTimer]:
        """Timers about which the ledger has to be asked. They are away; `end` or `put_back` follows."""
        pop_unverified, self._unverified = self._unverified, []
        return pop_unverified

    def expire(self, now_ms: int, remember_ms: int) -> None:
        """Let go of what is too old to matter."""
        self.ended_timers.forget(now_ms - remember_ms)
        for second, cancels in list(self._cancels.items()):
            over = max(second * 1000, cancels.touched_ms) + self._cancels_for_ms < now_ms
            if over and not cancels.ahead and second not in self._buckets:
                del self._cancels[second]
                for offset in chain.from_iterable(cancels.places.values()):
                    self.offsets.settle(offset)

    def _caught_up(self, now_ms: int) -> bool:
        """Whether what was there at first has been read: a timer's cancel may lie behind it."""
        return self.offsets.has_read(self._span.end) or now_ms > self._span.began_ms + CATCH_UP_WITHIN_MS

    def _find(self, token: str, second: int) -> HeldTimer | None:
        bucket = self._buckets.get(second)
        known = bucket.get(token) if bucket is not None else None
        return known if known is not None or not self._in_progress else self._in_progress.get((token, second))

    def _again(self, known: HeldTimer, offset: int) -> None:
        """The place of a timer known only from its request is kept; a further place is worth nothing."""
        if known.offset == NOWHERE:
            known.offset = offset
        else:
            self._settle(offset)

    def _hold(self, held: HeldTimer, late_ms: int) -> None:
        in_order = late_ms <= (LATE_MS if held.offset == NOWHERE else 0)
        if in_order and self.ended_timers.is_complete_for(held.second):
            self._put(held)
        else:
            self._in_progress[held.token, held.second] = held
            self._unverified.append(held)

    def _put(self, held: HeldTimer) -> None:
        bucket = self._buckets.get(held.second)
        if bucket is None:
            bucket = self._buckets[held.second] = {}
            self._sizes[held.second] = 0
        self._sizes[held.second] += TIMER_BYTES + len(held.future.callback)
        bucket[held.token] = held

    def _settle(self, offset: int) -> None:
        if offset != NOWHERE:
            self.offsets.settle(offset)
