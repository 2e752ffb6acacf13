"""Which timers have ended lately, so that none ends twice.

A timer ends at or after its second. So for a second that is not older than `complete_since_ms`, a timer that is not
remembered here has not ended; for an older second only the ledger can tell.
"""

from meantime.timers.model import TimerOutcomes, TimerState


class EndedTimers:
    def __init__(self, complete_since_ms: int) -> None:
        self.complete_since_ms = complete_since_ms
        self._tokens: dict[int, set[str]] = {}
        self._touched_ms: dict[int, int] = {}
        self._attempted: set[tuple[str, int]] = set()

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
            self._attempted.discard((token, second))

    def attempt(self, token: str, second: int) -> None:
        """It is about to be published as an event, or was by somebody who did not tell how that ended."""
        self._attempted.add((token, second))

    def has_attempted(self, token: str, second: int) -> bool:
        return (token, second) in self._attempted

    def add_outcomes(self, outcomes: TimerOutcomes) -> None:
        for second, tokens in outcomes.timers:
            for token in tokens:
                if outcomes.state is TimerState.ATTEMPTED:
                    self.attempt(token, second)
                else:
                    self.add(token, second, outcomes.at_ms)

    def forget(self, before_ms: int) -> None:
        """Forget what ended before an instant."""
        for second in [second for second, touched_ms in self._touched_ms.items() if touched_ms < before_ms]:
            self.complete_since_ms = max(self.complete_since_ms, self._touched_ms.pop(second) + 1)
            del self._tokens[second]
