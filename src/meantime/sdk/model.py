"""What the API answers, as frozen data. Fields that this version does not know are ignored; absent ones have defaults.

Streams speak RFC 3339 times, topics Unix milliseconds (`*_ms`), timers Unix seconds, as on the wire.
"""

from typing import Any

import msgspec

Event = dict[str, Any]


class Node(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    url: str = ""
    state: str = "healthy"
    reasons: list[Any] = []
    clock_offset_ms: float | None = None
    timelines_version: int | None = None
    release: str = ""


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    offset_ms: float | None = None
    rtt_ms: float | None = None


class ClockReading(msgspec.Struct, frozen=True, kw_only=True):
    now_ms: int
    offset_ms: float | None = None
    error_ms: float | None = None
    peers: list[Peer] = []


class Schema(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    type: str
    schema: str
    version: str | None = None
    created_at: str | None = None


class Statistic(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    read_parallelism: int | None = None
    write_parallelism: int | None = None
    messages_per_minute: int | None = None
    message_size: int | None = None


class EventType(msgspec.Struct, frozen=True, omit_defaults=True):
    """A declaration. Only the name is needed; everything else has a default at the node."""

    name: str
    owning_application: str | None = None
    category: str | None = None
    partition_strategy: str | None = None
    partition_key_fields: list[str] | None = None
    schema: Schema | None = None
    default_statistic: Statistic | None = None
    options: dict[str, Any] | None = None
    enrichment_strategies: list[str] | None = None
    cleanup_policy: str | None = None
    compatibility_mode: str | None = None
    adopt_topic: str | None = None
    ordering_key_fields: list[str] | None = None
    ordering_instance_ids: list[str] | None = None
    audience: str | None = None
    authorization: dict[str, Any] | None = None
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None
    created_at: str | None = None
    updated_at: str | None = None
    adopt_storage_id: str | None = None


class PublishedItem(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one event of a batch."""

    publishing_status: str
    eid: str | None = None
    step: str | None = None
    detail: str | None = None


class Cursor(msgspec.Struct, frozen=True, omit_defaults=True):
    partition: str
    offset: str
    event_type: str | None = None
    cursor_token: str | None = None


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """A line of an event stream: the place reached, and the events up to it."""

    cursor: Cursor
    events: list[Event] = []
    info: dict[str, Any] | None = None


class SubscriptionBatch(msgspec.Struct, frozen=True, kw_only=True):
    """A batch together with the stream it came through, which is what a commit needs."""

    subscription_id: str
    stream_id: str
    cursor: Cursor
    events: list[Event] = []


class Partition(msgspec.Struct, frozen=True, kw_only=True):
    partition: str
    oldest_available_offset: str
    newest_available_offset: str
    unconsumed_events: int | None = None
    start_after: str | None = None


class KafkaConfiguration(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    bootstrap_servers: str
    settings: dict[str, str] = {}


class Storage(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    kafka_configuration: KafkaConfiguration
    storage_type: str = "kafka"
    default: bool = False


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    id: str | None
    event_type: str
    order: int
    storage_id: str
    topic: str = ""
    created_at: str | None = None
    switched_at: str | None = None
    cleaned_up_at: str | None = None
    deleted: bool = False
    latest_position: dict[str, Any] | None = None


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    state: str
    owner: str | None = None
    started_at: str | None = None
    stall_ms: float | None = None
    error: str | None = None
    overtaken: list[str] = []


class Subscription(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    id: str
    owning_application: str = ""
    event_types: list[str] = []
    consumer_group: str = "default"
    read_from: str = "end"
    created_at: str | None = None
    updated_at: str | None = None
    initial_cursors: list[Cursor] | None = None


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    cursor: Cursor
    result: str


class PartitionStats(msgspec.Struct, frozen=True, kw_only=True):
    partition: str
    state: str | None = None
    unconsumed_events: int | None = None
    stream_id: str | None = None
    consumer_lag_seconds: int | None = None
    assignment_type: str | None = None


class SubscriptionStats(msgspec.Struct, frozen=True, kw_only=True):
    event_type: str
    partitions: list[PartitionStats] = []


class Timer(msgspec.Struct, frozen=True, kw_only=True):
    token: str
    at: int
    state: str | None = None
    fired_at_ms: int | None = None
    reason: str | None = None


class TimerSlot(msgspec.Struct, frozen=True, rename={"start": "from"}):
    """`planned` are firings of schedules that are not set yet."""

    start: int
    pending: int
    planned: int = 0

    @property
    def total(self) -> int:
        return self.pending + self.planned
