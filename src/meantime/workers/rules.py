"""Decisions of workers, pure: times as ZooKeeper has them, when to try again, what a plan was made for."""

import hashlib
import random
import re
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta

GREGORIAN_EPOCH = 122_192_928_000_000_000
"""100 ns units between 1582-10-15, from where `last` counts, and 1970-01-01."""

_LAST = re.compile(r"(\d{1,19})L?")
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def last_of(written_at_ms: int) -> str:
    """The `last` of a queue whose last message was written at this instant."""
    return f"{GREGORIAN_EPOCH + written_at_ms * 10_000}L"


def instant_of(last: str) -> int | None:
    """The Unix milliseconds that a `last` stands for; None when it is empty or no time."""
    found = _LAST.fullmatch(last)
    return (int(found[1]) - GREGORIAN_EPOCH) // 10_000 if found else None


def cursors_up_to(last: str, count: int) -> list[str]:
    """The cursors of so many neighbouring events, the last of which is known: their offsets are the last 18 digits."""
    head, offset = last[:-18], int(last[-18:])
    return [f"{head}{number:018d}" for number in range(offset - count + 1, offset + 1)]


def moment(unix_ms: int) -> datetime:
    return _UNIX_EPOCH + timedelta(milliseconds=unix_ms)


def backoff(attempt: int, delay: float, factor: float, most: float = float("inf")) -> float:
    """Seconds to wait after this attempt, the first being 1."""
    try:
        return min(most, delay * factor ** (attempt - 1))
    except OverflowError:
        return most


def jittered(seconds: float, jitter: float, draw: Callable[[], float] = random.random) -> float:
    """Longer or shorter by up to this fraction, so that what failed together does not come back together."""
    return max(0.0, seconds * (1 + jitter * (2 * draw() - 1)))


def inputs_of(workers: Iterable[str], queues: Iterable[str]) -> str:
    """A name for what a plan was made for; equal for the same workers and queues."""
    text = "\n".join([*sorted(workers), "", *sorted(queues)])
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
