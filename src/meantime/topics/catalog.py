"""The topics as this node knows them.

A topic is cached until another node says that it changed, at most for a second. Statements that create messages name the
revision that they believe in, so even a stale cache creates nothing in a deleted topic.
"""

import asyncio
import time
from dataclasses import dataclass

from meantime.clock import Clock
from meantime.errors import Conflict, Invalid, NotFound, UnknownReference
from meantime.names import check_identifier, is_identifier
from meantime.tasks import SharedCalls
from meantime.topics.model import Topic
from meantime.topics.settings import SettingsChange, applied, check
from meantime.topics.storage.directory import DeletedTopic, TopicStore
from meantime.topics.storage.notifications import Notification, Notifications, TopicChanged

CACHED_FOR = 1.0


@dataclass(frozen=True, slots=True)
class _Cached:
    topic: Topic
    until: float


class TopicCatalog:
    def __init__(self, topic_store: TopicStore, clock: Clock, notifications: Notifications) -> None:
        self._topic_store = topic_store
        self._clock = clock
        self._notifications = notifications
        self._cached: dict[str, _Cached] = {}
        self._names: dict[int, str] = {}
        self._readings = SharedCalls(self.reload)
        self.deletion = asyncio.Event()
        """Set when a topic was deleted here: its messages can be removed."""
        notifications.subscribe(self._on_notification)

    async def get(self, name: str) -> Topic:
        cached = self._cached.get(name)
        if cached and time.monotonic() < cached.until:
            return cached.topic
        return await self._readings.ask(name)

    async def reload(self, name: str) -> Topic:
        """As it is in the database now."""
        found = await self._topic_store.find(name) if is_identifier(name) else None
        if not isinstance(found, Topic):
            self.forget(name)
            raise NotFound(f"topic {name!r} does not exist")
        self._cached[name] = _Cached(found, time.monotonic() + CACHED_FOR)
        self._names[found.topic_id] = name
        return found

    async def by_id(self, topic_id: int) -> Topic | None:
        """None when it is gone."""
        name = self._names.get(topic_id)
        if name is None:
            self._names |= {topic.topic_id: topic.name for topic in await self.all()}
            name = self._names.get(topic_id)
        try:
            topic = await self.get(name) if name else None
        except NotFound:
            return None
        return topic if topic and topic.topic_id == topic_id else None

    def name_of(self, topic_id: int) -> str | None:
        """As far as this node has had to do with the topic."""
        return self._names.get(topic_id)

    async def all(self) -> list[Topic]:
        return await self._topic_store.all()

    async def put(self, name: str, change: SettingsChange) -> tuple[Topic, bool, bool]:
        """Make a topic or change its settings: the topic as it is then, whether it is new, and whether anything changed."""
        check_identifier(name, "topic")
        check(change)
        for _ in range(8):
            present = await self._topic_store.find(name)
            if isinstance(present, DeletedTopic):
                raise Conflict(f"topic {name!r} is being deleted; its name is free when all its messages are removed")
            await self._check_dead_letter_topic(name, change)
            if present is None:
                done = await self._topic_store.add(name, applied(change, None), self._clock.now_ms())
            else:
                settings = applied(change, present.settings)
                done = settings == present.settings or await self._topic_store.change(present, settings)
            if done:
                self.forget(name)
                self._notifications.send(TopicChanged(name))
                made = await self.reload(name)
                return made, present is None, present is None or made.revision != present.revision
        raise Conflict(f"topic {name!r} is being changed by others")

    async def _check_dead_letter_topic(self, name: str, change: SettingsChange) -> None:
        other = change.dead_letter_topic
        if other is None:
            return
        if other == name:
            raise Invalid("a topic cannot be its own dead_letter_topic", field="dead_letter_topic")
        if not is_identifier(other) or not isinstance(await self._topic_store.find(other), Topic):
            raise UnknownReference(f"dead_letter_topic {other!r} does not exist", field="dead_letter_topic")

    async def delete(self, name: str) -> None:
        """From now on it does not exist for callers; a duty removes its messages."""
        deleted = is_identifier(name) and await self._topic_store.mark_deleted(name, self._clock.now_ms())
        self.forget(name)
        if not deleted:
            raise NotFound(f"topic {name!r} does not exist")
        self._notifications.send(TopicChanged(name))
        self.deletion.set()

    def forget(self, name: str) -> None:
        self._cached.pop(name, None)
        self._readings.forget(name)

    def _on_notification(self, notification: Notification | None) -> None:
        if notification is None:
            self._cached.clear()
        elif isinstance(notification, TopicChanged):
            self.forget(notification.name)
