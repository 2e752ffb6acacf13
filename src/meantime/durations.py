"""Durations as people write them: `500ms`, `90s`, `10m`, `1h30m`, `2d`, `1w`, a `timedelta`, or seconds."""

import re
from datetime import timedelta

from meantime.errors import Invalid

Duration = timedelta | str | float

UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h|d|w)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def parse_duration(text: str) -> float:
    """`1h30m` is 5400. A number without a unit could be anything: only `0` needs none."""
    compact = text.strip().lower().replace(" ", "")
    if compact == "0":
        return 0.0
    parts = _PART.findall(compact)
    if parts and "".join(number + unit for number, unit in parts) == compact:
        return sum(float(number) * UNITS[unit] for number, unit in parts)
    if _NUMBER.fullmatch(compact):
        raise ValueError(f"{text!r} has no unit; write {compact}s for seconds, or {compact}ms, {compact}m, {compact}h")
    raise ValueError(f"{text!r} is not a duration; write it like 500ms, 90s, 10m, 1h30m or 2d")


def in_seconds(duration: Duration) -> float:
    if isinstance(duration, timedelta):
        return duration.total_seconds()
    if not isinstance(duration, str):
        return duration
    try:
        return parse_duration(duration)
    except ValueError as error:
        raise Invalid(str(error)) from None
