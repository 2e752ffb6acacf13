"""Messages in time, as topics answer them. Instants are Unix milliseconds (`*_ms`)."""

from typing import Any

import msgspec


class WithBody(msgspec.Struct, frozen=True, kw_only=True):
    """Something with a body: JSON as it was given, or bytes."""

    body: Any = None
    body_b64: bytes | None = None

    @property
    def content(self) -> Any:
        """The body as it was scheduled: bytes come back as bytes."""
        return self.body if self.body_b64 is None else self.body_b64


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    bucket_count: int | None = None
    max_future_ms: int | None = None
    max_lease_ms: int | None = None
    max_body_bytes: int | None = None
    max_attempts: int | None = None
    dead_letter_topic: str | None = None
    dedupe_ms: int | None = None
    counts: dict[str, int] | None = None


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one message of a batch: `created`, `exists` (by an earlier call with this id) or `invalid`."""

    id: str | None = None
    status: str
    version: int | None = None
    at_ms: int | None = None
    bucket_id: int | None = None
    error: str | None = None


class Message(WithBody, frozen=True, kw_only=True):
    id: str
    at_ms: int
    status: str
    version: int
    created_for_ms: int | None = None
    producer_group: str | None = None
    lock_consumer_id: str | None = None
    bucket_id: int | None = None
    attempts: int = 0
    dead_letter: dict[str, Any] | None = None


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
    """`skipped` stayed where they are: their topic is gone, or has a message of that id."""

    moved: int
    skipped: int = 0


class LeasedMessage(WithBody, frozen=True, kw_only=True):
    """A lease as it comes over the wire; it ends at `at_ms` of the broker's clock."""

    id: str
    version: int
    at_ms: int
    attempts: int = 1
    created_for_ms: int | None = None
    producer_group: str | None = None
    dead_letter: dict[str, Any] | None = None


class Slot(msgspec.Struct, frozen=True, kw_only=True):
    """A slice of the future: how many messages stand in it, by status."""

    from_ms: int
    waiting: int = 0
    processing: int = 0
    available: int = 0

    @property
    def total(self) -> int:
        return self.waiting + self.processing + self.available


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
