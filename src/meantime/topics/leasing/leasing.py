"""Where a lease is taken: a pull waits for a while, a stream for ever.

A node that is not healthy issues no lease: a pull is told why, a stream is not begun, and one that runs is paused. The
dispatcher of the topic decides that.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from meantime.clock import Clock
from meantime.errors import Invalid
from meantime.topics.catalog import TopicCatalog
from meantime.topics.holders import consumer_of
from meantime.topics.leasing.bucket_shares import share_buckets
from meantime.topics.leasing.consumers import Consumers
from meantime.topics.leasing.dispatchers import LeaseDispatchers
from meantime.topics.leasing.receivers import LeaseStream, PendingPull
from meantime.topics.meters import STREAMS
from meantime.topics.model import ConsumerReport, Lease, Topic
from meantime.topics.rules import MIN_AHEAD_MS
from meantime.topics.storage.counts import MessageCounts
from meantime.topics.storage.messages import MessageStore

MOST_LEASES = 10_000
LONGEST_WAIT_MS = 60_000


class Leasing:
    def __init__(
        self,
        catalog: TopicCatalog,
        messages: MessageStore,
        consumers: Consumers,
        dispatchers: LeaseDispatchers,
        counts: MessageCounts,
        clock: Clock,
    ) -> None:
        self._catalog = catalog
        self._messages = messages
        self._consumers = consumers
        self._dispatchers = dispatchers
        self._counts = counts
        self._clock = clock

    async def pull(self, topic_name: str, consumer_id: str, limit: int, lease_ms: int, wait_ms: int) -> list[Lease]:
        """New leases in time order, at once or as soon as there are any; none when the wait is over."""
        topic = await self._catalog.get(topic_name)
        _check_range("limit", limit, 1, MOST_LEASES)
        _check_range("wait_ms", wait_ms, 0, LONGEST_WAIT_MS)
        _check_lease(lease_ms, topic)
        dispatcher = self._dispatchers.of(topic)
        dispatcher.require_healthy()
        self._consumers.note_pull(topic, consumer_id)
        pull = PendingPull(consumer_id, lease_ms, limit, self._clock.now_ms() + wait_ms)
        dispatcher.join(pull)
        try:
            leases = await pull.answer
        finally:
            dispatcher.leave(pull)
        if leases and not self._consumers.stream_here((topic.topic_id, consumer_id)):
            ends = [(lease.id, lease.at_ms) for lease in leases]
            self._dispatchers.leases_changed(topic.topic_id, consumer_id, ends)
        return leases

    @asynccontextmanager
    async def stream(self, topic_name: str, consumer_id: str, buffer: int, lease_ms: int) -> AsyncIterator[LeaseStream]:
        """The consumer's one stream; it begins with the leases that the consumer still holds."""
        topic = await self._catalog.get(topic_name)
        _check_range("buffer", buffer, 1, MOST_LEASES)
        _check_lease(lease_ms, topic)
        dispatcher = self._dispatchers.of(topic)
        dispatcher.require_healthy()
        stream = LeaseStream(consumer_id, lease_ms, buffer)
        try:
            await self._consumers.claim(topic, stream)
            stream.offer(await self._messages.held(topic, consumer_id, self._clock.now_ms()))
            dispatcher.join(stream)
            with STREAMS.track_inprogress():
                yield stream
        finally:
            dispatcher.leave(stream)
            await self._consumers.release(topic, stream)

    async def consumers(self, topic_name: str) -> list[ConsumerReport]:
        """Who takes messages from a topic, on which node, and what each of them holds."""
        topic = await self._catalog.get(topic_name)
        found = self._consumers.of_topic(topic.topic_id)
        owners = share_buckets(topic.settings.bucket_count, found).owners
        held = await self._counts.outstanding([(topic.topic_id, one.consumer_id) for one in found])
        streaming = any(one.mode == "push" for one in found)
        return [
            ConsumerReport(
                consumer_of(one.consumer_id),
                one.node_id,
                one.mode,
                [owners[one.consumer_id]] if one.consumer_id in owners and (one.mode == "push" or not streaming) else [],
                one.buffer,
                held.get((topic.topic_id, one.consumer_id), 0),
            )
            for one in found
        ]


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Invalid(f"{name} must be from {least} to {most}, not {value}", field=name, minimum=least, maximum=most)


def _check_lease(lease_ms: int, topic: Topic) -> None:
    _check_range("lease_ms", lease_ms, MIN_AHEAD_MS, topic.settings.max_lease_ms)
