"""The nouns of topics, as frozen data.

A *topic* is a timeline; a *message* is a place on it (`at_ms`) with a body. A *lease* is a state of a message: while `at_ms`
lies ahead and `lock_consumer_id` is set, that consumer alone may decide. `version` counts the mutations of a message, and
every change names the version that it believes in.

`MessageStage` is what the instant alone does not tell:

    OPEN ──lease──► OPEN                      more attempts are left
      └───lease──► LAST ──lease ends──► DEAD  the last attempt; it dies when its lease ends without a delete
    any ──delete──► GONE                      still known, so that the same id is not taken for a new message
"""

from collections import Counter
from enum import IntEnum

import msgspec


class MessageStage(IntEnum):
    OPEN = 0
    LAST = 1
    DEAD = 2
    GONE = 3


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """When a message that is given back without an instant is due again: after `delay_ms`, then `factor` times as long with
    every attempt, give or take the fraction `jitter`, `max_ms` at most."""

    delay_ms: int = 1000
    factor: float = 2.0
    max_ms: int = 3_600_000
    jitter: float = 0.1


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What the owner of a topic can choose."""

    bucket_count: int = 64
    max_future_ms: int = 365 * 24 * 3_600_000
    max_lease_ms: int = 12 * 3_600_000
    max_body_bytes: int = 262_144
    max_attempts: int = 0
    dead_letter_topic: str | None = None
    dedupe_ms: int = 0
    retry: RetryPolicy = RetryPolicy()


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


class FailedAttempt(msgspec.Struct, frozen=True):
    """Why a consumer gave a message back."""

    attempt: int
    at_ms: int
    consumer_id: str
    reason: str


class StoredMessage(Position, frozen=True):
    """`dead_letter` and `history` (of failed attempts, the latest last) are JSON."""

    is_json: bool
    body: bytes
    dead_letter: str | None
    history: str | None
    schedule_version: int | None = None
    """Of the schedule that made it."""


class MessageFilter(msgspec.Struct, frozen=True):
    """Which messages of a topic are meant: all conditions that are given, of `[from_ms, to_ms)` either or both. None of them
    is all messages. `producer_group` is said by who asks, not by what they ask for."""

    status: str | None = None
    from_ms: int | None = None
    to_ms: int | None = None
    id_prefix: str | None = None
    ids: tuple[str, ...] | None = None
    producer_group: str | None = None


class MessageRanges(msgspec.Struct, frozen=True):
    """Where messages of a status stand: half-open ranges of instants of those that are free, leased or dead, and the stages
    that leased ones are in."""

    free: tuple[int, int]
    leased: tuple[int, int]
    leased_stages: tuple[int, ...]
    dead: tuple[int, int]


class MessagePlace(msgspec.Struct, frozen=True):
    """A place in the order of instants."""

    at_ms: int
    bucket_id: int
    id: str


class BulkChange(msgspec.Struct, frozen=True):
    """How many messages were changed, and how many were left alone because they had changed in the meantime."""

    count: int
    skipped: int = 0


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
    history: str | None = None
    schedule_version: int | None = None


class LeaseClaim(msgspec.Struct, frozen=True):
    """One entry of a request by a consumer about a lease that it believes to hold. Extending needs exactly one of `at_ms`
    and `after_ms`, releasing at most one; `reason` is why a message is released."""

    id: str
    version: int | None
    at_ms: int | None = None
    after_ms: int | None = None
    reason: str | None = None


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


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """Half-open, from `from_ms`; how many messages stand in it. `planned` are firings of schedules to come, which are no
    messages yet; it is left out where there are none."""

    from_ms: int
    waiting: int
    processing: int
    available: int
    planned: int = 0


class Counts(msgspec.Struct, frozen=True):
    waiting: int
    processing: int
    available: int
    dead: int


class TopicDepth(msgspec.Struct, frozen=True):
    """`oldest_due_ms` is the instant of the message that is due for longest; None when nothing is."""

    topic_id: int
    name: str
    counts: Counts
    oldest_due_ms: int | None


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


class Redriven(msgspec.Struct, frozen=True, omit_defaults=True):
    """`skipped` stayed, and `reasons` says how many of them why: `leased` by a consumer, `topic_gone` where they came from,
    `id_taken` there, `not_a_dead_letter`."""

    moved: int
    skipped: int
    reasons: dict[str, int] = {}

    def __add__(self, other: "Redriven") -> "Redriven":
        reasons = Counter(self.reasons) + Counter(other.reasons)
        return Redriven(self.moved + other.moved, self.skipped + other.skipped, dict(reasons))
