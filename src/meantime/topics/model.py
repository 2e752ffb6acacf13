"""The nouns of topics, as frozen data.

A *topic* is a timeline; a *message* is a place on it (`at_ms`) with a body. A *lease* is a state of a message: while `at_ms`
lies ahead and `lock_consumer_id` is set, that consumer alone may decide. `version` counts the mutations of a message, and
every change names the version that it believes in.

`MessageStage` is what the instant alone does not tell:

    OPEN ──lease──► OPEN                      more attempts are left
      └───lease──► LAST ──lease ends──► DEAD  the last attempt; it dies when its lease ends without a delete
    any ──delete──► GONE                      still known, so that the same id is not taken for a new message
"""

from enum import IntEnum

import msgspec


class MessageStage(IntEnum):
    OPEN = 0
    LAST = 1
    DEAD = 2
    GONE = 3


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner of a topic can choose."""

    bucket_count: int = 64
    max_future_ms: int = 365 * 24 * 3_600_000
    max_lease_ms: int = 12 * 3_600_000
    max_body_bytes: int = 262_144
    max_attempts: int = 0
    dead_letter_topic: str | None = None
    dedupe_ms: int = 0


class Topic(msgspec.Struct, frozen=True):
    """`revision` changes with every change of the settings; statements name the one that they believe in."""

    topic_id: int
    name: str
    revision: int
    settings: Settings


class MessageDraft(msgspec.Struct, frozen=True):
    """A message as a producer asks for it, not checked yet. `body` is JSON text as it was given."""

    id: str | None = None
    at_ms: int | None = None
    after_ms: int | None = None
    body: msgspec.Raw = msgspec.Raw()
    body_b64: str | None = None


class NewMessage(msgspec.Struct, frozen=True):
    """A message that has been checked and may be created."""

    id: str
    at_ms: int
    bucket_id: int
    producer_group: str
    is_json: bool
    body: bytes


class Refused(msgspec.Struct, frozen=True):
    """An entry of a batch that makes no sense, and why."""

    id: str | None
    error: str


class Created(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one message of a batch."""

    id: str | None
    status: str
    version: int | None = None
    at_ms: int | None = None
    bucket_id: int | None = None
    error: str | None = None


class Position(msgspec.Struct, frozen=True):
    """All that decisions need to know of a message; in the order of the columns."""

    id: str
    at_ms: int
    stage: int
    version: int
    attempts: int
    bucket_id: int
    producer_group: str
    lock_consumer_id: str | None
    created_for_ms: int


class StoredMessage(Position, frozen=True):
    is_json: bool
    body: bytes
    dead_letter: str | None


class Lease(msgspec.Struct, frozen=True):
    """A message as its holder gets it. `at_ms` is when the lease ends, `due_at_ms` when the message was due."""

    id: str
    version: int
    at_ms: int
    due_at_ms: int
    created_for_ms: int
    attempts: int
    consumer_id: str
    producer_group: str
    is_json: bool
    body: bytes
    dead_letter: str | None


class LeaseClaim(msgspec.Struct, frozen=True):
    """One entry of a request by a consumer about a lease that it believes to hold. Extending and releasing need exactly one
    of `at_ms` and `after_ms`."""

    id: str
    version: int | None
    at_ms: int | None = None
    after_ms: int | None = None


class Outcome(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of one entry: `ok`, or the first reason why nothing was changed."""

    id: str | None
    status: str
    version: int | None = None
    at_ms: int | None = None


class Due(msgspec.Struct, frozen=True):
    """A message that is or soon becomes due, as prefetched: enough to lease it if nothing has changed by then."""

    id: str
    version: int
    bucket_id: int
    at_ms: int


class Slot(msgspec.Struct, frozen=True):
    """Half-open, from `from_ms`; how many messages stand in it."""

    from_ms: int
    waiting: int
    processing: int
    available: int


class Counts(msgspec.Struct, frozen=True):
    waiting: int
    processing: int
    available: int
    dead: int


class Consumer(msgspec.Struct, frozen=True):
    """Somebody who takes messages, wherever in the cluster."""

    topic_id: int
    consumer_id: str
    node_id: str
    mode: str
    buffer: int | None


class ConsumerReport(msgspec.Struct, frozen=True):
    consumer_id: str
    node_id: str
    mode: str
    buckets: list[tuple[int, int]]
    buffer: int | None
    outstanding: int


class Redriven(msgspec.Struct, frozen=True):
    """`skipped` stayed: their topic is gone, or has a message of that id."""

    moved: int
    skipped: int
