"""The consumers of the whole cluster: registered in PostgreSQL, kept alive by a heartbeat.

A consumer has one stream per topic in the whole cluster. Its registration says so; it is renewed every two seconds, and a
consumer whose node has been silent for eight counts as gone. A node that finds its registration taken over ends the stream.
Pulls are noted, not claimed. From the registrations every node gives the same buckets to the same consumers. Many that come
or go at the same time are registered together.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from meantime.clock import Clock
from meantime.errors import Conflict, Unavailable
from meantime.topics.holders import consumer_of
from meantime.topics.leasing.receivers import LeaseStream
from meantime.topics.merging import Merger
from meantime.topics.model import Consumer, Topic
from meantime.topics.storage.directory import ConsumerKey, ConsumerRegistry
from meantime.topics.storage.notifications import ConsumersChanged, Notification, Notifications

HEARTBEAT_EVERY = 2.0
SILENT_FOR_MS = 8_000
PULLING_FOR = 10.0


@dataclass(slots=True)
class _Here:
    """What goes on at this node. A stream that is `claiming` is not registered yet."""

    streams: dict[ConsumerKey, LeaseStream] = field(default_factory=dict)
    claiming: set[ConsumerKey] = field(default_factory=set)
    pulls: dict[ConsumerKey, float] = field(default_factory=dict)


class Consumers:
    def __init__(self, registry: ConsumerRegistry, clock: Clock, notifications: Notifications, node_id: str) -> None:
        self._registry = registry
        self._clock = clock
        self._notifications = notifications
        self._node_id = node_id
        self._here = _Here()
        self._elsewhere: dict[int, list[Consumer]] = {}
        self._streams_elsewhere: frozenset[ConsumerKey] = frozenset()
        self._outdated = True
        self._unnoted = False
        self._just_started = True
        self._claims: Merger[tuple[ConsumerKey, int], bool] = Merger(self._claim_all, lanes=1)
        self._releases: Merger[ConsumerKey, None] = Merger(self._release_all, lanes=1)
        self._looks: Merger[None, None] = Merger(self._look, lanes=1)
        self.on_change: Callable[[], None] = lambda: None
        notifications.subscribe(self._on_notification)

    def any_elsewhere(self, topic_id: int) -> bool:
        """Whether another node may serve the topic, as far as this one knows."""
        return self._outdated or topic_id in self._elsewhere

    async def claim(self, topic: Topic, stream: LeaseStream) -> None:
        """Raise Conflict when this consumer has a stream already, on whichever node."""
        key = topic.topic_id, stream.consumer_id
        taken = self._here.streams.setdefault(key, stream) is not stream
        if taken or not await self._claim(key, stream):
            raise Conflict(f"consumer {consumer_of(stream.consumer_id)!r} has a stream of topic {topic.name!r} already")
        await self._changed()

    async def _claim(self, key: ConsumerKey, stream: LeaseStream) -> bool:
        claimed = False
        self._here.claiming.add(key)
        try:
            (claimed,) = await self._claims.submit([(key, stream.buffer)])
        finally:
            self._here.claiming.discard(key)
            if not claimed:
                del self._here.streams[key]
        return claimed

    async def _claim_all(self, streams: Sequence[tuple[ConsumerKey, int]]) -> list[bool]:
        now_ms = self._clock.now_ms()
        claimed = await self._registry.claim(dict(streams), now_ms, now_ms - SILENT_FOR_MS)
        return [key in claimed for key, _ in streams]

    async def _release_all(self, keys: Sequence[ConsumerKey]) -> list[None]:
        await self._registry.release(set(keys))
        return [None] * len(keys)

    async def release(self, topic: Topic, stream: LeaseStream) -> None:
        key = topic.topic_id, stream.consumer_id
        if self._here.streams.get(key) is stream:
            del self._here.streams[key]
            await self._releases.submit([key])
            await self._changed()

    def note_pull(self, topic: Topic, consumer_id: str) -> None:
        """A new one is made known to other nodes soon, one that goes on with the next heartbeat."""
        key = topic.topic_id, consumer_id
        if key not in self._here.pulls:
            self._unnoted = True
        self._here.pulls[key] = time.monotonic()

    def stream_here(self, key: ConsumerKey) -> LeaseStream | None:
        return self._here.streams.get(key)

    def streams_elsewhere(self, key: ConsumerKey) -> bool:
        return key in self._streams_elsewhere

    @property
    def streams(self) -> dict[ConsumerKey, LeaseStream]:
        """Those of this node."""
        return dict(self._here.streams)

    def of_topic(self, topic_id: int) -> list[Consumer]:
        """All that are known, those of this node as they are now."""
        return self.by_topic().get(topic_id, [])

    def by_topic(self) -> dict[int, list[Consumer]]:
        """The consumers of all topics, in the order of their names."""
        found = {topic_id: list(consumers) for topic_id, consumers in self._elsewhere.items()}
        for (topic_id, consumer_id), stream in self._here.streams.items():
            consumer = Consumer(topic_id, consumer_id, self._node_id, "push", stream.buffer)
            found.setdefault(topic_id, []).append(consumer)
        for topic_id, consumer_id in self._here.pulls:
            found.setdefault(topic_id, []).append(Consumer(topic_id, consumer_id, self._node_id, "pull", None))
        return {topic_id: sorted(consumers, key=_by_name) for topic_id, consumers in found.items()}

    async def run_once(self) -> None:
        """Renew the registrations, end streams that were taken over, and look who else is there."""
        now_ms = self._clock.now_ms()
        if self._just_started:
            await self._registry.forget_earlier_sessions()
            self._just_started = False
        self._drop_old_pulls()
        before = {key: stream for key, stream in self._here.streams.items() if key not in self._here.claiming}
        mine = await self._registry.renew(now_ms)
        for key, stream in before.items():
            if key not in mine and self._here.streams.get(key) is stream:
                del self._here.streams[key]
                stream.end(Conflict(f"the stream of consumer {consumer_of(key[1])!r} was taken over by another node"))
        if left := mine - before.keys() - self._here.streams.keys():
            await self._registry.release(left)
        if self._here.pulls:
            await self._registry.note_pulls(sorted(self._here.pulls), now_ms)
        await self._refresh()

    async def leave(self) -> None:
        """This node stops: its consumers may go on elsewhere at once, or after a while if PostgreSQL does not answer."""
        with suppress(Unavailable):
            await self._registry.forget_session()

    async def refresh_if_outdated(self) -> None:
        if self._unnoted:
            self._unnoted = False
            await self._registry.note_pulls(sorted(self._here.pulls), self._clock.now_ms())
            await self._changed()
        elif self._outdated:
            await self._refresh()

    async def _refresh(self) -> None:
        """Look who is there, after this moment; all who ask while one looks share the next look."""
        await self._looks.submit([None])

    async def _look(self, askers: Sequence[None]) -> list[None]:
        self._outdated = False
        known = await self._registry.consumers(self._clock.now_ms() - SILENT_FOR_MS)
        elsewhere = [one for one in known if one.node_id != self._node_id]
        self._elsewhere = {}
        for one in elsewhere:
            self._elsewhere.setdefault(one.topic_id, []).append(one)
        self._streams_elsewhere = frozenset((one.topic_id, one.consumer_id) for one in elsewhere if one.mode == "push")
        self.on_change()
        return list(askers)

    async def _changed(self) -> None:
        self._notifications.send(ConsumersChanged())
        await self._refresh()

    def _drop_old_pulls(self) -> None:
        oldest = time.monotonic() - PULLING_FOR
        self._here.pulls = {key: at for key, at in self._here.pulls.items() if at >= oldest}

    def _on_notification(self, notification: Notification | None) -> None:
        if notification is None or isinstance(notification, ConsumersChanged):
            self._outdated = True


def _by_name(consumer: Consumer) -> tuple[str, str]:
    return consumer.consumer_id, consumer.mode
