"""Taking messages: a pull waits for a while, a stream for ever.

A node that is not healthy issues no lease: a pull is told why, a stream is not begun, and one that runs is paused.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from meantime.clock import Clock
from meantime.errors import Invalid
from meantime.topics.catalog import Catalogue
from meantime.topics.health import Health
from meantime.topics.leasing.consumers import Consumers
from meantime.topics.leasing.dispatchers import Dispatchers
from meantime.topics.leasing.receivers import Pull, Stream
from meantime.topics.meters import STREAMS
from meantime.topics.model import Lease, Topic
from meantime.topics.rules import MIN_AHEAD_MS
from meantime.topics.storage.messages import Messages

MOST_LEASES = 10_000
LONGEST_WAIT_MS = 60_000


class Leasing:
    def __init__(
        self,
        catalogue: Catalogue,
        messages: Messages,
        consumers: Consumers,
        dispatchers: Dispatchers,
        clock: Clock,
        health: Health,
    ) -> None:
        self._catalogue = catalogue
        self._messages = messages
        self._consumers = consumers
        self._dispatchers = dispatchers
        self._clock = clock
        self._health = health

    async def pull(self, topic: Topic, consumer_id: str, limit: int, lease_ms: int, wait_ms: int) -> list[Lease]:
        """New leases in time order, at once or as soon as there are any; none when the wait is over."""
        _check_range("limit", limit, 1, MOST_LEASES)
        _check_range("wait_ms", wait_ms, 0, LONGEST_WAIT_MS)
        _check_lease(lease_ms, topic)
        self._health.require_healthy()
        self._consumers.note_pull(topic, consumer_id)
        pull = Pull(consumer_id, lease_ms, limit, self._clock.now_ms() + wait_ms)
        dispatcher = self._dispatchers.of(topic)
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
    async def stream(self, topic: Topic, consumer_id: str, buffer: int, lease_ms: int) -> AsyncIterator[Stream]:
        """The consumer's one stream; it begins with the leases that the consumer still holds."""
        _check_range("buffer", buffer, 1, MOST_LEASES)
        _check_lease(lease_ms, topic)
        self._health.require_healthy()
        stream = Stream(consumer_id, lease_ms, buffer)
        dispatcher = self._dispatchers.of(topic)
        try:
            await self._consumers.claim(topic, stream)
            stream.offer(await self._messages.held(topic, consumer_id, self._clock.now_ms()))
            dispatcher.join(stream)
            with STREAMS.track_inprogress():
                yield stream
        finally:
            dispatcher.leave(stream)
            await self._consumers.release(topic, stream)


def _check_range(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise Invalid(f"{name} must be from {least} to {most}, not {value}", field=name, minimum=least, maximum=most)


def _check_lease(lease_ms: int, topic: Topic) -> None:
    _check_range("lease_ms", lease_ms, MIN_AHEAD_MS, topic.settings.max_lease_ms)
