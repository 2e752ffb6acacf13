"""The client that blocks. May be shared by threads."""

import logging
import time
from collections.abc import Iterator, Sequence
from ssl import SSLContext
from threading import Lock
from typing import Self, Unpack

import httpx

from meantime.sdk.calls import cluster, cursors, streams, timers
from meantime.sdk.calls import leases as lease_calls
from meantime.sdk.calls import subscriptions as subscription_calls
from meantime.sdk.calls import topics as topic_calls
from meantime.sdk.consuming.consumer import ConsumeOptions, ConsumeSettings
from meantime.sdk.consuming.lease import BackgroundConsumers, Lease
from meantime.sdk.core import Core, Credentials
from meantime.sdk.http.transport import AsyncSender, Sender, StreamBroken, method
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
from meantime.sdk.schedules import Schedules
from meantime.sdk.trust import may_be_insecure, trusted

log = logging.getLogger(__name__)


class Client(Sender):
    """A client of one cluster. `url` is a node, or several separated by commas; any of them will do.

    >>> with Client("http://127.0.0.1:8080") as client:
    ...     client.publish("orders", {"id": 1})
    ...     client.schedule("reminders", {"user": 7}, after=3600)

    Plain calls are retried for `retries.retry_for` seconds where that cannot do harm. `producer_group` is who you are to
    topics. `ca` is a PEM file with the authorities of the nodes' certificates, if they are your own (else `MEANTIME_CA`);
    `verify` an `ssl.SSLContext` for all other wishes. A key goes to `http://` nodes beyond this machine only if `insecure`
    says so (else `MEANTIME_INSECURE`).
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
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        verify = trusted(verify, ca)
        credentials = Credentials(key, producer_group, may_be_insecure(insecure))
        super().__init__(Core(url, credentials, timeout=timeout, retries=retries), verify, transport)
        self.schedules = Schedules(self)
        self._verify = verify
        self._background: BackgroundConsumers | None = None
        self._starting = Lock()

    nodes = method(cluster.nodes)
    clock = method(cluster.clock)
    health = method(cluster.health)
    metrics = method(cluster.metrics)

    event_types = method(streams.event_types)
    event_type = method(streams.event_type)
    create_event_type = method(streams.create_event_type)
    update_event_type = method(streams.update_event_type)
    delete_event_type = method(streams.delete_event_type)
    publish = method(streams.publish)
    publish_encoded = method(streams.publish_encoded)
    partitions = method(streams.partitions)
    distances = method(cursors.distances)
    shifted = method(cursors.shifted)
    lag = method(cursors.lag)
    storages = method(streams.storages)
    storage = method(streams.storage)
    create_storage = method(streams.create_storage)
    delete_storage = method(streams.delete_storage)
    use_storage_by_default = method(streams.use_storage_by_default)
    timelines = method(streams.timelines)
    switch = method(streams.switch)
    switches = method(streams.switches)

    subscribe = method(subscription_calls.subscribe)
    subscriptions = method(subscription_calls.subscriptions)
    subscription = method(subscription_calls.subscription)
    delete_subscription = method(subscription_calls.delete_subscription)
    subscription_stats = method(subscription_calls.subscription_stats)
    committed_cursors = method(subscription_calls.committed_cursors)
    commit = method(subscription_calls.commit)
    commit_cursors = method(subscription_calls.commit_cursors)
    reset_cursors = method(subscription_calls.reset_cursors)

    topics = method(topic_calls.topics)
    topic = method(topic_calls.topic)
    create_topic = method(topic_calls.create_topic)
    delete_topic = method(topic_calls.delete_topic)
    schedule = method(topic_calls.schedule)
    schedule_many = method(topic_calls.schedule_many)
    schedule_prepared = method(topic_calls.schedule_prepared)
    message = method(topic_calls.message)
    messages = method(topic_calls.messages)
    all_messages = method(topic_calls.all_messages)
    move = method(topic_calls.move)
    delete_message = method(topic_calls.delete_message)
    delete_messages = method(topic_calls.delete_messages)
    load = method(topic_calls.load)
    count = method(topic_calls.count)
    redrive = method(topic_calls.redrive)
    consumers = method(topic_calls.consumers)
    lease = method(lease_calls.lease)
    extend_leases = method(lease_calls.extend_leases)
    release_leases = method(lease_calls.release_leases)
    delete_leases = method(lease_calls.delete_leases)

    timer = method(timers.timer)
    timer_many = method(timers.timer_many)
    cancel = method(timers.cancel)
    find_timer = method(timers.find_timer)
    timer_load = method(timers.timer_load)
    timer_status = method(timers.timer_status)

    def learn_nodes(self) -> None:
        """Find out the other nodes of the cluster, to ask them, too, when one does not answer.

        A node that speaks TLS is verified. One that does not is left out if this client has a key or was given an
        `https://` address, unless both are on this machine: the key never goes out in the clear.
        """
        for url, why in self.core.learn([node.url for node in self.nodes()]).items():
            log.warning("node_left_out url=%s reason=%r", url, why)

    @property
    def drift_ms(self) -> float:
        """How far this machine's clock is ahead of the broker's, in milliseconds; 0 before the first answer."""
        return self.core.drift.drift_ms

    def now(self) -> float:
        """The broker's time in Unix seconds, as well as it is known here."""
        return self.core.drift.now_ms() / 1000

    def events(
        self, event_type: str, cursors: Sequence[Cursor] | str = "end", **options: Unpack[StreamSettings]
    ) -> Iterator[Batch]:
        """Batches of events as they come, from cursors, from the `begin` or from the `end`, through every reconnect.

        Options are `batch_limit`, `batch_flush_timeout`, `stream_limit`, `stream_timeout`, `stream_keep_alive_limit`.

        >>> for batch in client.events("orders", "begin", batch_limit=100):
        ...     print(batch.cursor, batch.events)
        """
        start = starting_cursors(self.partitions(event_type), cursors) if isinstance(cursors, str) else cursors
        yield from self._follow(EventsReader(event_type, start, StreamOptions(**options), self.core.retries))

    def subscription_events(self, subscription_id: str, **options: Unpack[StreamSettings]) -> Iterator[SubscriptionBatch]:
        """Batches of a subscription; `commit` each when it is done. What is not committed comes again.

        Options are those of `events`, and `max_uncommitted_events` and `commit_timeout`.
        """
        yield from self._follow(SubscriptionReader(subscription_id, StreamOptions(**options), self.core.retries))

    def _follow(self, reader: ResumingReader[B]) -> Iterator[B]:
        while not reader.finished:
            try:
                with self.stream(reader.call(), silence_for=reader.options.silence_for) as stream:
                    reader.opened(stream.headers)
                    for chunk in stream.chunks:
                        yield from reader.take(chunk)
                pause = reader.ended()
            except StreamBroken:
                pause = reader.broken()
            time.sleep(pause)

    def consume(self, topic: str, consumer_id: str, **options: Unpack[ConsumeSettings]) -> Iterator[Lease]:
        """Leases on messages as they become due, kept alive in the background while you work.

        Options are `mode` ("push" or "pull"), `buffer` (leases at once, 10), `lease_for` (30 seconds), `auto_extend`
        (True) and `on_lost`, which is called with a lease when it is lost. The loop ends after `limit` leases, or when none
        came for `idle_timeout`; without them it goes on for ever. Keep `consumer_id` over restarts: a consumer
        that returns first gets back what it still holds.

        >>> for lease in client.consume("reminders", "worker-1", buffer=50, lease_for="1m", idle_timeout="10s"):
        ...     with lease:
        ...         remind(lease.body)
        """
        return self._in_background().consume(topic, consumer_id, ConsumeOptions(**options))

    def _in_background(self) -> BackgroundConsumers:
        with self._starting:
            if self._background is None or self._background.closed:
                self._background = BackgroundConsumers(AsyncSender(self.core, self._verify, None))
            return self._background

    def close(self) -> None:
        """End all loops over `consume`, give back what they did not hand out, and close the connections."""
        if self._background:
            self._background.close()
        super().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
