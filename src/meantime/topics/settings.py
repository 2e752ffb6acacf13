"""The settings of a topic: their bounds, and what a change of them may be."""

from typing import Any

import msgspec

from meantime.errors import Conflict, Invalid
from meantime.topics.model import Settings

YEAR_MS = 365 * 24 * 3_600_000

BOUNDS = {
    "bucket_count": (1, 1024),
    "max_future_ms": (1, 100 * YEAR_MS),
    "max_lease_ms": (5, YEAR_MS),
    "max_body_bytes": (1, 16 * 1024 * 1024),
    "max_attempts": (0, 1_000_000),
    "dedupe_ms": (0, YEAR_MS),
}


RETRY_BOUNDS = {"delay_ms": (0, YEAR_MS), "factor": (1, 100), "max_ms": (0, YEAR_MS), "jitter": (0, 1)}


class RetryChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks for of the policy of retries; None keeps what is."""

    delay_ms: int | None = None
    factor: float | None = None
    max_ms: int | None = None
    jitter: float | None = None


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller asks for; None keeps what is."""

    bucket_count: int | None = None
    max_future_ms: int | None = None
    max_lease_ms: int | None = None
    max_body_bytes: int | None = None
    max_attempts: int | None = None
    dead_letter_topic: str | None = None
    dedupe_ms: int | None = None
    retry: RetryChange | None = None


def check(change: SettingsChange) -> None:
    for name, bounds in BOUNDS.items():
        _check(getattr(change, name), name, *bounds)
    for name, bounds in RETRY_BOUNDS.items():
        _check(getattr(change.retry, name, None), f"retry.{name}", *bounds)


def _check(value: float | None, name: str, least: int, most: int) -> None:
    if value is not None and not least <= value <= most:
        raise Invalid(f"{name} must be from {least} to {most}, not {value}", field=name, minimum=least, maximum=most)


def applied(change: SettingsChange, present: Settings | None) -> Settings:
    """The settings after the wish. The number of buckets is for ever: ids would change their bucket."""
    before = present or Settings()
    if present and change.bucket_count not in (None, present.bucket_count):
        raise Conflict(f"bucket_count is {present.bucket_count} and cannot change", bucket_count=present.bucket_count)
    wanted = _given(change)
    if change.retry is not None:
        wanted["retry"] = msgspec.structs.replace(before.retry, **_given(change.retry))
    return msgspec.structs.replace(before, **wanted)


def _given(change: msgspec.Struct) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(change).items() if value is not None}
