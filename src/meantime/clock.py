"""The one way to ask for the time.

Everything that compares instants is given a `Clock`; nothing asks the operating system, PostgreSQL or Kafka. Instants
are Unix milliseconds. `SystemClock` can be skewed on purpose, so that tests and the tour can show what a wrong clock does;
`ManualClock` stands still until a test moves it.
"""

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """The present instant in Unix milliseconds."""
        ...


class SystemClock:
    """The machine's clock, wrong by `skew_ms` for the first `skew_for` seconds (0: for ever)."""

    error_us = 0.0

    def __init__(self, skew_ms: int = 0, skew_for: float = 0.0) -> None:
        self._skew_us = skew_ms * 1000
        self._skew_until = time.monotonic() + skew_for if skew_for else float("inf")

    def now_us(self) -> int:
        now_us = time.time_ns() // 1000
        if self._skew_us and time.monotonic() < self._skew_until:
            now_us += self._skew_us
        return now_us

    def now_ms(self) -> int:
        return self.now_us() // 1000


class ManualClock:
    """A clock that stands still until it is moved."""

    error_us = 0.0

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_us = now_ms * 1000

    def now_us(self) -> int:
        return self._now_us

    def now_ms(self) -> int:
        return self._now_us // 1000

    def advance(self, milliseconds: float) -> None:
        self._now_us += int(milliseconds * 1000)


def rfc3339(instant_ms: int) -> str:
    """An instant as streams show it: UTC with milliseconds."""
    text = datetime.fromtimestamp(instant_ms / 1000, UTC).isoformat(timespec="milliseconds")
    return text.removesuffix("+00:00") + "Z"
