"""Instants and durations as people write them in Python, turned into what the wire wants.

An instant is an aware `datetime`, the same as text (`2026-05-01T09:00:00Z`), or Unix seconds; a duration is a `timedelta`,
text like `90s`, `1h30m` or `2d`, or seconds. Exactly one of the two says when.
"""

from datetime import datetime

from meantime.durations import Duration, in_seconds
from meantime.errors import Invalid

__all__ = ["Duration", "Instant", "milliseconds", "unix_ms", "when"]

Instant = datetime | str | float


def milliseconds(duration: Duration) -> int:
    return round(in_seconds(duration) * 1000)


def unix_ms(instant: Instant) -> int:
    if isinstance(instant, str):
        try:
            instant = datetime.fromisoformat(instant)
        except ValueError:
            raise Invalid(f"{instant!r} is not an instant; write it like 2026-05-01T09:00:00Z") from None
    if not isinstance(instant, datetime):
        return round(instant * 1000)
    if instant.tzinfo is None:
        raise Invalid("a datetime without a time zone is no instant: use datetime.now(timezone.utc) or .astimezone()")
    return round(instant.timestamp() * 1000)


def when(at: Instant | None, after: Duration | None) -> tuple[int | None, int | None]:
    """`(at_ms, after_ms)`, one of which is None."""
    if (at is None) == (after is None):
        raise Invalid("say when: give either `at` (an instant) or `after` (a duration), not both")
    return (None if at is None else unix_ms(at), None if after is None else milliseconds(after))
