"""All dispatchers of a node, and how the rest of it reaches them: by what arrived, what was freed, and who came or went."""

import asyncio
from collections.abc import Callable, Sequence

from meantime.clock import Clock
from meantime.topics.catalog import Catalogue
from meantime.topics.leasing.bucket_shares import allot
from meantime.topics.leasing.consumers import Consumers
from meantime.topics.leasing.dispatcher import HORIZON_MS, Dispatcher
from meantime.topics.model import Due, Topic
from meantime.topics.storage.notifications import Arrived, Freed, News, TopicChanged, Wakeups

TOLD_AHEAD_MS = 2 * HORIZON_MS
"""Other nodes look this far ahead by themselves; what comes sooner must be told."""
UNTOLD_FOR_MS = 2000
"""A node that has begun to serve a topic is known to all others by then."""


class Dispatchers:
    def __init__(
        self,
        make: Callable[[str], Dispatcher],
        catalogue: Catalogue,
        consumers: Consumers,
        wakeups: Wakeups,
        clock: Clock,
        node_id: str,
    ) -> None:
        self._make = make
        self._catalogue = catalogue
        self._consumers = consumers
        self._wakeups = wakeups
        self._clock = clock
        self._node_id = node_id
        self._by_topic: dict[int, tuple[Topic, Dispatcher]] = {}
        self._untold: set[int] = set()
        wakeups.on_news(self._hear)
        consumers.on_change = self._consumers_changed

    def of(self, topic: Topic) -> Dispatcher:
        found = self._by_topic.get(topic.topic_id)
        if found is None:
            found = topic, self._make(topic.name)
            self._by_topic[topic.topic_id] = found
            self._deal(*found)
        return found[1]

    def arrived(self, topic_id: int, dues: Sequence[Due]) -> None:
        """Messages have a new place in time; wake whoever serves them, here and elsewhere."""
        if found := self._by_topic.get(topic_id):
            found[1].arrived(dues)
        if not self._consumers.any_elsewhere(topic_id):
            self._untold.add(topic_id)
            return
        first_ms = min(due.at_ms for due in dues)
        if first_ms <= self._clock.now_ms() + TOLD_AHEAD_MS:
            self._wakeups.tell(Arrived(topic_id, first_ms))

    def leases_changed(self, topic_id: int, consumer_id: str, ends: Sequence[tuple[str, int | None]]) -> None:
        """Leases ended (None), or end at another instant: they count against the buffer of their consumer's stream."""
        key = topic_id, consumer_id
        if stream := self._consumers.stream_here(key):
            for message_id, end_ms in ends:
                stream.hold(message_id, end_ms)
            self._wake(topic_id)
        elif self._consumers.streams_elsewhere(key):
            self._wakeups.tell(Freed(topic_id, consumer_id))

    async def stop(self) -> None:
        await asyncio.gather(*(dispatcher.stop() for _, dispatcher in self._by_topic.values()))

    def _wake(self, topic_id: int) -> None:
        if found := self._by_topic.get(topic_id):
            found[1].wake()

    def _consumers_changed(self) -> None:
        """Buckets are dealt anew; and a node that has begun to serve a topic hears that it should look, because what arrived
        after its first look and before this moment was not told to anybody."""
        for topic, dispatcher in self._by_topic.values():
            self._deal(topic, dispatcher)
        for topic_id in [one for one in self._untold if self._consumers.any_elsewhere(one)]:
            self._untold.remove(topic_id)
            self._wakeups.tell(Arrived(topic_id, self._clock.now_ms() - UNTOLD_FOR_MS))

    def _deal(self, topic: Topic, dispatcher: Dispatcher) -> None:
        consumers = self._consumers.of_topic(topic.topic_id)
        dispatcher.deal(allot(topic.settings.bucket_count, consumers, self._node_id))

    def _hear(self, news: News | None) -> None:
        match news:
            case Arrived(topic_id, at_ms):
                if found := self._by_topic.get(topic_id):
                    found[1].arrived_elsewhere(at_ms)
            case Freed(topic_id, consumer_id):
                if found := self._by_topic.get(topic_id):
                    found[1].doubt(consumer_id)
            case TopicChanged(name):
                for topic, dispatcher in self._by_topic.values():
                    if topic.name == name:
                        dispatcher.wake()
            case None:
                for _, dispatcher in self._by_topic.values():
                    dispatcher.doubt(None)
                    dispatcher.arrived_elsewhere(self._clock.now_ms())
