"""News between nodes: something becomes due soon, a consumer's leases changed, a topic or the consumers changed.

News only saves time. Whoever hears nothing finds out by looking at the database now and then, so news may be late, doubled
or lost. They are sent after the commit and outside of it: PostgreSQL lets only one transaction with a NOTIFY commit at a
time.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec
import structlog

from meantime.database.statements import Statements
from meantime.errors import StorageUnavailable

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
    """Somebody came or went."""


News = Arrived | Freed | TopicChanged | ConsumersChanged
Hearer = Callable[[News | None], None]
"""Gets None when news may have been missed."""


class Letter(msgspec.Struct, frozen=True):
    sender: str
    news: list[News]


class Listening(Protocol):
    """What is needed of the listener that a process has."""

    def subscribe(self, channel: str, subscriber: Callable[[str | None], None]) -> None: ...


class Wakeups:
    def __init__(self, statements: Statements, listener: Listening, sender: str) -> None:
        self._statements = statements
        self._sender = sender
        self._hearers: list[Hearer] = []
        self._outbox: dict[object, News] = {}
        self._sending: asyncio.Task[None] | None = None
        listener.subscribe(CHANNEL, self._hear)

    def on_news(self, hearer: Hearer) -> None:
        self._hearers.append(hearer)

    def tell(self, news: News) -> None:
        """Send to all other nodes soon; what is said twice meanwhile is sent once."""
        if isinstance(news, Arrived):
            before = self._outbox.get(("arrived", news.topic_id))
            if isinstance(before, Arrived) and before.at_ms <= news.at_ms:
                return
            self._outbox["arrived", news.topic_id] = news
        else:
            self._outbox[news] = news
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send(), name="topics-news")

    async def _send(self) -> None:
        while self._outbox:
            news, self._outbox = list(self._outbox.values()), {}
            try:
                for payload in self._letters(news):
                    await self._statements.run("SELECT pg_notify(%(channel)s, %(payload)s)", payload)
            except StorageUnavailable as error:
                log.info("news_not_sent", error=error.detail)

    def _letters(self, news: list[News]) -> list[dict[str, str]]:
        text = msgspec.json.encode(Letter(self._sender, news))
        if len(text) > _MOST_BYTES and len(news) > 1:
            half = len(news) // 2
            return self._letters(news[:half]) + self._letters(news[half:])
        return [{"channel": CHANNEL, "payload": text.decode()}]

    def _hear(self, payload: str | None) -> None:
        if payload is None:
            self._pass_on(None)
            return
        letter = msgspec.json.decode(payload, type=Letter)
        if letter.sender != self._sender:
            for news in letter.news:
                self._pass_on(news)

    def _pass_on(self, news: News | None) -> None:
        for hearer in self._hearers:
            hearer(news)
