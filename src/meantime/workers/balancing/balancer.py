"""One worker's part in re-balancing the queues: release what the plan gives to others, then claim what is free.

Each round first stops the work on queues that should go, after its present message; lists the queues that are left in the
worker's node, and only then releases those whose work has ended. Then it claims what the plan gives it and no other worker
owns, lists that too, and only then begins to work on it. So the worker's node never names a queue that another may own. A
round waits for ZooKeeper and for nothing else. A queue that another worker still owns is watched.

An attempt whose outcome is not known, because the connection was lost, may have got the queue all the same: the next round
tries again or, if the plan gives it to another by then, gives it up.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import structlog

from meantime.coordination.liveness import SessionLiveness
from meantime.coordination.session import Session
from meantime.errors import CoordinationLost, CorruptRecord, NotFound
from meantime.pulse import Pulse
from meantime.workers.balancing.claims import QueueClaim, take
from meantime.workers.balancing.planning import Planner, QueueSources
from meantime.workers.model import WorkerRecord, encode
from meantime.workers.store import AppStore

log = structlog.get_logger(__name__)

AGAIN_AFTER = 2.0
"""Seconds until a queue that could not be worked on is tried again."""


class Work(Protocol):
    """What goes on with a queue."""

    @property
    def done(self) -> bool: ...

    def stop(self) -> None:
        """End after the present message."""

    def wake(self) -> None:
        """The record may have changed."""

    def abandon(self) -> None:
        """The queue is lost: end at once, record nothing."""


Begin = Callable[[Sequence[QueueClaim], Callable[[], None]], Sequence[Work]]
"""Begin to work on these queues; call back whenever the work on one of them has ended."""


class Balancer:
    def __init__(
        self, store: AppStore, worker: str, planner: Planner, liveness: SessionLiveness, begin: Begin, sources: QueueSources
    ) -> None:
        self.changed = Pulse()
        self.rounds = Pulse()
        """Beats after each round."""
        self.claims: dict[str, QueueClaim] = {}
        self._store = store
        self._session: Session = store.session
        self._worker = worker
        self._planner = planner
        self._liveness = liveness
        self._begin = begin
        self._sources = sources
        self._works: dict[str, Work] = {}
        self._attempted: set[str] = set()
        self._declared: list[str] | None = []
        self._not_before: dict[str, float] = {}

    @property
    def owns_nothing(self) -> bool:
        return not self.claims and not self._attempted and self._declared == []

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_planner())
            group.create_task(self._keep_balanced())

    async def _follow_planner(self) -> None:
        targets: frozenset[str] = frozenset()
        while True:
            seen = self._planner.changed.count
            if self._planner.targets != targets:
                targets = self._planner.targets
                self.changed.beat()
            await self._planner.changed.beyond(seen)

    async def _keep_balanced(self) -> None:
        while True:
            seen = self.changed.count
            await self._session.wait_connected()
            try:
                await self.round()
            except CoordinationLost as error:
                log.info("balancing_interrupted", detail=error.detail)
                await asyncio.sleep(0.1)
                continue
            self.rounds.beat()
            await self.changed.beyond(seen, self._next_try())

    async def round(self) -> None:
        targets = self._planner.targets
        await self._give_up(targets)
        await self._take(targets)

    def abandon(self) -> list[str]:
        """The session is lost, and everything with it; the queues that it had, or may have had."""
        for work in self._works.values():
            work.abandon()
        queues = sorted(self.claims.keys() | self._attempted)
        self.claims, self._works, self._attempted = {}, {}, set()
        return queues

    async def _give_up(self, targets: frozenset[str]) -> None:
        for queue in sorted(self._attempted - targets):
            await self._session.discard(self._store.layout.owner(queue))
            self._attempted.discard(queue)
        for queue, work in self._works.items():
            if queue not in targets:
                work.stop()
        ended = [queue for queue in self.claims if self._may_go(queue, targets)]
        if not ended:
            return
        await self._declare([queue for queue in self.claims if queue not in ended])
        await asyncio.gather(*(self.claims[queue].release() for queue in ended))
        for queue in ended:
            del self.claims[queue]
            self._works.pop(queue, None)
            if queue in targets:
                self._put_off(queue)

    def _may_go(self, queue: str, targets: frozenset[str]) -> bool:
        work = self._works.get(queue)
        return queue not in targets if work is None else work.done

    async def _take(self, targets: frozenset[str]) -> None:
        now = time.monotonic()
        wanted = [queue for queue in sorted(targets) if queue not in self.claims and self._not_before.get(queue, 0) <= now]
        self._not_before = {queue: at for queue, at in self._not_before.items() if queue in targets and at > now}
        self._attempted |= set(wanted)
        # All have come to an end before anything else is done: one that fails must not leave the others unheard of.
        outcomes = await asyncio.gather(*map(self._claim, wanted), return_exceptions=True)
        for queue, outcome in zip(wanted, outcomes, strict=True):
            if not isinstance(outcome, BaseException):
                self._attempted.discard(queue)
                self.claims |= {queue: outcome} if outcome else {}
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        await self._declare(list(self.claims))
        fresh = [claim for claim in self.claims.values() if claim.queue not in self._works]
        if fresh:
            works = self._begin(fresh, self.changed.beat)
            self._works |= {claim.queue: work for claim, work in zip(fresh, works, strict=True)}

    async def _claim(self, queue: str) -> QueueClaim | None:
        try:
            changed = partial(self._on_change, queue)
            return await take(self._store, queue, self._worker, self._liveness, changed, self._sources.of(queue))
        except (CorruptRecord, NotFound) as error:
            log.error("queue_cannot_be_taken", queue=queue, detail=error.detail)
            self._put_off(queue)
            return None

    async def _declare(self, queues: list[str]) -> None:
        """Say in the worker's node what it has."""
        listed = sorted(queues)
        if listed != self._declared:
            self._declared = None  # unknown until ZooKeeper has answered
            await self._session.set(self._store.layout.worker(self._worker), encode(WorkerRecord(listed)))
            self._declared = listed

    def _on_change(self, queue: str, _event: object) -> None:
        if queue in self.claims:
            self.claims[queue].stale = True
        if queue in self._works:
            self._works[queue].wake()
        else:
            self.changed.beat()

    def _put_off(self, queue: str) -> None:
        self._not_before[queue] = time.monotonic() + AGAIN_AFTER

    def _next_try(self) -> float | None:
        """Seconds until a queue that was put off is due; None when there is none."""
        now = time.monotonic()
        return min((max(0.0, at - now) for at in self._not_before.values()), default=None)
