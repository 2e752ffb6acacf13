"""A lease that an async handler works under.

    held ──► settled   deleted or released by its handler
      └────► lost      refused by the broker, or expired by the broker's clock: another consumer may be working on it

All changes of one lease are made one after the other under its lock, so the version it believes in is never stale by its
own doing. An extension whose answer was lost is found out by looking: the broker still knows this consumer as the holder,
after the same number of attempts.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from enum import Enum
from types import TracebackType
from typing import Any, Self

from meantime.errors import Forbidden, LeaseLost, NotFound
from meantime.sdk.calls import leases as lease_calls
from meantime.sdk.calls import topics as topic_calls
from meantime.sdk.http.transport import AsyncSender
from meantime.sdk.instants import Duration
from meantime.sdk.messages import FailedAttempt, LeasedMessage, Outcome

log = logging.getLogger(__name__)

OnLost = Callable[[Any], None]


class LeaseState(Enum):
    HELD = "held"
    SETTLED = "settled"
    LOST = "lost"


class AsyncLease:
    """A message that is this consumer's until `expires_in` runs out. As a context manager it is deleted when the block
    succeeds, and released with the exception as the reason when it raises.

    >>> async for lease in client.consume("reminders", "worker-1"):
    ...     async with lease:
    ...         await remind(lease.body)
    """

    def __init__(
        self, sender: AsyncSender, topic: str, consumer_id: str, leased: LeasedMessage, on_lost: OnLost | None = None
    ) -> None:
        self.topic = topic
        self.consumer_id = consumer_id
        self.version = leased.version
        self.at_ms = leased.at_ms
        self.on_lost = on_lost
        self._sender = sender
        self._leased = leased
        self._state = LeaseState.HELD
        self.lock = asyncio.Lock()
        self._gone = asyncio.Event()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id!r} of {self.topic!r}, {self._state.value}, {self.expires_in:.1f} s left>"

    @property
    def id(self) -> str:
        return self._leased.id

    @property
    def body(self) -> Any:
        """What was scheduled: JSON, or bytes."""
        return self._leased.content

    @property
    def attempts(self) -> int:
        """How often the message has been leased, this time included."""
        return self._leased.attempts

    @property
    def reason(self) -> str | None:
        """Why the message was given back last, if a consumer has said so."""
        return self._leased.reason

    @property
    def history(self) -> Sequence[FailedAttempt]:
        """The latest attempts that failed with a reason, the last one last."""
        return self._leased.history

    @property
    def message(self) -> LeasedMessage:
        """The lease as it came over the wire."""
        return self._leased

    @property
    def expires_in(self) -> float:
        """Seconds that are left by the broker's clock; negative when it is over."""
        return (self.at_ms - self._sender.core.drift.now_ms()) / 1000

    @property
    def held(self) -> bool:
        return self._state is LeaseState.HELD and self.expires_in > 0

    @property
    def lost(self) -> bool:
        """True once another consumer may have the message: stop working on it."""
        return self._state is LeaseState.LOST or (self._state is LeaseState.HELD and self.expires_in <= 0)

    @property
    def settled(self) -> bool:
        return self._state is LeaseState.SETTLED

    @property
    def busy(self) -> bool:
        return self.lock.locked()

    async def wait_lost(self) -> None:
        """Returns when the lease is lost."""
        await self._gone.wait()

    async def delete(self) -> None:
        """The work is done; raises LeaseLost if the message was no longer this consumer's."""
        async with self.lock:
            self._require_held()
            outcome = await self._change(lease_calls.delete_leases(self.topic, self.consumer_id, [self]))
            if outcome.status not in ("ok", "not_found"):
                self._lose(outcome.status)
            self._state = LeaseState.SETTLED

    async def release(self, after: Duration | None = None, reason: str | None = None) -> None:
        """Give the message back, to be leased again `after` from now, or when the topic's retry policy says. `reason` is
        shown to whoever gets it next, to its owner and in the dead letter."""
        async with self.lock:
            self._require_held()
            outcome = await self._change(lease_calls.release_leases(self.topic, self.consumer_id, [self], after, reason))
            if outcome.status != "ok":
                self._lose(outcome.status)
            self._state = LeaseState.SETTLED

    async def extend(self, after: Duration = 30.0) -> None:
        """Let the lease end `after` from now."""
        async with self.lock:
            self._require_held()
            outcome = await self._change(lease_calls.extend_leases(self.topic, self.consumer_id, [self], after))
            if not await self.learn(outcome):
                self._lose(outcome.status)

    async def learn(self, outcome: Outcome) -> bool:
        """Take in the result of an extension; False when the lease is lost."""
        if outcome.status == "ok" and outcome.version is not None and outcome.at_ms is not None:
            self.version, self.at_ms = outcome.version, outcome.at_ms
            return True
        return outcome.status == "stale_version" and await self._look()

    def renew(self, leased: LeasedMessage) -> None:
        """Take over version and expiry from the broker, which has sent this lease again."""
        self.version, self.at_ms = leased.version, leased.at_ms

    def lose(self) -> None:
        """From now on another consumer may have the message."""
        if self._state is LeaseState.HELD:
            self._state = LeaseState.LOST
            self._gone.set()
            self._tell()

    def _tell(self) -> None:
        try:
            if self.on_lost:
                self.on_lost(self)
        except Exception:
            log.exception("on_lost_failed topic=%s id=%s", self.topic, self.id)

    async def _look(self) -> bool:
        """Whether the message is leased to this consumer still: the same lease has the same number of attempts."""
        try:
            message = await self._sender.send(topic_calls.message(self.topic, self.id, consumer_id=self.consumer_id))
        except (Forbidden, NotFound):
            return False
        same = message.lock_consumer_id == self.consumer_id and message.attempts == self.attempts
        if same:
            self.version, self.at_ms = message.version, message.at_ms
        return same

    async def _change(self, call: Any) -> Outcome:
        outcomes: Sequence[Outcome] = await self._sender.send(call)
        return outcomes[0]

    def _require_held(self) -> None:
        if self._state is LeaseState.SETTLED:
            raise LeaseLost(f"the lease of {self.id!r} was deleted or released already")
        if not self.held:
            self._lose("expired")

    def _lose(self, status: str) -> None:
        self.lose()
        raise LeaseLost(f"the lease of {self.id!r} is lost: {status}", status=status)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            if not self.settled:
                await self.delete()
        elif self.held:
            await self.release(reason=lease_calls.reason_of(error))
