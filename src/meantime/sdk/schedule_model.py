"""Schedules and their firings, as the API answers them. Instants are Unix milliseconds (`*_ms`), durations too.

Fields that this version does not know are ignored; absent ones have defaults.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _moment(unix_ms: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=unix_ms)


class ScheduleTarget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where firings go: a topic, as messages of a group; an event type; or a Kafka topic with a key."""

    topic: str | None = None
    group: str | None = None
    event_type: str | None = None
    kafka_topic: str | None = None
    key: str | None = None

    def __str__(self) -> str:
        if self.topic is not None:
            return f"topic {self.topic}"
        return f"event type {self.event_type}" if self.event_type is not None else f"Kafka topic {self.kafka_topic}"


class MovedFiring(msgspec.Struct, frozen=True, kw_only=True):
    """The first firing that another release of the time zone data has moved: where it was, and where it is."""

    from_ms: int | None = None
    to_ms: int | None = None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """What recurs, and how far it has come. `next_at_ms` is None where nothing is to come, or while it is paused; `tzdata`
    is the release of the time zone data that its calendar was read with. `too_late`, after a change, are instants of the
    version before that could not be taken back."""

    id: str
    version: int
    target: ScheduleTarget
    cron: str | None = None
    every_ms: int | None = None
    phase_ms: int | None = None
    at_ms: list[int] | None = None
    time_zone: str = "UTC"
    body: Any = None
    body_b64: bytes | None = None
    on_gap: str = "after"
    on_overlap: str = "first"
    missed: str = "last"
    missed_within_ms: int = 86_400_000
    overlap: str = "allow"
    jitter_ms: int = 0
    starts_at_ms: int | None = None
    ends_at_ms: int | None = None
    max_firings: int | None = None
    paused: bool = False
    note: str | None = None
    next_at_ms: int | None = None
    last_at_ms: int | None = None
    firings: int = 0
    tzdata: str | None = None
    created_at_ms: int | None = None
    changed_at_ms: int | None = None
    moved: MovedFiring | None = None
    too_late: list[int] = []

    @property
    def content(self) -> Any:
        """The body as it was given: a template, or bytes."""
        return self.body if self.body_b64 is None else self.body_b64


class PlannedFiring(msgspec.Struct, frozen=True, kw_only=True):
    """An instant at which a schedule will fire; `local` is its wall clock, `note` what a change of the clocks does to it."""

    at_ms: int
    local: str = ""
    note: str | None = None

    @property
    def at(self) -> datetime:
        return _moment(self.at_ms)


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """What became of an instant: `planned`, `fired`, `skipped`, `missed` or `cancelled`, and why. A message has an `id`, a
    timer a `token`. `due_at_ms` is the instant with its jitter, `lateness_ms` by how much it was created after that."""

    at_ms: int
    state: str
    due_at_ms: int | None = None
    why: str | None = None
    id: str | None = None
    token: str | None = None
    version: int | None = None
    created_at_ms: int | None = None
    lateness_ms: int | None = None

    @property
    def at(self) -> datetime:
        return _moment(self.at_ms)


class Fired(msgspec.Struct, frozen=True, kw_only=True):
    """What a call has fired: `count` instants, the first of which are in `at_ms`; `skipped` had been dealt with before."""

    count: int
    at_ms: list[int] = []
    skipped: int = 0


class Paused(msgspec.Struct, frozen=True, kw_only=True):
    """How many schedules a call has paused or resumed, which, and the instants that could not be taken back any more."""

    count: int
    ids: list[str] = []
    too_late: dict[str, list[int]] = {}


class FiringOrigin(msgspec.Struct, frozen=True, kw_only=True):
    """Which firing a message is: the schedule, its version then, and the instant."""

    id: str
    version: int
    at_ms: int

    @property
    def at(self) -> datetime:
        return _moment(self.at_ms)
