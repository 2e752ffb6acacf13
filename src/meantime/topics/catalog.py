"""The topics as this node knows them.

What is remembered is forgotten when another node says that it changed, and in any case after a second. Statements that
create messages name the revision that they believe in, so even a stale memory creates nothing in a deleted topic.
"""

import time
from dataclasses import dataclass

from meantime.clock import Clock
from meantime.errors import Conflict, Invalid, NotFound
from meantime.names import check_identifier, is_identifier
from meantime.topics.model import Topic
from meantime.topics.settings import Wish, applied, check
from meantime.topics.storage.directory import Condemned, Directory
from meantime.topics.storage.notifications import News, TopicChanged, Wakeups

TRUSTED_FOR = 1.0


@dataclass(frozen=True, slots=True)
class _Remembered:
    topic: Topic
    until: float


class Catalogue:
    def __init__(self, directory: Directory, clock: Clock, wakeups: Wakeups) -> None:
        self._directory = directory
        self._clock = clock
        self._wakeups = wakeups
        self._remembered: dict[str, _Remembered] = {}
        self._names: dict[int, str] = {}
        wakeups.on_news(self._hear)

    async def get(self, name: str) -> Topic:
        remembered = self._remembered.get(name)
        if remembered and time.monotonic() < remembered.until:
            return remembered.topic
        return await self.reload(name)

    async def reload(self, name: str) -> Topic:
        """As it is in the database now."""
        found = await self._directory.find(name) if is_identifier(name) else None
        if not isinstance(found, Topic):
            self.forget(name)
            raise NotFound(f"topic {name!r} does not exist")
        self._remembered[name] = _Remembered(found, time.monotonic() + TRUSTED_FOR)
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

    async def all(self) -> list[Topic]:
        return await self._directory.all()

    async def put(self, name: str, wish: Wish) -> tuple[Topic, bool]:
        """The topic after the wish, and whether it is new."""
        check_identifier(name, "topic")
        check(wish)
        for _ in range(8):
            present = await self._directory.find(name)
            if isinstance(present, Condemned):
                raise Conflict(f"topic {name!r} is being deleted; its name is free when all is gone")
            await self._check_dead_letter_topic(name, wish)
            if present is None:
                done = await self._directory.add(name, applied(wish, None), self._clock.now_ms())
            else:
                settings = applied(wish, present.settings)
                done = settings == present.settings or await self._directory.change(present, settings)
            if done:
                self.forget(name)
                self._wakeups.tell(TopicChanged(name))
                return await self.reload(name), present is None
        raise Conflict(f"topic {name!r} is being changed by others")

    async def _check_dead_letter_topic(self, name: str, wish: Wish) -> None:
        other = wish.dead_letter_topic
        if other is None:
            return
        if other == name:
            raise Invalid("a topic cannot be its own dead_letter_topic", field="dead_letter_topic")
        if not is_identifier(other) or not isinstance(await self._directory.find(other), Topic):
            raise Invalid(f"dead_letter_topic {other!r} does not exist", field="dead_letter_topic")

    async def condemn(self, name: str) -> None:
        """From now on it does not exist for callers; a duty removes its messages."""
        condemned = is_identifier(name) and await self._directory.condemn(name, self._clock.now_ms())
        self.forget(name)
        if not condemned:
            raise NotFound(f"topic {name!r} does not exist")
        self._wakeups.tell(TopicChanged(name))

    def forget(self, name: str) -> None:
        self._remembered.pop(name, None)

    def _hear(self, news: News | None) -> None:
        if news is None:
            self._remembered.clear()
        elif isinstance(news, TopicChanged):
            self.forget(news.name)
