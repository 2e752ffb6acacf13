"""Messages in time, as topics answer them. Instants are Unix milliseconds (`*_ms`)."""

from typing import Any

import msgspec

from meantime.sdk.schedule_model import FiringOrigin


class WithBody(msgspec.Struct, frozen=True, kw_only=True):
    """Something with a body: JSON as it was given, or bytes."""

    body: Any = None
    body_b64: bytes | None = None

    @property
    def content(self) -> Any:
        """The body as it was scheduled: bytes come back as bytes."""
        return self.body if self.body_b64 is None else self.body_b64


class FailedAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """Why a consumer gave a message back."""

    attempt: int
    at_ms: int
    consumer_id: str
    reason: str


class WithHistory(WithBody, frozen=True, kw_only=True):
    """A message that may have failed: the latest reason for which it was given back, and the latest such attempts."""

    reason: str | None = None
    history: tuple[FailedAttempt, ...] = ()
    dead_letter: dict[str, Any] | None = None
    schedule: FiringOrigin | None = None
    """The firing that it is, if a schedule has made it."""


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """When a message that is given back without an instant is due again: after `delay_ms`, `factor` times as long with every
    attempt, give or take the fraction `jitter`, `max_ms` at most. Of what is None the topic keeps what it has."""

    delay_ms: int | None = None
    factor: float | None = None
    max_ms: int | None = None
    jitter: float | None = None


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    bucket_count: int | None = None
    max_future_ms: int | None = None
    max_lease_ms: int | None = None
    max_body_bytes: int | None = None
    max_attempts: int | None = None
    dead_letter_topic: str | None = None
    dedupe_ms: int | None = None
    retry: RetryPolicy | None = None
    counts: dict[str, int] | None = None


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one message of a batch: `created`, `exists` (by an earlier call with this id) or `invalid`."""

    id: str | None = None
    status: str
    version: int | None = None
    at_ms: int | None = None
    bucket_id: int | None = None
    error: str | None = None


class Message(WithHistory, frozen=True, kw_only=True):
    id: str
    at_ms: int
    status: str
    version: int
    created_for_ms: int | None = None
    producer_group: str | None = None
    lock_consumer_id: str | None = None
    bucket_id: int | None = None
    attempts: int = 0


class MessagePage(msgspec.Struct, frozen=True, kw_only=True):
    """`next` continues the list; None at its end."""

    messages: tuple[Message, ...]
    next: str | None = None


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    version: int
    at_ms: int


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one id of a batch; `ok`, or the reason why nothing was changed."""

    id: str
    status: str
    version: int | None = None
    at_ms: int | None = None


class Redriven(msgspec.Struct, frozen=True, kw_only=True):
    """`skipped` stayed where they are, and `reasons` says how many of them why: `leased` by a consumer, `topic_gone` where
    they came from, `id_taken` there, `not_a_dead_letter`."""

    moved: int
    skipped: int = 0
    reasons: dict[str, int] = {}


class LeasedMessage(WithHistory, frozen=True, kw_only=True):
    """A lease as it comes over the wire; it ends at `at_ms` of the broker's clock."""

    id: str
    version: int
    at_ms: int
    attempts: int = 1
    created_for_ms: int | None = None
    producer_group: str | None = None


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of the future: how many messages stand in it, by status. `planned` are firings of schedules that are not set
    yet."""

    from_ms: int
    waiting: int = 0
    processing: int = 0
    available: int = 0
    planned: int = 0

    @property
    def total(self) -> int:
        return self.waiting + self.processing + self.available + self.planned


class Consumer(msgspec.Struct, frozen=True, kw_only=True):
    consumer_id: str
    node_id: str = ""
    mode: str = ""
    buckets: tuple[tuple[int, int], ...] = ()
    buffer: int | None = None
    outstanding: int | None = None


class NewMessage(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message to be scheduled, as it goes over the wire."""

    id: str
    at_ms: int | None = None
    after_ms: int | None = None
    body: Any = None
    body_b64: bytes | None = None
