"""The nouns of schedules, as frozen data.

A *schedule* is a calendar, a target and a body. Its calendar gives *instants*; each becomes at most one *firing*: a message
of a topic, or a timer. The *cursor* is the instant up to which everything has been dealt with. `version` counts the changes
that a user makes, `revision` every change of the row: who writes names the revision that was read.

`FiringState` is how a firing stands:

    SETTING ──► FIRED ──► CANCELLING ──► CANCELLED     SETTING and CANCELLING: only for timers, which Kafka has to be told
       └──────────┴─────────────────────────┘
    SKIPPED (the message before is still there), MISSED (nobody could fire it in time)
"""

from enum import IntEnum
from typing import Literal

import msgspec

Gap = Literal["after", "skip"]
Fold = Literal["first", "second", "both"]
Missed = Literal["last", "all", "none"]
Overlap = Literal["allow", "skip"]

DAY_MS = 86_400_000
TOPIC, EVENT_TYPE, KAFKA_TOPIC = "topic", "event_type", "kafka_topic"


class FiringState(IntEnum):
    """The numbers are stored."""

    SETTING = 0
    FIRED = 1
    SKIPPED = 2
    MISSED = 3
    CANCELLED = 4
    CANCELLING = 5


class ScheduleTarget(msgspec.Struct, frozen=True, omit_defaults=True):
    """One of three: `topic` with `group`, `event_type`, or `kafka_topic` with `key`."""

    topic: str | None = None
    group: str | None = None
    event_type: str | None = None
    kafka_topic: str | None = None
    key: str | None = None

    @property
    def kind(self) -> str:
        return TOPIC if self.topic is not None else EVENT_TYPE if self.event_type is not None else KAFKA_TOPIC

    @property
    def name(self) -> str:
        return self.topic or self.event_type or self.kafka_topic or ""

    @property
    def label(self) -> str:
        """As lists are filtered by it: `topic:orders`."""
        return f"{self.kind}:{self.name}"


class ScheduleDraft(msgspec.Struct, frozen=True, kw_only=True):
    """A schedule as a user asks for it, not checked yet; None counts as absent."""

    cron: str | None = None
    every_ms: int | None = None
    phase_ms: int | None = None
    at_ms: list[int] | None = None
    time_zone: str | None = None
    target: ScheduleTarget | None = None
    body: msgspec.Raw = msgspec.Raw()
    body_b64: str | None = None
    on_gap: Gap | None = None
    on_overlap: Fold | None = None
    missed: Missed | None = None
    missed_within_ms: int | None = None
    overlap: Overlap | None = None
    jitter_ms: int | None = None
    starts_at_ms: int | None = None
    ends_at_ms: int | None = None
    max_firings: int | None = None
    paused: bool | None = None
    note: str | None = None
    version: int | None = None


class Recurrence(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When: one of `cron`, `every_ms` and `at_ms`, and how wall time becomes instants."""

    cron: str | None = None
    every_ms: int | None = None
    phase_ms: int = 0
    at_ms: tuple[int, ...] | None = None
    time_zone: str = "UTC"
    on_gap: Gap = "after"
    on_overlap: Fold = "first"
    starts_at_ms: int | None = None
    ends_at_ms: int | None = None


class ScheduleDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """What a user has asked for, checked. `body` is a template where `is_json`, else bytes."""

    recurrence: Recurrence
    target: ScheduleTarget
    body: bytes
    is_json: bool = True
    missed: Missed = "last"
    missed_within_ms: int = DAY_MS
    overlap: Overlap = "allow"
    jitter_ms: int = 0
    max_firings: int | None = None


class MovedFiring(msgspec.Struct, frozen=True):
    """The first instant that another release of the time zone data has moved: where it was, and where it is now."""

    from_ms: int | None
    to_ms: int | None


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """As it is stored."""

    id: str
    version: int
    revision: int
    declaration: ScheduleDeclaration
    paused: bool
    note: str | None
    cursor_ms: int
    next_at_ms: int | None
    """The first instant after the cursor; None when there is none, or while it is paused."""
    last_at_ms: int | None
    firings: int
    tzdata: str
    moved: MovedFiring | None
    created_at_ms: int
    changed_at_ms: int


class Firing(msgspec.Struct, frozen=True, kw_only=True):
    """One instant of a schedule and what became of it. `due_at_ms` is the instant with its jitter."""

    schedule_id: str
    at_ms: int
    due_at_ms: int
    version: int
    state: FiringState
    why: str | None = None
    target: str
    """The label of the target that it went to."""
    target_id: str
    """Of the message, or the timer's token."""
    topic_id: int = 0
    """Of the topic that the message is in; 0 for a timer."""
    number: int = 0
    """Which one it is, counted from 1."""
    created_at_ms: int
