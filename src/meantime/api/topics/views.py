"""What topics answer over HTTP."""

from base64 import b64encode
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from meantime.topics.holders import consumer_of
from meantime.topics.model import (
    ConsumerReport,
    Counts,
    Created,
    FailedAttempt,
    Lease,
    Outcome,
    Settings,
    Slot,
    StoredMessage,
    Topic,
)
from meantime.topics.rules import status

_history = msgspec.json.Decoder(list[FailedAttempt])


class TopicView(Settings, frozen=True):
    name: str


class TopicsView(msgspec.Struct, frozen=True):
    topics: list[TopicView]


class CountedTopicView(TopicView, frozen=True, kw_only=True):
    counts: Counts


class LoadView(msgspec.Struct, frozen=True):
    """`capacity_per_s`: messages per second that the consumers have shown that they can finish; null before they have."""

    slots: list[Slot]
    capacity_per_s: float | None = None


class CountView(msgspec.Struct, frozen=True):
    count: int


class ConsumersView(msgspec.Struct, frozen=True):
    consumers: list[ConsumerReport]


class ScheduleOrigin(msgspec.Struct, frozen=True):
    """The schedule that made a message, its version and the instant."""

    id: str
    version: int
    at_ms: int


class LeaseView(msgspec.Struct, frozen=True):
    """`reason` is why the message was given back last, `history` the latest such attempts; both only where there are any.
    `schedule` is there where a schedule has made it."""

    id: str
    version: int
    at_ms: int
    created_for_ms: int
    attempts: int
    producer_group: str
    body: Raw | UnsetType = UNSET
    body_b64: str | UnsetType = UNSET
    dead_letter: Raw | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    history: list[FailedAttempt] | UnsetType = UNSET
    schedule: ScheduleOrigin | UnsetType = UNSET


class LeasesView(msgspec.Struct, frozen=True):
    leases: list[LeaseView]


class MessageView(msgspec.Struct, frozen=True):
    """`reason` is why the message was given back last, `history` the latest such attempts; both only where there are any.
    `schedule` is there where a schedule has made it."""

    id: str
    at_ms: int
    created_for_ms: int
    status: Literal["waiting", "processing", "available", "dead"]
    producer_group: str
    lock_consumer_id: str | None
    version: int
    bucket_id: int
    attempts: int
    body: Raw | UnsetType = UNSET
    body_b64: str | UnsetType = UNSET
    dead_letter: Raw | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    history: list[FailedAttempt] | UnsetType = UNSET
    schedule: ScheduleOrigin | UnsetType = UNSET


View = TypeVar("View", LeaseView, MessageView)


class MessagesView(msgspec.Struct, frozen=True):
    """`next` continues the list; null at its end."""

    messages: list[MessageView]
    next: str | None


class CreatedView(msgspec.Struct, frozen=True):
    results: list[Created]


class MovedView(msgspec.Struct, frozen=True):
    id: str
    version: int
    at_ms: int


class DeletedView(msgspec.Struct, frozen=True):
    id: str | None
    status: Literal["ok", "not_found", "forbidden", "leased"]


class DeletedMany(msgspec.Struct, frozen=True):
    """`results` for `ids`, one for each; `count` and `skipped` for a `filter`."""

    results: list[DeletedView] | UnsetType = UNSET
    count: int | UnsetType = UNSET
    skipped: int | UnsetType = UNSET


class OutcomesView(msgspec.Struct, frozen=True):
    results: list[Outcome]


def topic_view(topic: Topic) -> TopicView:
    return TopicView(topic.name, **msgspec.structs.asdict(topic.settings))


def counted_topic_view(topic: Topic, counts: Counts) -> CountedTopicView:
    return CountedTopicView(topic.name, counts=counts, **msgspec.structs.asdict(topic.settings))


def lease_view(lease: Lease) -> LeaseView:
    content, encoded = _content(lease)
    view = LeaseView(
        lease.id,
        lease.version,
        lease.at_ms,
        lease.created_for_ms,
        lease.attempts,
        lease.producer_group,
        content,
        encoded,
        _letter(lease),
        schedule=_schedule(lease),
    )
    return view if lease.history is None else _with_history(view, lease.history)


def message_view(message: StoredMessage, now_ms: int, *, body: bool = True) -> MessageView:
    """Without its body for those who may not see it, or do not want to."""
    content, encoded = _content(message) if body else (UNSET, UNSET)
    stands: Any = status(message, now_ms)
    view = MessageView(
        message.id,
        message.at_ms,
        message.created_for_ms,
        stands,
        message.producer_group,
        consumer_of(message.lock_consumer_id) if message.lock_consumer_id else None,
        message.version,
        message.bucket_id,
        message.attempts,
        content,
        encoded,
        _letter(message),
        schedule=_schedule(message),
    )
    return view if message.history is None else _with_history(view, message.history)


def _content(carrier: Lease | StoredMessage) -> tuple[Raw | UnsetType, str | UnsetType]:
    if carrier.is_json:
        return Raw(carrier.body), UNSET
    return UNSET, b64encode(carrier.body).decode()


def _letter(carrier: Lease | StoredMessage) -> Raw | UnsetType:
    return UNSET if carrier.dead_letter is None else Raw(carrier.dead_letter)


def _schedule(carrier: Lease | StoredMessage) -> ScheduleOrigin | UnsetType:
    """Its name and instant are in the id."""
    if carrier.schedule_version is None:
        return UNSET
    name, _, at_ms = carrier.id.removeprefix("s:").rpartition("@")
    return ScheduleOrigin(name, carrier.schedule_version, int(at_ms))


def _with_history(view: View, history: str) -> View:
    """With the latest reason, and all that are kept. Next to no message has one, so this is not done for all."""
    failures = _history.decode(history)
    return msgspec.structs.replace(view, reason=failures[-1].reason, history=failures)
