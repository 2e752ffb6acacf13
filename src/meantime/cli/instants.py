"""Durations and instants as people type them: `90s`, `1h30m`, `2d`; `2026-05-01T09:00:00Z`, `2026-05-01 09:00`, `now`.

How they are shown is said in `meantime.readable`.
"""

import re
from datetime import datetime

import typer

from meantime.durations import parse_duration
from meantime.readable import clock_time, from_now, human, readable

__all__ = ["clock_time", "from_now", "human", "readable", "seconds", "unix_seconds"]

_NUMBER = re.compile(r"\d+(?:\.\d+)?")


def seconds(text: str) -> float:
    """`1h30m` is 5400."""
    try:
        return parse_duration(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def unix_seconds(text: str, now: float) -> float:
    """An instant: RFC 3339, local time without a zone, Unix seconds or milliseconds, `now`, or `+10m` from now."""
    plain = text.strip()
    if plain.lower() == "now":
        return now
    if plain.startswith("+"):
        return now + seconds(plain[1:])
    if _NUMBER.fullmatch(plain):
        number = float(plain)
        return number / 1000 if number >= 1e11 else number
    try:
        return datetime.fromisoformat(plain).astimezone().timestamp()
    except (ValueError, OverflowError, OSError):
        raise typer.BadParameter(
            f"{text!r} is not an instant; write it like 2026-05-01T09:00:00Z, '2026-05-01 09:00', now or +10m"
        ) from None
