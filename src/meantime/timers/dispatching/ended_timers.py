"""Which timers have ended lately, so that none ends twice.

A timer ends at or after its second. So for a second that is not older than `complete_since_ms`, a timer that is not
remembered here has not ended; for an older second only the ledger can tell.
"""

from meantime.timers.model import TimerOutcomes, TimerState

PERMITTED_FOR = 5.0
"""Seconds after writing an attempt down for which the event may be handed to Kafka's client. A dispatcher is not taken for
dead within them, so nobody else has the timer."""
DELIVERED_FOR = 8.0
"""Seconds after which Kafka's client gives up to write it."""
SETTLED_MS = round((PERMITTED_FOR + DELIVERED_FOR + 1.0) * 1000)
"""After so long an attempt has led to an event, or never will."""


class EndedTimers:
    def __init__(self, complete_since_ms: int) -> None:
        self.complete_since_ms = complete_since_ms
        self._tokens: dict[int, set[str]] = {}
        self._touched_ms: dict[int, int] = {}
        self._attempted: dict[tuple[str, int], int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._tokens.values()))

    def has_ended(self, token: str, second: int) -> bool:
        tokens = self._tokens.get(second)
        return tokens is not None and token in tokens

    def is_complete_for(self, second: int) -> bool:
        """Whether not being remembered means not having ended."""
        return second * 1000 >= self.complete_since_ms

    def add(self, token: str, second: int, at_ms: int) -> None:
        tokens = self._tokens.get(second)
        if tokens is None:
            tokens = self._tokens[second] = set()
        tokens.add(token)
        self._touched_ms[second] = at_ms
        if self._attempted:
            self._attempted.pop((token, second), None)

    def attempt(self, token: str, second: int, settles_ms: int) -> None:
        """It is about to be published as an event, or was by somebody who did not tell how that ended; from `settles_ms` on
        it can be seen whether the event is there."""
        self._attempted[token, second] = settles_ms

    def not_attempted(self, token: str, second: int) -> None:
        """It is certain that it was not published."""
        self._attempted.pop((token, second), None)

    @property
    def open_attempts(self) -> list[tuple[str, int]]:
        return list(self._attempted)

    def settles_ms(self, token: str, second: int) -> int | None:
        """When it can be seen what became of an attempt; None without one."""
        return self._attempted.get((token, second))

    def add_outcomes(self, outcomes: TimerOutcomes) -> None:
        for second, tokens in outcomes.timers:
            for token in tokens:
                if outcomes.state is TimerState.ATTEMPTED:
                    self.attempt(token, second, outcomes.at_ms + SETTLED_MS)
                else:
                    self.add(token, second, outcomes.at_ms)

    def forget(self, before_ms: int) -> None:
        """Forget what ended before an instant."""
        for second in [second for second, touched_ms in self._touched_ms.items() if touched_ms < before_ms]:
            self.complete_since_ms = max(self.complete_since_ms, self._touched_ms.pop(second) + 1)
            del self._tokens[second]
