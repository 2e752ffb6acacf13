"""Notifications between nodes: something becomes due soon, a consumer's leases changed, a topic or the consumers changed.

They only save time. A node that gets none finds out by looking at the database now and then, so a notification may be late,
doubled or lost. They are sent after the commit and outside of it: PostgreSQL lets only one transaction with a NOTIFY commit
at a time.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog

from meantime.database.statements import Statements
from meantime.errors import StorageUnavailable
from meantime.supervision import supervised
from meantime.tasks import start

CHANNEL = "meantime_topics"
_MOST_BYTES = 7000

log = structlog.get_logger(__name__)


class Arrived(msgspec.Struct, frozen=True, tag="arrived"):
    """A message of this topic is due at `at_ms`."""

    topic_id: int
    at_ms: int


class Freed(msgspec.Struct, frozen=True, tag="freed"):
    """The leases of this consumer changed somewhere else than where its stream is."""

    topic_id: int
    consumer_id: str


class TopicChanged(msgspec.Struct, frozen=True, tag="topic"):
    name: str


class ConsumersChanged(msgspec.Struct, frozen=True, tag="consumers"):
    """A consumer came or went."""


Notification = Arrived | Freed | TopicChanged | ConsumersChanged
Subscriber = Callable[[Notification | None], None]
"""Gets None when notifications may have been missed."""


class NotificationBatch(msgspec.Struct, frozen=True):
    """One payload of NOTIFY. `sender` is the session of a node, which ignores its own."""

    sender: str
    news: list[Notification]


class NotificationListener(Protocol):
    """What is needed of the process's listener."""

    def subscribe(self, channel: str, subscriber: Callable[[str | None], None]) -> None: ...


class Notifications:
    def __init__(self, statements: Statements, listener: NotificationListener, sender: str) -> None:
        self._statements = statements
        self._sender = sender
        self._subscribers: list[Subscriber] = []
        self._outbox: dict[object, Notification] = {}
        self._sending: asyncio.Task[None] | None = None
        listener.subscribe(CHANNEL, self._receive)

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def send(self, notification: Notification) -> None:
        """Send to all other nodes soon; what is repeated before that is sent once."""
        if isinstance(notification, Arrived):
            before = self._outbox.get(("arrived", notification.topic_id))
            if isinstance(before, Arrived) and before.at_ms <= notification.at_ms:
                return
            self._outbox["arrived", notification.topic_id] = notification
        else:
            self._outbox[notification] = notification
        if self._sending is None or self._sending.done():
            self._sending = start(supervised(self._send, "topics notifications"), name="topics notifications")

    async def _send(self) -> None:
        while self._outbox:
            waiting, self._outbox = list(self._outbox.values()), {}
            try:
                for payload in self._payloads(waiting):
                    await self._statements.run("SELECT pg_notify(%(channel)s, %(payload)s)", payload)
            except StorageUnavailable as error:
                log.info("notifications_not_sent", count=len(waiting), detail=error.detail)

    def _payloads(self, waiting: list[Notification]) -> list[dict[str, str]]:
        text = msgspec.json.encode(NotificationBatch(self._sender, waiting))
        if len(text) > _MOST_BYTES and len(waiting) > 1:
            half = len(waiting) // 2
            return self._payloads(waiting[:half]) + self._payloads(waiting[half:])
        return [{"channel": CHANNEL, "payload": text.decode()}]

    def _receive(self, payload: str | None) -> None:
        if payload is None:
            self._deliver(None)
            return
        batch = msgspec.json.decode(payload, type=NotificationBatch)
        if batch.sender != self._sender:
            for notification in batch.news:
                self._deliver(notification)

    def _deliver(self, notification: Notification | None) -> None:
        for subscriber in self._subscribers:
            subscriber(notification)
