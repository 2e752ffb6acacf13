"""The client for asyncio."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from ssl import SSLContext
from typing import Self, Unpack

import httpx

from meantime.sdk.calls import cluster, cursors, streams, timers
from meantime.sdk.calls import leases as lease_calls
from meantime.sdk.calls import subscriptions as subscription_calls
from meantime.sdk.calls import topics as topic_calls
from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.sdk.consuming.consumer import ConsumeOptions, ConsumeSettings, TopicConsumer
from meantime.sdk.core import Core, Credentials
from meantime.sdk.http.transport import AsyncSender, StreamBroken, async_method
from meantime.sdk.model import Batch, Cursor, SubscriptionBatch
from meantime.sdk.reading import (
    B,
    EventsReader,
    ResumingReader,
    StreamOptions,
    StreamSettings,
    SubscriptionReader,
    starting_cursors,
)
from meantime.sdk.retries import Retries
from meantime.sdk.schedules import AsyncSchedules
from meantime.sdk.trust import may_be_insecure, trusted

log = logging.getLogger(__name__)


class AsyncClient(AsyncSender):
    """The same client as `Client`, for asyncio: methods are awaited, iterations are `async for`.

    >>> async with AsyncClient("http://127.0.0.1:8080") as client:
    ...     await client.publish("orders", {"id": 1})
    ...     await client.schedule("reminders", {"user": 7}, after=3600)
    """

    def __init__(
        self,
        url: str | Sequence[str],
        key: str | None = None,
        *,
        producer_group: str = "default",
        timeout: float = 40.0,
        retries: Retries | None = None,
        verify: SSLContext | bool = True,
        ca: str | None = None,
        insecure: bool | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        verify = trusted(verify, ca)
        credentials = Credentials(key, producer_group, may_be_insecure(insecure))
        super().__init__(Core(url, credentials, timeout=timeout, retries=retries), verify, transport)
        self.schedules = AsyncSchedules(self)

    nodes = async_method(cluster.nodes)
    clock = async_method(cluster.clock)
    health = async_method(cluster.health)
    metrics = async_method(cluster.metrics)

    event_types = async_method(streams.event_types)
    event_type = async_method(streams.event_type)
    create_event_type = async_method(streams.create_event_type)
    update_event_type = async_method(streams.update_event_type)
    delete_event_type = async_method(streams.delete_event_type)
    publish = async_method(streams.publish)
    publish_encoded = async_method(streams.publish_encoded)
    partitions = async_method(streams.partitions)
    distances = async_method(cursors.distances)
    shifted = async_method(cursors.shifted)
    lag = async_method(cursors.lag)
    storages = async_method(streams.storages)
    storage = async_method(streams.storage)
    create_storage = async_method(streams.create_storage)
    delete_storage = async_method(streams.delete_storage)
    use_storage_by_default = async_method(streams.use_storage_by_default)
    timelines = async_method(streams.timelines)
    switch = async_method(streams.switch)
    switches = async_method(streams.switches)

    subscribe = async_method(subscription_calls.subscribe)
    subscriptions = async_method(subscription_calls.subscriptions)
    subscription = async_method(subscription_calls.subscription)
    delete_subscription = async_method(subscription_calls.delete_subscription)
    subscription_stats = async_method(subscription_calls.subscription_stats)
    committed_cursors = async_method(subscription_calls.committed_cursors)
    commit = async_method(subscription_calls.commit)
    commit_cursors = async_method(subscription_calls.commit_cursors)
    reset_cursors = async_method(subscription_calls.reset_cursors)

    topics = async_method(topic_calls.topics)
    topic = async_method(topic_calls.topic)
    create_topic = async_method(topic_calls.create_topic)
    delete_topic = async_method(topic_calls.delete_topic)
    schedule = async_method(topic_calls.schedule)
    schedule_many = async_method(topic_calls.schedule_many)
    schedule_prepared = async_method(topic_calls.schedule_prepared)
    message = async_method(topic_calls.message)
    messages = async_method(topic_calls.messages)
    all_messages = async_method(topic_calls.all_messages)
    move = async_method(topic_calls.move)
    delete_message = async_method(topic_calls.delete_message)
    delete_messages = async_method(topic_calls.delete_messages)
    load = async_method(topic_calls.load)
    count = async_method(topic_calls.count)
    redrive = async_method(topic_calls.redrive)
    consumers = async_method(topic_calls.consumers)
    lease = async_method(lease_calls.lease)
    extend_leases = async_method(lease_calls.extend_leases)
    release_leases = async_method(lease_calls.release_leases)
    delete_leases = async_method(lease_calls.delete_leases)

    timer = async_method(timers.timer)
    timer_many = async_method(timers.timer_many)
    cancel = async_method(timers.cancel)
    find_timer = async_method(timers.find_timer)
    timer_load = async_method(timers.timer_load)
    timer_status = async_method(timers.timer_status)

    async def learn_nodes(self) -> None:
        """Find out the other nodes of the cluster, to ask them, too, when one does not answer.

        A node that speaks TLS is verified. One that does not is left out if this client has a key or was given an
        `https://` address, unless both are on this machine: the key never goes out in the clear.
        """
        for url, why in self.core.learn([node.url for node in await self.nodes()]).items():
            log.warning("node_left_out url=%s reason=%r", url, why)

    @property
    def drift_ms(self) -> float:
        """How far this machine's clock is ahead of the broker's, in milliseconds; 0 before the first answer."""
        return self.core.drift.drift_ms

    def now(self) -> float:
        """The broker's time in Unix seconds, as well as it is known here."""
        return self.core.drift.now_ms() / 1000

    async def events(
        self, event_type: str, cursors: Sequence[Cursor] | str = "end", **options: Unpack[StreamSettings]
    ) -> AsyncGenerator[Batch, None]:
        """Batches of events as they come; see `Client.events`.

        >>> async for batch in client.events("orders", "begin", batch_limit=100):
        ...     print(batch.cursor, batch.events)
        """
        start = starting_cursors(await self.partitions(event_type), cursors) if isinstance(cursors, str) else cursors
        reader = EventsReader(event_type, start, StreamOptions(**options), self.core.retries)
        async with aclosing(self._follow(reader)) as batches:
            async for batch in batches:
                yield batch

    async def subscription_events(
        self, subscription_id: str, **options: Unpack[StreamSettings]
    ) -> AsyncGenerator[SubscriptionBatch, None]:
        """Batches of a subscription; see `Client.subscription_events`."""
        reader = SubscriptionReader(subscription_id, StreamOptions(**options), self.core.retries)
        async with aclosing(self._follow(reader)) as batches:
            async for batch in batches:
                yield batch

    async def _follow(self, reader: ResumingReader[B]) -> AsyncGenerator[B, None]:
        while not reader.finished:
            try:
                async with self.stream(reader.call(), silence_for=reader.options.silence_for) as stream:
                    reader.opened(stream.headers)
                    async for chunk in stream.chunks:
                        for batch in reader.take(chunk):
                            yield batch
                pause = reader.ended()
            except StreamBroken:
                pause = reader.broken()
            await asyncio.sleep(pause)

    async def consume(
        self, topic: str, consumer_id: str, **options: Unpack[ConsumeSettings]
    ) -> AsyncGenerator[AsyncLease, None]:
        """Leases on messages as they become due, kept alive while you work; see `Client.consume`.

        >>> async for lease in client.consume("reminders", "worker-1", buffer=50, lease_for=60):
        ...     async with lease:
        ...         await remind(lease.body)
        """
        consuming = TopicConsumer(self, topic, consumer_id, ConsumeOptions(**options))
        await consuming.start()
        try:
            while (lease := await consuming.next()) is not None:
                yield lease
        finally:
            await consuming.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()
