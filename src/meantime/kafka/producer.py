"""Writing to a storage: one shared producer, acks=all and idempotent, fed and polled by the event loop.

There is no thread of ours: delivery reports are fetched by a timer that runs only while something is in flight, and a batch
becomes one future. What is in flight is bounded in bytes; whoever finds no room waits for it until a deadline. A large batch
is handed over piece by piece, as its events are written, and leaves room for others.

Small batches go out together. One that finds nothing on its way goes at once; those that come while others are on their way
wait for the first reports, at most some milliseconds. So who comes alone waits for nobody, and when many come the broker
gets few requests with much in each.
"""

import asyncio
import time
from collections import deque
from collections.abc import Collection, Iterable
from itertools import repeat
from typing import Any

import structlog
from confluent_kafka import KafkaError, KafkaException, Producer

from meantime.errors import StorageUnavailable, Unavailable
from meantime.kafka.batch import RecordBatch, Records, Reports
from meantime.kafka.settings import ONE_AFTER_THE_OTHER, Storage, client_config
from meantime.supervision import FAILURES
from meantime.tasks import TaskSet

log = structlog.get_logger(__name__)

MAX_RECORD_BYTES = 1_040_000
"""What a producer takes for one record: an event at its limit with its enrichment, below Kafka's usual 1,048,588."""

DELIVER_FOR = 25.0
"""Seconds for which an event is tried to be written. The producer, which is idempotent, repeats it, and nobody else may:
whoever gave up before a killed broker has come back could not tell whether the event was written."""

HANDED_OVER_AT_ONCE = 1000
"""More events than these are handed over with pauses for others: each takes one or two microseconds."""
HANDED_OVER_BYTES = 1 << 20
WINDOW_EVENTS, WINDOW_BYTES = 20_000, 8 << 20
"""So much of a large batch is in flight at a time; it also bounds how many reports come at once."""
TOGETHER_FOR = 0.005
"""Seconds for which a small batch waits at most, so that others go with it."""
TOGETHER_EVENTS, TOGETHER_BYTES = 1000, 1 << 20
_POLL_FIRST = 0.001
_POLL_MOST = 0.02
_POLL_IDLE = 1.0
_CLOSE_WITHIN = 5.0


class StorageProducer:
    def __init__(self, storage: Storage, *, deliver_for: float, max_in_flight_bytes: int) -> None:
        self.storage = storage
        self.disturbances = 0
        self.broken = False
        self._deliver_for = deliver_for
        self._limit = max_in_flight_bytes
        self._loop = asyncio.get_running_loop()
        self._producer = Producer(self._config())
        self._in_flight = 0
        self._batches = 0
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._together: list[tuple[str, Records, RecordBatch]] = []
        self._together_events = self._together_bytes = 0
        self._together_until = 0.0
        self._pause = _POLL_FIRST
        self._timer = self._loop.call_later(_POLL_IDLE, self._poll)

    def _config(self) -> dict[str, Any]:
        return client_config(self.storage) | {
            **ONE_AFTER_THE_OTHER,
            # Long enough for all that is handed over together, which takes a microsecond or two each.
            "linger.ms": 0.5,
            "batch.size": 1_000_000,
            "message.max.bytes": MAX_RECORD_BYTES,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_097_151,
            "message.timeout.ms": int(self._deliver_for * 1000),
            # A request must not be given up, and repeated, before its messages are.
            "request.timeout.ms": int(self._deliver_for * 1000) + 5000,
            "socket.timeout.ms": int(self._deliver_for * 1000) + 10_000,
            "topic.metadata.propagation.max.ms": 5000,
            "topic.metadata.refresh.fast.interval.ms": 20,
            "error_cb": self._trouble,
        }

    def has_room(self, size: int) -> bool:
        """May a batch of `size` bytes be handed over? Large ones leave half of the room to others."""
        if size <= WINDOW_BYTES:
            return not self._in_flight or self._in_flight + size <= self._limit
        return not self._in_flight or self._in_flight + WINDOW_BYTES <= self._limit // 2

    async def wait_for_room(self, size: int, deadline: float) -> None:
        """Return when there is room; the deadline is on the monotonic clock."""
        while not self.has_room(size):
            waiter = self._loop.create_future()
            self._waiters.append(waiter)
            try:
                async with asyncio.timeout(deadline - time.monotonic()):
                    await waiter
            except TimeoutError:
                raise Unavailable(
                    f"storage {self.storage.id!r} takes events more slowly than they are published", retry_after=1
                ) from None

    def begin(self, records: Records) -> RecordBatch:
        """A batch that is about to be handed over. See `has_room` first."""
        self._in_flight += min(records.size, WINDOW_BYTES)
        self._batches += 1
        return RecordBatch(self, records, self._loop.create_future())

    @staticmethod
    def takes_long(records: Records) -> bool:
        return len(records.values) > HANDED_OVER_AT_ONCE or records.size > HANDED_OVER_BYTES

    def hand_over(self, topic: str, records: Records, batch: RecordBatch) -> None:
        """The events of a new batch, in their order; never waits."""
        together = self._together
        together.append((topic, records, batch))
        self._together_events += len(records.values)
        self._together_bytes += records.size
        if self._together_events > TOGETHER_EVENTS or self._together_bytes > TOGETHER_BYTES:
            self._send_together()
        elif len(together) == 1:
            self._together_until = self._loop.time() + TOGETHER_FOR
            if self._batches == 1:
                self._loop.call_soon(self._send_together)
            else:
                self._hasten()

    def _send_together(self) -> None:
        """What has been let go before it was sent is not sent any more."""
        together, self._together = self._together, []
        self._together_events = self._together_bytes = 0
        for topic, records, batch in together:
            if batch.done.done():
                batch.refuse_from(0, _not_sent())
            else:
                self._produce(topic, records, batch, batch.reports(), 0, len(records.values))
        if together:
            self._hasten()

    async def hand_over_with_pauses(self, topic: str, records: Records, batch: RecordBatch) -> None:
        """The same for many events: others have their turn in between, and room. Whoever gives up before the end, or lets
        the batch go, has not sent the rest; nor is it sent to a storage that has let the first ones time out."""
        on_delivery = batch.reports()
        taken, count = 0, len(records.values)
        size = max(1, records.size // max(1, count))
        some, window = min(HANDED_OVER_AT_ONCE, HANDED_OVER_BYTES // size), min(WINDOW_EVENTS, WINDOW_BYTES // size)
        try:
            while taken < count and not batch.done.done() and not batch.in_vain:
                if taken - batch.reported > window:
                    await asyncio.sleep(_POLL_FIRST)
                    continue
                end = min(count, taken + max(1, some))
                taken = end if self._produce(topic, records, batch, on_delivery, taken, end) else count
                self._hasten()
                await asyncio.sleep(0)
        finally:
            if taken < count:
                batch.refuse_from(taken, _not_sent())

    def _produce(self, topic: str, records: Records, batch: RecordBatch, on_delivery: Reports, first: int, end: int) -> bool:
        """Those from `first` to `end`. What the client does not take gets its report at once, so that a batch always
        completes. Nothing is made for each event: what lives until the reports come keeps the garbage collector busy."""
        produce, taken = self._producer.produce, first
        try:
            keys = records.keys[first:end] or repeat(None)
            for value, partition, key in zip(records.values[first:end], records.partitions[first:end], keys, strict=False):
                produce(topic, value, key, partition, on_delivery[partition])
                taken += 1
        except Exception as error:  # those who go together with this one must not be left behind
            if not isinstance(error, KafkaException | BufferError):
                log.exception("events_not_handed_over", storage_id=self.storage.id, topic=topic)
            batch.refuse_from(taken, _as_kafka_error(error))
            return False
        return True

    def release(self, size: int) -> None:
        self._in_flight -= min(size, WINDOW_BYTES)
        self._batches -= 1
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)

    async def warm(self, topic: str) -> None:
        """Know the topic's leaders before the first event needs them."""
        await asyncio.to_thread(self._list_topic, topic)

    def _list_topic(self, topic: str) -> None:
        try:
            self._producer.list_topics(topic, timeout=2.0)
        except (KafkaException, RuntimeError) as error:  # it may have been closed meanwhile
            log.info("warm_up_failed", storage_id=self.storage.id, topic=topic, error=str(error))

    async def close(self) -> None:
        """Wait some seconds for what is in flight; what a dead storage keeps is given up."""
        deadline = time.monotonic() + min(self._deliver_for, _CLOSE_WITHIN)
        while self._batches and time.monotonic() < deadline:  # noqa: ASYNC110 - the poll timer does the work
            await asyncio.sleep(0.01)
        self._timer.cancel()
        self._producer.purge()
        self._producer.poll(0)
        if not self._batches:  # else its connections end with the process, since closing would wait for a dead storage
            self._producer.close()

    def _hasten(self) -> None:
        self._pause = _POLL_FIRST
        if self._timer.when() - self._loop.time() > 2 * _POLL_FIRST:
            self._timer.cancel()
            self._timer = self._loop.call_later(_POLL_FIRST, self._poll)

    def _poll(self) -> None:
        served = 0
        try:
            served = self._producer.poll(0)
        except Exception:  # of whoever is told that something was written; all the others want to be told too
            FAILURES.labels("delivery reports").inc()
            log.exception("delivery_report_failed", storage_id=self.storage.id)
        if served:
            self._pause = _POLL_FIRST
        elif self._batches:
            self._pause = min(self._pause * 1.3, _POLL_MOST)
        if self._together and (served or self._loop.time() >= self._together_until):
            self._send_together()
        self._timer = self._loop.call_later(self._pause if self._batches else _POLL_IDLE, self._poll)

    def _trouble(self, error: KafkaError) -> None:
        self.disturbances += 1
        if error.fatal():
            self.broken = True
            log.error("producer_broken", storage_id=self.storage.id, error=error.str())


def _not_sent() -> KafkaError:
    return KafkaError(KafkaError._PURGE_QUEUE, "not sent any more")


def _as_kafka_error(error: Exception) -> KafkaError:
    first = error.args[0] if error.args else None
    return first if isinstance(first, KafkaError) else KafkaError(KafkaError._QUEUE_FULL, str(error))


class Producers:
    """One producer per storage, made when first needed; a broken one is replaced. It is closed once it is empty, as is that
    of a storage which is gone."""

    def __init__(self, *, deliver_for: float = DELIVER_FOR, max_in_flight_bytes: int = 64 << 20) -> None:
        self._deliver_for = deliver_for
        self._limit = max_in_flight_bytes
        self._producers: dict[str, StorageProducer] = {}
        self._closing = TaskSet()

    def of(self, storage: Storage) -> StorageProducer:
        known = self._producers.get(storage.id)
        if known is not None and not known.broken and known.storage is storage:
            return known
        if known is not None and not known.broken and client_config(known.storage) == client_config(storage):
            known.storage = storage
            return known
        return self._replace(storage, known)

    def prepare(self, storages: Iterable[Storage]) -> None:
        """Connect ahead of the first event: a new producer needs half a second until it may write."""
        for storage in storages:
            try:
                self.of(storage)
            except StorageUnavailable as error:
                log.warning("no_producer", storage_id=storage.id, error=error.detail)

    def keep(self, storage_ids: Collection[str]) -> None:
        """Close those of all other storages."""
        for id in self._producers.keys() - set(storage_ids):
            self._closing.start(self._producers.pop(id).close(), f"close the producer of {id}")

    def _replace(self, storage: Storage, known: StorageProducer | None) -> StorageProducer:
        if known is not None:
            self._closing.start(known.close(), f"close the producer of {known.storage.id}")
        try:
            new = StorageProducer(storage, deliver_for=self._deliver_for, max_in_flight_bytes=self._limit)
        except (KafkaException, ValueError, TypeError) as error:
            raise StorageUnavailable(f"no producer for storage {storage.id!r}: {error}", storage_id=storage.id) from error
        self._producers[storage.id] = new
        return new

    async def close(self) -> None:
        await asyncio.gather(*(producer.close() for producer in self._producers.values()), self._closing.finished())
