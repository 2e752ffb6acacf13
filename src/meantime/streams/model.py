"""The nouns of streams, as frozen data.

An *event type* has an ordered list of *timelines*; each lives in a topic of a *storage*, which is a Kafka cluster. The
last timeline is active and takes the writes; the others are closed, and `latest_offsets` says where each partition ends.
"""

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

UNDEFINED = "undefined"
BUSINESS = "business"
DATA = "data"
CATEGORIES = (UNDEFINED, BUSINESS, DATA)

RANDOM = "random"
HASH = "hash"
USER_DEFINED = "user_defined"
STRATEGIES = (RANDOM, HASH, USER_DEFINED)

PartitionKey = tuple[str, int]
"""An event type and a partition of it."""


@dataclass(frozen=True, slots=True)
class EventType:
    """What was declared. `document` is the whole declaration as the outside sees it; the rest is what decisions need."""

    name: str
    category: str
    partition_strategy: str
    partition_key_fields: tuple[str, ...]
    partitions: int
    retention_ms: int
    cleanup_policy: str
    adopt_topic: str | None
    document: dict[str, Any]
    version: int = 1
    adopt_storage_id: str | None = None
    created_at_ms: int = 0
    updated_at_ms: int = 0

    def with_adopted_shown(self) -> "EventType":
        """Its document says which topic of which storage was adopted, if one was."""
        if self.adopt_topic is None:
            return self
        return replace(self, document=self.document | shown_adoption(self.adopt_topic, self.adopt_storage_id))


def shown_adoption(topic: str | None, storage_id: str | None) -> dict[str, str | None]:
    """The part of a document that tells of an adopted topic; it is kept in columns of its own."""
    return {} if topic is None else {"adopt_topic": topic, "adopt_storage_id": storage_id}


@dataclass(frozen=True, slots=True)
class Timeline:
    """One stretch of an event type's life. `latest_offsets` is by partition, -1 where nothing was ever written, and None
    while the timeline is active. Writes came at `switched_at_ms` and left at `closed_at_ms`; the topic is dropped at
    `cleaned_up_at_ms` (planned) and then `deleted`. A fake timeline has order 0 and no id."""

    id: UUID | None
    event_type: str
    order: int
    storage_id: str
    topic: str
    partitions: int
    created_at_ms: int
    switched_at_ms: int | None = None
    closed_at_ms: int | None = None
    latest_offsets: tuple[int, ...] | None = None
    cleaned_up_at_ms: int | None = None
    deleted: bool = False

    @property
    def fake(self) -> bool:
        return self.order == 0

    @property
    def closed(self) -> bool:
        return self.latest_offsets is not None
