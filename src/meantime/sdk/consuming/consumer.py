"""A consumer of one topic: gets leases by push or by pull, keeps them alive, hands them out one at a time.

Push: a task reads the stream into a queue that the broker bounds by `buffer`; a broken stream is opened again, and leases
that the broker then sends again are recognised. Pull: the broker is asked when nothing is left to hand out. Either
way what waits in the queue is extended too, and is given back when the consumer closes.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

from meantime.durations import Duration, in_seconds
from meantime.errors import Invalid, MeantimeError, Unavailable
from meantime.sdk.calls import leases as lease_calls
from meantime.sdk.calls.call import Call
from meantime.sdk.consuming.async_lease import AsyncLease, OnLost
from meantime.sdk.consuming.lease_keeper import LeaseKeeper
from meantime.sdk.http.transport import AsyncSender, StreamBroken
from meantime.sdk.messages import LeasedMessage
from meantime.sdk.reading import LineSplitter
from meantime.tasks import TaskSet

Mode = Literal["push", "pull"]

#: The broker sends an empty line at least every 10 s.
SILENCE_FOR = 25.0
POLL_FOR = 20.0
#: What the broker has pushed into a buffer that was freed a moment ago is waited for, so that it can be given back.
ON_ITS_WAY_FOR = 0.1


@dataclass(frozen=True, slots=True)
class ConsumeOptions:
    """How to consume: by push or pull, how many leases at once, for how long each, and whether to keep them alive; after how
    many, or after how long without any, the loop ends."""

    mode: Mode = "push"
    buffer: int = 10
    lease_for: Duration = 30.0
    auto_extend: bool = True
    on_lost: OnLost | None = None
    limit: int | None = None
    idle_timeout: Duration | None = None

    def __post_init__(self) -> None:
        if self.mode not in ("push", "pull"):
            raise Invalid(f"mode is 'push' or 'pull', not {self.mode!r}")
        if self.buffer < 1 or self.leased_for <= 0:
            raise Invalid("buffer and lease_for must be positive")
        if self.limit is not None and self.limit < 0:
            raise Invalid("limit must not be negative")

    @property
    def leased_for(self) -> float:
        """Seconds."""
        return in_seconds(self.lease_for)

    @property
    def patience(self) -> float:
        """Seconds without a lease after which the loop ends."""
        return math.inf if self.idle_timeout is None else in_seconds(self.idle_timeout)


class ConsumeSettings(TypedDict, total=False):
    """`ConsumeOptions` as keyword arguments."""

    mode: Mode
    buffer: int
    lease_for: Duration
    auto_extend: bool
    on_lost: OnLost | None
    limit: int | None
    idle_timeout: Duration | None


class TopicConsumer:
    """`start`, then `next` as often as you like, then `close`."""

    def __init__(self, sender: AsyncSender, topic: str, consumer_id: str, options: ConsumeOptions) -> None:
        self._sender = sender
        self._topic = topic
        self._consumer_id = consumer_id
        self._options = options
        self._keeper = LeaseKeeper(sender, topic, consumer_id, options.leased_for, extending=options.auto_extend)
        self._waiting: deque[AsyncLease] = deque()
        self._arrived = asyncio.Event()
        self._failure: BaseException | None = None
        self._tasks = TaskSet()
        self._open = False
        self._handed_out = 0

    async def start(self) -> None:
        self._open = True
        self._tasks.start(self._watched(self._keeper.run()), name=f"leases of {self._consumer_id}")
        if self._options.mode == "push":
            self._tasks.start(self._watched(self._receive()), name=f"lease stream of {self._consumer_id}")

    async def next(self) -> AsyncLease | None:
        """The next lease that is still held; None when the limit is reached or nothing came for the time to wait. Raises
        what stopped the consumer."""
        if self._handed_out == self._options.limit:
            return None
        ends_at = time.monotonic() + self._options.patience
        while True:
            while self._waiting:
                lease = self._waiting.popleft()
                if lease.held:
                    self._handed_out += 1
                    return lease
            if self._failure:
                raise self._failure
            left = ends_at - time.monotonic()
            if left <= 0:
                return None
            if self._options.mode == "pull":
                await self._pull(min(left, POLL_FOR))
            else:
                await self._arrival(left)

    async def _arrival(self, wait_for: float) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(None if wait_for == math.inf else wait_for):
                await self._arrived.wait()
        self._arrived.clear()

    async def close(self) -> None:
        """Give back what was not handed out. Once is enough; again does nothing."""
        if not self._open:
            return
        self._open = False
        if self._options.mode == "push" and not self._failure:
            await asyncio.sleep(ON_ITS_WAY_FOR)
        await self._tasks.end()
        await self._give_back()

    async def _watched(self, duty: Coroutine[Any, Any, None]) -> None:
        """A failure is raised to whoever asks for the next lease."""
        try:
            await duty
        except Exception as error:
            self._failure = error
            self._arrived.set()

    async def _receive(self) -> None:
        failures = 0
        while True:
            try:
                failures = await self._receive_once(failures)
            except StreamBroken:
                failures += 1
            await asyncio.sleep(self._sender.core.retries.pause(max(1, failures)))

    async def _receive_once(self, failures: int) -> int:
        options = self._options
        lines = LineSplitter()
        call = lease_calls.lease_stream(self._topic, self._consumer_id, buffer=options.buffer, lease_for=options.lease_for)
        async with self._sender.stream(call, silence_for=SILENCE_FOR) as stream:
            async for chunk in stream.chunks:
                failures = 0
                for line in lines.feed(chunk):
                    self._arrive(lease_calls.read_line(line))
        return failures + 1

    async def _pull(self, wait_for: float) -> None:
        options = self._options
        call = lease_calls.lease(
            self._topic,
            self._consumer_id,
            limit=options.buffer,
            lease_for=options.lease_for,
            wait_for=wait_for,
        )
        for leased in await self._patiently(call):
            self._arrive(leased)

    async def _patiently(self, call: Call[list[LeasedMessage]]) -> list[LeasedMessage]:
        """Ask again for as long as a stream would be reopened: leases of a lost answer come back by themselves."""
        retries, failures = self._sender.core.retries, 0
        give_up_at: float | None = None
        while True:
            try:
                return await self._sender.send(call)
            except Unavailable:
                now = time.monotonic()
                give_up_at = give_up_at or now + retries.reconnect_for
                if now >= give_up_at:
                    raise
            failures += 1
            await asyncio.sleep(retries.pause(failures))

    def _arrive(self, leased: LeasedMessage) -> None:
        if self._keeper.recognise(leased):
            return
        lease = AsyncLease(self._sender, self._topic, self._consumer_id, leased, self._options.on_lost)
        self._keeper.add(lease)
        self._waiting.append(lease)
        self._arrived.set()

    async def _give_back(self) -> None:
        leases = [lease for lease in self._waiting if lease.held]
        self._waiting.clear()
        if leases:
            call = lease_calls.release_leases(self._topic, self._consumer_id, leases, after=0)
            try:
                await self._sender.send(call, retry_for=2.0)
            except MeantimeError:
                return  # they can be leased again when they expire
