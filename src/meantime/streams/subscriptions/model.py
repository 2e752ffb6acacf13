"""The nouns of subscriptions, as frozen data."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from meantime.streams.cursors import Cursor
from meantime.streams.model import PartitionKey
from meantime.streams.reading.limits import StreamLimits


@dataclass(frozen=True, slots=True)
class GivenSubscriptionCursor:
    """A place in one of several event types, as a client said it."""

    event_type: str | None
    partition: str | None
    offset: str | None


@dataclass(frozen=True, slots=True)
class SubscriptionDraft:
    """A subscription as a client asks for it."""

    owning_application: str
    event_types: tuple[str, ...]
    consumer_group: str = "default"
    read_from: str = "end"
    initial_cursors: tuple[GivenSubscriptionCursor, ...] = ()
    access: Any = None


@dataclass(frozen=True, slots=True)
class Subscription:
    id: UUID
    owning_application: str
    event_types: tuple[str, ...]
    consumer_group: str
    read_from: str
    initial_cursors: tuple[GivenSubscriptionCursor, ...]
    access: Any
    created_at_ms: int
    updated_at_ms: int


@dataclass(frozen=True, slots=True)
class Committed:
    """How far a partition has been committed, and by which stream on which node it is being read."""

    key: PartitionKey
    cursor: Cursor
    stream_id: UUID | None = None
    node_id: str | None = None


@dataclass(frozen=True, slots=True)
class SubscriptionStreamOptions:
    """What a client asks of a stream of a subscription; without partitions they are assigned."""

    limits: StreamLimits
    max_uncommitted: int = 10
    commit_for: float = 60.0
    direct: frozenset[PartitionKey] | None = None
    key_id: str | None = None
    """The key that opens the stream, and that alone may commit what it sends."""


@dataclass(frozen=True, slots=True)
class PartitionStats:
    partition: int
    state: str
    stream_id: str = ""
    assignment_type: str | None = None
    unconsumed_events: int | None = None
    lag_seconds: int | None = None
