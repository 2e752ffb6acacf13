"""Writing requests: one producer per node, acks=all and idempotent, polled by the event loop while any is in flight."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from meantime.errors import StorageUnavailable, TooLarge
from meantime.kafka.settings import ONE_AFTER_THE_OTHER, Storage
from meantime.supervision import kept_running
from meantime.timers.future import encode
from meantime.timers.kafka_topics import timers_config
from meantime.timers.model import NewTimer, TimerId
from meantime.timers.topics import REQUEST

POLL_EVERY = 0.002
ANSWER_WITHIN = 15.0


class _Pending:
    """Requests that were handed over together; done when Kafka has them all."""

    def __init__(self, count: int) -> None:
        self.left = count
        self.newest_ms = 0
        self.done: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        """Called on the event loop, by `poll`."""
        if error is not None:
            self.fail(StorageUnavailable(f"Kafka did not take the request: {error.str()}"))
            return
        self.left -= 1
        self.newest_ms = max(self.newest_ms, message.timestamp()[1])
        if self.left == 0 and not self.done.done():
            self.done.set_result(self.newest_ms)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class RequestProducer:
    """Until `connect` is called, every call answers *not now*."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._in_flight = 0
        self._arrived = asyncio.Event()
        self._connected: Producer | None = None

    def connect(self, storage: Storage) -> None:
        own = {
            **ONE_AFTER_THE_OTHER,
            "linger.ms": 2,
            "compression.type": "lz4",
            "message.timeout.ms": int(ANSWER_WITHIN * 1000),
            "message.max.bytes": max(1_000_000, self._max_bytes),
            "queue.buffering.max.messages": 1_000_000,
        }
        try:
            self._connected = Producer(timers_config(storage, **own))
        except (KafkaException, TypeError, ValueError) as error:
            raise StorageUnavailable(f"storage {storage.id!r} cannot be used: {error}", storage_id=storage.id) from error

    @property
    def _producer(self) -> Producer:
        if self._connected is None:
            raise StorageUnavailable("the storage of timers is not known yet")
        return self._connected

    async def set(self, timers: Iterable[NewTimer]) -> None:
        """Return when Kafka has them all."""
        requests = [(str(new.timer.second), encode(new.future), ("token", new.timer.token)) for new in timers]
        await self._write(requests)

    async def cancel(self, timer: TimerId) -> int:
        """When Kafka got the cancel, by its own clock."""
        return await self._write([(str(timer.second), b"", ("cancel", timer.token))])

    async def poll(self) -> None:
        """Fetch delivery reports, for ever."""
        while True:
            if not self._in_flight:
                self._arrived.clear()
                await self._arrived.wait()
            self._producer.poll(0)
            await asyncio.sleep(POLL_EVERY)

    def close(self) -> None:
        if self._connected is not None:
            self._connected.flush(2.0)

    async def _write(self, requests: list[tuple[str, bytes, tuple[str, str]]]) -> int:
        producer, pending = self._producer, _Pending(len(requests))
        self._in_flight += 1
        self._arrived.set()
        try:
            for key, value, header in requests:
                producer.produce(REQUEST, value, key, headers=[header], on_delivery=pending.delivered)
            return await pending.done
        except BufferError as error:
            raise StorageUnavailable("Kafka takes requests more slowly than they come") from error
        except KafkaException as error:
            if error.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE:
                raise TooLarge("a request is too large for Kafka") from error
            raise StorageUnavailable(f"Kafka did not take the request: {error.args[0].str()}") from error
        finally:
            self._in_flight -= 1


@asynccontextmanager
async def open_request_producer(max_bytes: int) -> AsyncIterator[RequestProducer]:
    producer = RequestProducer(max_bytes)
    try:
        async with kept_running(producer.poll, "timer requests"):
            yield producer
    finally:
        await asyncio.to_thread(producer.close)
