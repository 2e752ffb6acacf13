"""Setting, cancelling and looking up timers, with answers that are true.

A cancel that Kafka has in time, by cluster time after it was written, is certain. One that comes later may win or lose;
then the answer waits for how the timer ended, and says so. What cannot be known in time is answered with *not now*, never
with a guess.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import structlog

from meantime.clock import Clock
from meantime.errors import AlreadyFired, Conflict, Degraded, Invalid, StorageUnavailable, Unavailable, UnknownTimer
from meantime.names import check_identifier
from meantime.timers.callback_targets import CallbackTargets
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.model import LedgerEntry, NewTimer, TimerId, TimerState
from meantime.timers.options import TimersOptions
from meantime.timers.request_parsing import NewTimers, beyond_horizon, callback_fault, parse_timers
from meantime.timers.request_producer import RequestProducer
from meantime.timers.rules import OWNED_TOPIC, future_fault, in_time, named_second

log = structlog.get_logger(__name__)

MOST_SLOTS = 10_000
LOOK_EVERY = 0.1
OUTCOME_WITHIN = 6.0
LATEST = 10**12
OPEN = (TimerState.NOTED, TimerState.PENDING)


class TimerRequests:
    """`adopted` are the topics of event types that have no name of ours; dispatchers refuse them, too."""

    def __init__(self, producer: RequestProducer, store: LedgerStore, clock: Clock, options: TimersOptions) -> None:
        self.targets = CallbackTargets(options.events)
        self._producer = producer
        self._store = store
        self._clock = clock
        self._limits = options.limits
        self._trusted = options.trusted
        self._adopted = options.adopted

    async def set(self, body: bytes, require: Callable[[str], Awaitable[None]] | None = None) -> NewTimers:
        """Set all timers of a request body; returns when Kafka has them. `require` raises if the caller may not have this
        topic called back; only who may do it learns whether it is there."""
        asked = parse_timers(body, self._clock.now_ms(), self._limits)
        for topic in {new.future.topic for new in asked.timers}:
            if topic in self._adopted():
                raise Invalid(callback_fault(OWNED_TOPIC), field="callback_topic")
            if require is not None:
                await require(topic)
        if asked.relative:
            self._trusted()
        await self.targets.check(asked)
        await self._producer.set(asked.timers)
        # Kafka has them, so they are set; the ledger will see them there if it cannot be told now.
        with suppress(StorageUnavailable):
            await self._store.note({new.timer for new in asked.timers})
        return asked

    async def check(self, timer: NewTimer) -> None:
        """Raise what is wrong with a callback, as far as that can be known now."""
        fault = OWNED_TOPIC if timer.future.topic in self._adopted() else future_fault(timer.future, self._limits)
        if fault is not None:
            raise Invalid(callback_fault(fault), field="callback_topic")
        await self.targets.check(NewTimers([timer], batch=False, relative=False))

    async def set_all(self, timers: Sequence[NewTimer]) -> None:
        """Set timers that were checked before; returns when Kafka has them."""
        await self._producer.set(timers)
        with suppress(StorageUnavailable):
            await self._store.note({new.timer for new in timers})

    async def show(self, token: str, at: int | None = None) -> LedgerEntry:
        """What became of a timer."""
        known = await self._known(token, at)
        entry = pick(known, at)
        if entry is None or entry.state is TimerState.VOID:
            raise UnknownTimer(f"timer {token!r} is unknown")
        return entry

    async def cancel(self, token: str, at: int | None = None) -> TimerId:
        entry = pick(await self._known(token, at), at)
        second = entry.second if entry else at if at is not None else named_second(token)
        if second is None:
            raise UnknownTimer(f"timer {token!r} is unknown; a token of your own may need `at`, its second")
        timer = TimerId(token, second)
        if entry is not None and entry.state not in OPEN and entry.certain:
            return _answer(timer, entry.state)
        if entry is None and second * 1000 <= self._clock.now_ms():
            raise UnknownTimer(f"timer {token!r} is unknown, and its second has passed")
        if entry is None and second > self._clock.now_ms() // 1000 + self._limits.horizon_s:
            raise beyond_horizon(self._limits)
        return await self._cancel(timer)

    async def load(self, start: int, end: int, step: int) -> list[tuple[int, int]]:
        """How many timers are pending in each slot."""
        if step < 1 or end < start or start < 0:
            raise Invalid("from must not be after to, and step at least 1 second", field="step")
        count = -(-(end - start) // step)
        if count > MOST_SLOTS or end > LATEST:
            raise Invalid(f"at most {MOST_SLOTS} slots; take a greater step", field="step")
        pending = await self._store.load(start, end, step)
        return [(start + slot * step, pending.get(slot, 0)) for slot in range(count)]

    async def _known(self, token: str, at: int | None) -> list[LedgerEntry]:
        check_identifier(token, "token")
        if at is not None and not 0 <= at < LATEST:
            raise Invalid("at must be a Unix second", field="at")
        return await self._store.find(token)

    async def _cancel(self, timer: TimerId) -> TimerId:
        got_ms = await self._producer.cancel(timer)
        if self._is_certain(timer, got_ms):
            with suppress(StorageUnavailable):
                await self._store.note_cancelled(timer.token, timer.second)
            return timer
        return await self._outcome(timer)

    def _is_certain(self, timer: TimerId, got_ms: int) -> bool:
        """Whether every dispatcher hears of a cancel that Kafka has by now. They go by cluster time, from which Kafka's
        clock may differ; a node that does not know cluster time cannot tell."""
        try:
            self._trusted()
        except Degraded:
            return False
        return in_time(timer.second, max(got_ms, self._clock.now_ms()))

    async def _outcome(self, timer: TimerId) -> TimerId:
        """It was close: wait for how it ended."""
        left_ms = max(0, timer.second * 1000 - self._clock.now_ms())
        deadline = asyncio.get_running_loop().time() + left_ms / 1000 + OUTCOME_WITHIN
        while asyncio.get_running_loop().time() < deadline:
            entry = pick(await self._store.find(timer.token), timer.second)
            if entry is not None and entry.state not in OPEN and entry.certain:
                return _answer(timer, entry.state)
            await asyncio.sleep(LOOK_EVERY)
        raise Unavailable(f"the cancel of {timer.token!r} is written, and it is not known yet whether it came in time")


def pick(known: list[LedgerEntry], at: int | None) -> LedgerEntry | None:
    """The timer that is meant: the one at that second; without one, the next that is pending, else the last that ended."""
    if at is not None:
        return next((entry for entry in known if entry.second == at), None)
    pending = [entry for entry in known if entry.state in OPEN]
    return pending[0] if pending else known[-1] if known else None


def _answer(timer: TimerId, state: TimerState) -> TimerId:
    if state is TimerState.FIRED:
        raise AlreadyFired(f"timer {timer.token!r} has fired")
    if state is TimerState.REJECTED:
        raise Conflict(f"timer {timer.token!r} was rejected; it does not fire")
    return timer
