"""What topics answer over HTTP."""

from base64 import b64encode
from typing import Any, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

from meantime.topics.holders import consumer_of
from meantime.topics.model import ConsumerReport, Counts, Created, Lease, Outcome, Settings, Slot, StoredMessage, Topic
from meantime.topics.rules import status


class TopicView(Settings, frozen=True):
    name: str


class TopicsView(msgspec.Struct, frozen=True):
    topics: list[TopicView]


class CountedTopicView(TopicView, frozen=True, kw_only=True):
    counts: Counts


class LoadView(msgspec.Struct, frozen=True):
    slots: list[Slot]


class CountView(msgspec.Struct, frozen=True):
    count: int


class ConsumersView(msgspec.Struct, frozen=True):
    consumers: list[ConsumerReport]


class LeaseView(msgspec.Struct, frozen=True):
    id: str
    version: int
    at_ms: int
    created_for_ms: int
    attempts: int
    producer_group: str
    body: Raw | UnsetType = UNSET
    body_b64: str | UnsetType = UNSET
    dead_letter: Raw | UnsetType = UNSET


class LeasesView(msgspec.Struct, frozen=True):
    leases: list[LeaseView]


class MessageView(msgspec.Struct, frozen=True):
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


class DeletionsView(msgspec.Struct, frozen=True):
    results: list[DeletedView]


class OutcomesView(msgspec.Struct, frozen=True):
    results: list[Outcome]


def topic_view(topic: Topic) -> TopicView:
    return TopicView(topic.name, **msgspec.structs.asdict(topic.settings))


def counted_topic_view(topic: Topic, counts: Counts) -> CountedTopicView:
    return CountedTopicView(topic.name, counts=counts, **msgspec.structs.asdict(topic.settings))


def lease_view(lease: Lease) -> LeaseView:
    content, encoded = _content(lease)
    return LeaseView(
        lease.id,
        lease.version,
        lease.at_ms,
        lease.created_for_ms,
        lease.attempts,
        lease.producer_group,
        content,
        encoded,
        _history(lease),
    )


def message_view(message: StoredMessage, now_ms: int) -> MessageView:
    content, encoded = _content(message)
    stands: Any = status(message, now_ms)
    return MessageView(
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
        _history(message),
    )


def _content(carrier: Lease | StoredMessage) -> tuple[Raw | UnsetType, str | UnsetType]:
    if carrier.is_json:
        return Raw(carrier.body), UNSET
    return UNSET, b64encode(carrier.body).decode()


def _history(carrier: Lease | StoredMessage) -> Raw | UnsetType:
    return UNSET if carrier.dead_letter is None else Raw(carrier.dead_letter)
