"""Instants and durations as people read them: `2026-11-18 05:20:11.250Z`, `in 3 min`, `1 h 30 min`, `1.5 s`.

Scripts get milliseconds, under names that end in `_ms`; what people are shown comes through here, in tables and in logs.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
_FIRST_INSTANT_MS = 10**11
"""In 1973; fewer milliseconds are a duration."""


def clock_time(unix_ms: float) -> str:
    """An instant, in UTC; milliseconds where it has some."""
    whole = round(unix_ms)
    try:
        moment = _EPOCH + timedelta(milliseconds=whole)
    except OverflowError:
        return "never"
    return moment.strftime("%Y-%m-%d %H:%M:%S") + (f".{whole % 1000:03d}Z" if whole % 1000 else "Z")


def human(seconds: float) -> str:
    """A duration in its two largest units; fractions below a minute."""
    if seconds < 0:
        return f"-{human(-seconds)}"
    if round(seconds * 1000) < 1000:
        return f"{round(seconds * 1000)} ms" if seconds else "0 s"
    if seconds < 59.95:
        return f"{seconds:.3g} s"
    parts, rest = [], round(seconds)
    for unit, length in _UNITS:
        count, rest = divmod(rest, length)
        if count:
            parts.append(f"{count} {unit}")
    return " ".join(parts[:2])


def from_now(unix_ms: float, now_ms: float) -> str:
    """`in 3 min`, `2 h 10 min ago`, `now`: as exactly as it matters at that distance."""
    seconds = abs(unix_ms - now_ms) / 1000
    exactly = next((unit for least, unit in ((86_400, 3_600), (100, 60)) if seconds >= least), 1)
    distance = round(seconds / exactly) * exactly
    if not distance:
        return "now"
    return f"in {human(distance)}" if unix_ms > now_ms else f"{human(distance)} ago"


def readable(name: str, value: Any) -> Any:
    """A field of a document or of a log line: what its name calls milliseconds becomes an instant or a duration."""
    if isinstance(value, Mapping):
        return {inner: readable(name if name.endswith("_ms") else str(inner), part) for inner, part in value.items()}
    if not name.endswith("_ms") or isinstance(value, bool) or not isinstance(value, int | float):
        return value
    return human(value / 1000) if abs(value) < _FIRST_INSTANT_MS else clock_time(value)
