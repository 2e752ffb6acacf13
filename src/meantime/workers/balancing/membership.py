"""One process as a worker of an application, from joining to handing over, as often as its session makes it necessary.

    waiting ──► joined ──► retiring ──► gone       stopped: work is ended, queues given up, the node removed
       ▲          │
       └──────────┘ the session is lost: everything is dropped where it stands, and it joins again under another name

A worker whose connection is interrupted keeps its queues and starts nothing new, see `liveness`.
"""

import asyncio
import os
import socket
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from meantime.coordination.liveness import SessionLiveness
from meantime.coordination.session import SessionState
from meantime.errors import CoordinationLost, MeantimeError, NotFound
from meantime.tasks import end
from meantime.workers.balancing.balancer import Balancer, Begin
from meantime.workers.balancing.planning import Planner, QueueSources
from meantime.workers.model import ProcessRecord, WorkerRecord, encode
from meantime.workers.store import WORKER, AppStore

log = structlog.get_logger(__name__)

AGAIN_AFTER = 0.2


@dataclass(frozen=True, slots=True)
class MembershipOptions:
    session_timeout: float = 10.0
    settle_for: float = 1.0


class Membership:
    def __init__(self, store: AppStore, terms: MembershipOptions, sources: QueueSources, begin: Begin) -> None:
        self.name: str | None = None
        """That of the worker's node, while there is one."""
        self.liveness = SessionLiveness(store.session, terms.session_timeout)
        self._store = store
        self._session = store.session
        self._terms = terms
        self._sources = sources
        self._begin = begin
        self._left_behind: tuple[int | None, list[str]] | None = None

    async def run(self, stop: asyncio.Event) -> None:
        """Be a worker until `stop` is set and everything has been handed over."""
        stopping = asyncio.create_task(stop.wait())
        try:
            while not stop.is_set():
                await _first(self._session.wait_connected(), stopping)
                if not stop.is_set():
                    await self._join_and_work(stopping)
        finally:
            stopping.cancel()

    async def _join_and_work(self, stopping: "asyncio.Task[Any]") -> None:
        try:
            await self._join()
            await self._work(stopping)
        except CoordinationLost as error:
            log.warning("not_a_worker", detail=error.detail)
            await asyncio.sleep(AGAIN_AFTER)
        finally:
            self.name = None

    async def _join(self) -> None:
        await self._store.ensure()
        await self._clear_away()
        self._left_behind = (self._session.id, [])
        path = f"{self._store.layout.workers}/{WORKER}"
        made = await self._session.create(path, encode(WorkerRecord()), ephemeral=True, sequence=True)
        name = made.rpartition("/")[2]
        process = ProcessRecord(socket.gethostname(), os.getpid())
        await self._session.create(self._store.layout.process(name), encode(process), ephemeral=True)
        self.name = name
        log.info("joined", worker=name)

    async def _work(self, stopping: "asyncio.Task[Any]") -> None:
        assert self.name is not None
        path = self._store.layout.worker(self.name)
        planner = Planner(self._store, self.name, self._terms.settle_for, self._sources)
        balancer = Balancer(self._store, self.name, planner, self.liveness, self._begin, self._sources)
        session_id = self._session.id
        parts = [
            asyncio.create_task(part) for part in (planner.run(), balancer.run(), self.liveness.run(path), self._lost())
        ]
        try:
            await asyncio.wait({stopping, *parts}, return_when=asyncio.FIRST_COMPLETED)
            if stopping.done() and not any(part.done() for part in parts):
                await self._retire(planner, balancer, parts)
        finally:
            self._left_behind = (session_id, balancer.abandon())
            await _ended(parts)
        await self._leave(path)

    async def _retire(self, planner: Planner, balancer: Balancer, parts: "list[asyncio.Task[Any]]") -> None:
        log.info("handing_over", worker=self.name, queues=len(balancer.claims))
        planner.retire()
        while not balancer.owns_nothing and not any(part.done() for part in parts):
            rest = asyncio.create_task(balancer.rounds.beyond(balancer.rounds.count))
            await asyncio.wait({rest, *parts}, return_when=asyncio.FIRST_COMPLETED)
            rest.cancel()

    async def _lost(self) -> None:
        """Returns when the session is over."""
        session_id, over = self._session.id, asyncio.Event()

        def look(state: SessionState) -> None:
            if state is SessionState.LOST or self._session.id != session_id:
                over.set()

        unsubscribe = self._session.on_change(look)
        look(self._session.state)
        try:
            await over.wait()
        finally:
            unsubscribe()

    async def _leave(self, path: str) -> None:
        assert self.name is not None
        for node in (path, self._store.layout.process(self.name)):
            with suppress(CoordinationLost, NotFound):
                await self._session.delete(node)
        log.info("left", worker=self.name)

    async def _clear_away(self) -> None:
        """A session that counted as lost may have come back, with the nodes that it had before."""
        if self._left_behind is None or self._left_behind[0] != self._session.id:
            return
        for name in await self._store.workers():
            path = self._store.layout.worker(name)
            node = await self._session.exists(path)
            if node and node.owner == self._session.id:
                await self._session.discard(path)
                await self._session.discard(self._store.layout.process(name))
        for queue in self._left_behind[1]:
            await self._session.discard(self._store.layout.owner(queue))


async def _first(work: Coroutine[Any, Any, Any], other: "asyncio.Task[Any]") -> None:
    """Wait for this or for that; the work is cancelled if it is not the first."""
    task = asyncio.create_task(work)
    await asyncio.wait({task, other}, return_when=asyncio.FIRST_COMPLETED)
    await _ended([task])


async def _ended(tasks: "list[asyncio.Task[Any]]") -> None:
    for outcome in await end(*tasks):
        if isinstance(outcome, Exception) and not _expected(outcome):
            raise outcome


def _expected(error: BaseException) -> bool:
    """Whether it only says that ZooKeeper went away."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(_expected, error.exceptions))
    return isinstance(error, MeantimeError) and error.retryable
