"""Instants and durations as people write them in Python, turned into what the wire wants.

An instant is an aware `datetime` or Unix seconds; a duration is a `timedelta` or seconds. Exactly one of the two says when.
"""

from datetime import datetime, timedelta

from meantime.errors import Invalid

Instant = datetime | float
Duration = timedelta | float


def milliseconds(duration: Duration) -> int:
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return round(seconds * 1000)


def unix_ms(instant: Instant) -> int:
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
