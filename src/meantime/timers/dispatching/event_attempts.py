"""Callbacks into event types, from their second on: attempted, looked up, attempted again.

    is due ──► attempt written down ──► published, refused: ended
      ▲                  ├── certainly not sent ──► again
      │                  └── in doubt ──┐
      └── is not there ◄── looked up ◄──┴── an attempt of somebody else without an end

A timer whose attempt is open is not cancelled any more, since it may have led to an event. While it is open, it is written
down again every now and then: whoever takes the share over remembers the last minute of it.
"""

import time
from collections.abc import Iterable, Mapping

from meantime.clock import Clock
from meantime.timers.dispatching.background_work import BackgroundWork, WorkResult
from meantime.timers.dispatching.ended_timers import SETTLED_MS
from meantime.timers.dispatching.grouping import by_event_type
from meantime.timers.dispatching.held_timers import HeldTimer, HeldTimers
from meantime.timers.model import Future

ANSWERED_MS = 1000
"""After so long it can be seen what became of events that Kafka's client has given up to write."""
REMIND_EVERY = 15.0
NOTHING = Future("", "", b"")


class EventAttempts:
    def __init__(self, shares: Mapping[int, HeldTimers], background: BackgroundWork, clock: Clock) -> None:
        self._shares = shares
        self._background = background
        self._clock = clock
        self._reminded_at = time.monotonic()

    def look_first(self, timers: Iterable[HeldTimer]) -> list[HeldTimer]:
        """Of those whose attempt is open it is looked up what became of them; the others are returned."""
        free: list[HeldTimer] = []
        attempted: list[HeldTimer] = []
        for held in timers:
            is_open = self._shares[held.share].ended_timers.settles_ms(held.token, held.second) is not None
            (attempted if is_open else free).append(held)
        self._look(attempted)
        return free

    def begin(self, timers: list[HeldTimer], until: float) -> None:
        """The attempt is written down: now it may be made, until an instant of the monotonic clock."""
        settles_ms = self._clock.now_ms() + SETTLED_MS
        for held in timers:
            self._shares[held.share].ended_timers.attempt(held.token, held.second, settles_ms)
            self._shares[held.share].mark_in_progress([held])
        for some in by_event_type(timers):
            self._background.publish(some, until)

    def take(self, results: WorkResult) -> None:
        """What came to nothing is made again; where that is not certain, it is looked up first."""
        for held in self._ours(results.unsent):
            self._shares[held.share].ended_timers.not_attempted(held.token, held.second)
            self._shares[held.share].put_back([held])
        settles_ms = self._clock.now_ms() + ANSWERED_MS
        doubtful = self._ours(results.doubtful)
        for held in doubtful:
            self._shares[held.share].ended_timers.attempt(held.token, held.second, settles_ms)
        self._look(doubtful)

    def reminder(self) -> list[HeldTimer]:
        """Now and then, all that are open, to be written down again."""
        if time.monotonic() - self._reminded_at < REMIND_EVERY:
            return []
        self._reminded_at = time.monotonic()
        return [
            HeldTimer(number, token, second, NOTHING, 0)
            for number, share in self._shares.items()
            for token, second in share.ended_timers.open_attempts
        ]

    def _look(self, timers: list[HeldTimer]) -> None:
        now_ms = self._clock.now_ms()
        for some in by_event_type(timers):
            share = self._shares[some[0].share]
            share.mark_in_progress(some)
            settles_ms = max(share.ended_timers.settles_ms(held.token, held.second) or 0 for held in some)
            self._background.look(some, max(0, settles_ms - now_ms) / 1000)

    def _ours(self, timers: Iterable[HeldTimer]) -> list[HeldTimer]:
        return [held for held in timers if held.share in self._shares]
