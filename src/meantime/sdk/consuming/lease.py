"""Leases for handlers that block. The work is done by an `AsyncLease` on the client's background loop."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Any, Self
from weakref import ref

from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.sdk.consuming.background_loop import CLOSED_WITHIN, BackgroundLoop, BackgroundLoopClosed
from meantime.sdk.consuming.consumer import ConsumeOptions, TopicConsumer
from meantime.sdk.http.transport import AsyncSender
from meantime.sdk.instants import Duration
from meantime.sdk.messages import FailedAttempt, LeasedMessage


class Lease:
    """A message that is this consumer's until `expires_in` runs out. As a context manager it is deleted when the block
    succeeds, and released with the exception as the reason when it raises.

    >>> for lease in client.consume("reminders", "worker-1"):
    ...     with lease:
    ...         remind(lease.body)
    """

    def __init__(self, loop: BackgroundLoop, lease: AsyncLease, on_lost: Callable[["Lease"], None] | None = None) -> None:
        self.on_lost = on_lost
        self._loop = loop
        self._lease = lease
        self._gone = threading.Event()
        # Weak, or the two would keep each other alive and a dropped lease would be extended on and on.
        myself = ref(self)
        lease.on_lost = lambda _: _tell(myself())

    def __repr__(self) -> str:
        return repr(self._lease).replace("AsyncLease", "Lease")

    @property
    def topic(self) -> str:
        return self._lease.topic

    @property
    def consumer_id(self) -> str:
        return self._lease.consumer_id

    @property
    def id(self) -> str:
        return self._lease.id

    @property
    def body(self) -> Any:
        """What was scheduled: JSON, or bytes."""
        return self._lease.body

    @property
    def attempts(self) -> int:
        """How often the message has been leased, this time included."""
        return self._lease.attempts

    @property
    def reason(self) -> str | None:
        """Why the message was given back last, if a consumer has said so."""
        return self._lease.reason

    @property
    def history(self) -> Sequence[FailedAttempt]:
        """The latest attempts that failed with a reason, the last one last."""
        return self._lease.history

    @property
    def version(self) -> int:
        return self._lease.version

    @property
    def message(self) -> LeasedMessage:
        """The lease as it came over the wire."""
        return self._lease.message

    @property
    def expires_in(self) -> float:
        """Seconds that are left by the broker's clock; negative when it is over."""
        return self._lease.expires_in

    @property
    def held(self) -> bool:
        return self._lease.held

    @property
    def lost(self) -> bool:
        """True once another consumer may have the message: stop working on it."""
        return self._lease.lost

    @property
    def settled(self) -> bool:
        return self._lease.settled

    def wait_lost(self, timeout: float | None = None) -> bool:
        """Blocks until the lease is lost; False when `timeout` seconds passed before."""
        return self._gone.wait(timeout)

    def delete(self) -> None:
        """The work is done; raises LeaseLost if the message was no longer this consumer's."""
        self._loop.run(self._lease.delete())

    def release(self, after: Duration | None = None, reason: str | None = None) -> None:
        """Give the message back, to be leased again `after` from now, or when the topic's retry policy says. `reason` is
        shown to whoever gets it next, to its owner and in the dead letter."""
        self._loop.run(self._lease.release(after, reason))

    def extend(self, after: Duration = 30.0) -> None:
        """Let the lease end `after` from now."""
        self._loop.run(self._lease.extend(after))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._loop.run(self._lease.__aexit__(kind, error, trace))


def _tell(lease: Lease | None) -> None:
    if lease is not None:
        lease._gone.set()
        if lease.on_lost:
            lease.on_lost(lease)


class BackgroundConsumers:
    """Everything of a sync client that goes on while it does something else."""

    def __init__(self, sender: AsyncSender) -> None:
        self._loop = BackgroundLoop()
        self._sender = sender
        self._consumers: set[TopicConsumer] = set()

    @property
    def closed(self) -> bool:
        return self._loop.closed

    def consume(self, topic: str, consumer_id: str, options: ConsumeOptions) -> Iterator[Lease]:
        """Leases, one at a time, until the options say so, the caller stops asking or the client is closed."""
        consuming = self._loop.run(self._start(topic, consumer_id, replace(options, on_lost=None)))
        try:
            while (lease := self._loop.run(consuming.next())) is not None:
                yield Lease(self._loop, lease, options.on_lost)
        except BackgroundLoopClosed:
            return
        finally:
            with suppress(BackgroundLoopClosed, TimeoutError):
                self._loop.run(self._stop(consuming), timeout=CLOSED_WITHIN)

    def close(self) -> None:
        with suppress(BackgroundLoopClosed, TimeoutError):
            self._loop.run(self._stop_all(), timeout=CLOSED_WITHIN)
        self._loop.close()

    async def _start(self, topic: str, consumer_id: str, options: ConsumeOptions) -> TopicConsumer:
        consuming = TopicConsumer(self._sender, topic, consumer_id, options)
        self._consumers.add(consuming)
        await consuming.start()
        return consuming

    async def _stop(self, consuming: TopicConsumer) -> None:
        self._consumers.discard(consuming)
        await consuming.close()

    async def _stop_all(self) -> None:
        await asyncio.gather(*(consuming.close() for consuming in self._consumers))
        await self._sender.aclose()
