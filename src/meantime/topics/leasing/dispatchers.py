"""The dispatchers of a node, one per topic, and what wakes them: messages that arrive, leases that end, consumers that come
or go, here or on other nodes.

Nodes notify those of which they know that they have to do with a topic or a consumer. What one did not tell, because it did
not know yet, it tells when it does; and what no notification told is found by looking at the database.
"""

import asyncio
import time
from collections.abc import Callable, Sequence

from meantime.clock import Clock
from meantime.errors import Unavailable
from meantime.topics.leasing.bucket_shares import share_buckets
from meantime.topics.leasing.consumers import Consumers
from meantime.topics.leasing.dispatcher import HORIZON_MS, LeaseDispatcher
from meantime.topics.model import Consumer, Due, Topic
from meantime.topics.storage.counts import MessageCounts
from meantime.topics.storage.directory import ConsumerKey
from meantime.topics.storage.messages import FIRST_MS, MessageStore
from meantime.topics.storage.notifications import Arrived, Freed, Notification, Notifications, TopicChanged

NOTIFIED_AHEAD_MS = 2 * HORIZON_MS
"""Other nodes look this far ahead by themselves; what comes sooner needs a notification."""
UNNOTIFIED_FOR_MS = 2000
"""A node that has begun to serve a topic is known to all others by then."""
LOOK_EVERY = HORIZON_MS / 2000
"""Seconds between looks for all idle dispatchers."""
FULL_LOOK_EVERY = 1.0
UNTOLD_FOR = 10.0
"""So is a stream, in seconds."""


class LeaseDispatchers:
    def __init__(
        self,
        make: Callable[[str], LeaseDispatcher],
        consumers: Consumers,
        messages: MessageStore,
        counts: MessageCounts,
        notifications: Notifications,
        clock: Clock,
        node_id: str,
    ) -> None:
        self._make = make
        self._consumers = consumers
        self._messages = messages
        self._counts = counts
        self._notifications = notifications
        self._clock = clock
        self._node_id = node_id
        self._by_topic: dict[int, tuple[Topic, LeaseDispatcher]] = {}
        self._unnotified: set[int] = set()
        self._untold: dict[ConsumerKey, float] = {}
        self._full: dict[ConsumerKey, int] = {}
        self._full_look_at = 0.0
        notifications.subscribe(self._on_notification)
        consumers.on_change = self._consumers_changed

    def of(self, topic: Topic) -> LeaseDispatcher:
        found = self._by_topic.get(topic.topic_id)
        if found is None:
            found = topic, self._make(topic.name)
            self._by_topic[topic.topic_id] = found
            self._share_buckets(*found, self._consumers.of_topic(topic.topic_id))
        return found[1]

    def arrived(self, topic_id: int, dues: Sequence[Due]) -> None:
        """Messages have a new instant; wake the dispatchers of their topic, here and elsewhere."""
        if found := self._by_topic.get(topic_id):
            found[1].arrived(dues)
        if not self._consumers.any_elsewhere(topic_id):
            self._unnotified.add(topic_id)
            return
        first_ms = min(due.at_ms for due in dues)
        if first_ms <= self._clock.now_ms() + NOTIFIED_AHEAD_MS:
            self._notifications.send(Arrived(topic_id, first_ms))

    async def look_for_idle(self) -> None:
        """One look ahead for all topics in which nothing becomes due; those in which something does look for themselves.
        What arrives meanwhile it may have missed. Where the whole past takes long, it is looked through less often."""
        idle = {id: (one, one.announcements) for id, (_, one) in self._by_topic.items() if one.idle}
        if not idle:
            return
        began, until_ms = time.monotonic(), self._clock.now_ms() + HORIZON_MS
        whole = began >= self._full_look_at
        floors = {topic_id: FIRST_MS if whole else one.floor_ms for topic_id, (one, _) in idle.items()}
        try:
            busy = await self._messages.busy_topics(floors, until_ms)
        except Unavailable:
            raise
        except Exception:
            for dispatcher, _ in idle.values():
                dispatcher.look()  # each by itself, so that what goes wrong with one is told of that one
            raise
        if whole:
            self._full_look_at = time.monotonic() + max(FULL_LOOK_EVERY, 20 * (time.monotonic() - began))
        for topic_id, (dispatcher, announcements) in idle.items():
            if topic_id in busy or dispatcher.announcements != announcements:
                dispatcher.look()
            else:
                dispatcher.nothing_until(until_ms)

    def leases_changed(self, topic_id: int, consumer_id: str, ends: Sequence[tuple[str, int | None]]) -> None:
        """Leases ended (None), or end at another instant: they count against the buffer of their consumer's stream."""
        key = topic_id, consumer_id
        if stream := self._consumers.stream_here(key):
            for message_id, end_ms in ends:
                stream.hold(message_id, end_ms)
            self._wake(topic_id)
        elif self._consumers.streams_elsewhere(key):
            self._notifications.send(Freed(topic_id, consumer_id))
        else:
            self._untold[key] = time.monotonic()

    async def check_full_streams(self) -> None:
        """A stream that is full, and to whose leases nothing has happened since the last time, may have missed that some of
        them ended elsewhere."""
        streams = {key: stream for key, stream in self._consumers.streams.items() if not stream.room(0)}
        unchanged = {key: stream for key, stream in streams.items() if self._full.get(key) == stream.changes}
        self._full = {key: stream.changes for key, stream in streams.items()}
        held = await self._counts.outstanding(unchanged.keys()) if unchanged else {}
        for key, stream in unchanged.items():
            if held.get(key, 0) != stream.held:
                stream.doubtful = True
                self._wake(key[0])

    async def stop(self) -> None:
        await asyncio.gather(*(dispatcher.stop() for _, dispatcher in self._by_topic.values()))

    def _wake(self, topic_id: int) -> None:
        if found := self._by_topic.get(topic_id):
            found[1].wake()

    def _consumers_changed(self) -> None:
        """Buckets are shared out anew; and a node that has begun to serve a topic is told to look, because it was not
        notified of what arrived after its first look and before this moment."""
        consumers = self._consumers.by_topic()
        for topic, dispatcher in self._by_topic.values():
            self._share_buckets(topic, dispatcher, consumers.get(topic.topic_id, []))
        self._tell_streams_elsewhere()
        for topic_id in [one for one in self._unnotified if self._consumers.any_elsewhere(one)]:
            self._unnotified.remove(topic_id)
            self._notifications.send(Arrived(topic_id, self._clock.now_ms() - UNNOTIFIED_FOR_MS))

    def _tell_streams_elsewhere(self) -> None:
        """A stream that nobody here knew of when leases of its consumer changed."""
        oldest = time.monotonic() - UNTOLD_FOR
        for key, changed_at in list(self._untold.items()):
            if self._consumers.streams_elsewhere(key):
                self._notifications.send(Freed(*key))
                del self._untold[key]
            elif changed_at < oldest:
                del self._untold[key]

    def _share_buckets(self, topic: Topic, dispatcher: LeaseDispatcher, consumers: list[Consumer]) -> None:
        dispatcher.set_shares(share_buckets(topic.settings.bucket_count, consumers, self._node_id))

    def _on_notification(self, notification: Notification | None) -> None:
        match notification:
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
