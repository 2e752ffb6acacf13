"""The plan in ZooKeeper, kept up to date with the workers and queues that there are.

Every worker watches the children of `workers` and `queues`, and the plan. When the plan was made for other workers or
queues, it is out of date; after the settle window the first worker by name reads what all hold and writes a new plan. If it
does not, the second does half a second later, and so on: a worker that hangs does not stop the rest.
A plan is advice. Safety is in the claims; two planners at once cost a few requests and nothing else.

One re-balance of w workers costs each of them one or two listings and one reading of the plan, and the planner w readings.
"""

import asyncio
import time
from typing import Protocol

import structlog

from meantime.coordination.views import follow_children, follow_data
from meantime.errors import CoordinationLost, CorruptRecord, NotFound, VersionMoved
from meantime.pulse import Pulse
from meantime.sharing import plan_shares
from meantime.workers.model import PlanRecord, QueueSource, decode, encode
from meantime.workers.rules import inputs_of
from meantime.workers.store import WORKER, AppStore

log = structlog.get_logger(__name__)

URGENT = 0.05
"""Seconds to wait when a worker is gone: its queues have no owner."""
PATIENCE = 0.5
"""Seconds that each worker gives the one before it."""
MOST_TURNS = 10
LOOK_EVERY = 0.05
"""Changes that come closer together than this are read as one."""


class QueueSources(Protocol):
    """What the application knows of its queues beyond ZooKeeper."""

    async def eligible(self, queues: list[str]) -> list[str]:
        """Of these queues, those for which the application has a job."""

    def of(self, queue: str) -> QueueSource | None:
        """Where the messages of a queue come from, if it is known without its record."""


class Planner:
    def __init__(self, store: AppStore, worker: str, settle_for: float, sources: QueueSources) -> None:
        self.changed = Pulse()
        self.retiring = False
        self._store = store
        self._worker = worker
        self._settle_for = settle_for
        self._sources = sources
        self._workers: list[str] | None = None
        self._queues: list[str] | None = None
        self._plan: PlanRecord | None = None
        self._version = -1
        self._outdated_at: float | None = None

    @property
    def targets(self) -> frozenset[str]:
        """The queues that this worker should have."""
        if self.retiring or self._plan is None:
            return frozenset()
        return frozenset(self._plan.workers.get(self._worker, ()))

    def retire(self) -> None:
        """Have nothing any more; the others may take what becomes free before this worker is gone."""
        self.retiring = True
        self.changed.beat()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_workers())
            group.create_task(self._follow_queues())
            group.create_task(self._follow_plan())
            group.create_task(self._keep_current())

    # Looking

    async def _follow_workers(self) -> None:
        async for names in follow_children(self._store.session, self._store.layout.workers):
            self._workers = [name for name in names if name.startswith(WORKER)]
            self.changed.beat()
            await asyncio.sleep(LOOK_EVERY)

    async def _follow_queues(self) -> None:
        async for names in follow_children(self._store.session, self._store.layout.queues):
            self._queues = names
            self.changed.beat()
            await asyncio.sleep(LOOK_EVERY * 4)

    async def _follow_plan(self) -> None:
        path = self._store.layout.plan
        async for node in follow_data(self._store.session, path):
            self._version = node.version if node else -1
            try:
                self._plan = decode(PlanRecord, path, node.data) if node and node.data else None
            except CorruptRecord as error:
                log.warning("plan_unreadable", detail=error.detail)
                self._plan = None
            self.changed.beat()

    # Planning

    async def _keep_current(self) -> None:
        while True:
            seen = self.changed.count
            wait_for = self._due_in(time.monotonic())
            if wait_for is None or wait_for > 0:
                await self.changed.beyond(seen, wait_for)
                continue
            try:
                await self._propose()
            except (VersionMoved, CoordinationLost, NotFound) as error:
                log.debug("plan_not_written", detail=error.detail)
            await self.changed.beyond(seen, PATIENCE)

    def _due_in(self, now: float) -> float | None:
        """Seconds until this worker should write a plan; None while there is a good one."""
        if self._workers is None or self._queues is None or self._worker not in self._workers:
            return None
        if self._good():
            self._outdated_at = None
            return None
        if self.retiring:
            return 0.0
        self._outdated_at = now if self._outdated_at is None else self._outdated_at
        place = min(self._workers.index(self._worker), MOST_TURNS)
        window = min(URGENT, self._settle_for) if self._somebody_left() else self._settle_for
        return self._outdated_at + window + place * PATIENCE - now

    def _good(self) -> bool:
        if self._plan is None or self._workers is None or self._queues is None:
            return False
        if self.retiring and self._plan.workers.get(self._worker):
            return False
        return self._plan.inputs == inputs_of(self._workers, self._queues)

    def _somebody_left(self) -> bool:
        return self._plan is not None and not set(self._plan.workers) <= set(self._workers or ())

    async def _propose(self) -> None:
        assert self._workers is not None
        assert self._queues is not None
        inputs, version = inputs_of(self._workers, self._queues), self._version
        candidates = [name for name in self._workers if not (self.retiring and name == self._worker)]
        queues = await self._sources.eligible(self._queues)
        planned = plan_shares(candidates, queues, await self._store.holdings(candidates))
        record = PlanRecord(inputs=inputs, by=self._worker, workers=planned)
        await self._store.session.set(self._store.layout.plan, encode(record), version)
        log.info("planned", workers=len(planned), queues=len(queues))
