"""All applications as an operator sees and controls them: which workers there are, who owns which queue, how far it is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from msgspec.structs import replace

from meantime.coordination.session import Session
from meantime.coordination.views import ChildrenView
from meantime.errors import Conflict, CorruptRecord, Invalid, NotFound
from meantime.workers.layout import NAMESPACE, app_layout, namespace_path
from meantime.workers.model import AppRecord, ProcessRecord, QueueRecord, QueueSource
from meantime.workers.store import AppStore

MOST_DIRECTORIES = 200


@dataclass(frozen=True, slots=True)
class AppState:
    name: str
    workers: int
    queues: int
    paused: bool


@dataclass(frozen=True, slots=True)
class WorkerState:
    """`process` is where it runs, if it has said so."""

    name: str
    queues: list[str]
    process: ProcessRecord | None


@dataclass(frozen=True, slots=True)
class QueueState:
    """`problem` says why a record could not be read; the rest of it is empty then."""

    queue: str
    record: QueueRecord
    owner: str | None
    app_paused: bool = False
    problem: str | None = None

    @property
    def paused(self) -> bool:
        return self.record.paused or self.app_paused


@asynccontextmanager
async def open_apps(session: Session, namespace: str = NAMESPACE) -> AsyncIterator["Apps"]:
    """`namespace` is a name below the session's root, or a path of its own such as `/mozilla/services/qdo`."""
    yield Apps(session, namespace_path(session.root, namespace))


class Apps:
    def __init__(self, session: Session, namespace: str) -> None:
        self._session = session
        self._namespace = namespace
        self._directories: dict[str, ChildrenView] = {}

    async def apps(self) -> list[AppState]:
        try:
            names = await self._session.children(self._namespace)
        except NotFound:
            return []
        found = await asyncio.gather(*(self._state(name) for name in names))
        return [state for state in found if state]

    async def app(self, name: str) -> AppState:
        state = await self._state(name)
        if state is None:
            raise _unknown(name)
        return state

    async def workers(self, app: str) -> list[WorkerState]:
        """What each worker has, and where it runs."""
        store = await self._store(app)
        names = sorted(await store.workers())
        holdings, processes = await asyncio.gather(store.holdings(names), store.processes(names))
        return [WorkerState(name, holdings[name], processes.get(name)) for name in names]

    async def queues(self, app: str) -> list[QueueState]:
        store = await self._store(app)
        paused = (await store.app()).paused
        owners = await self._owners(store)
        ids = await store.queues()
        states = await asyncio.gather(*(self._queue_state(store, id, owners.get(id), paused) for id in ids))
        return sorted(states, key=lambda state: (state.record.event_type, _number(state.record.partition), state.queue))

    async def queue(self, app: str, queue: str) -> QueueState:
        store = await self._store(app)
        _require(queue, await store.queues(), app)
        owners = await self._owners(store)
        return await self._queue_state(store, queue, owners.get(queue), (await store.app()).paused)

    async def ownership(self, app: str) -> dict[str, str | None]:
        """Who has which queue; None where nobody has."""
        store = await self._store(app)
        owners, queues = await asyncio.gather(self._owners(store), store.queues())
        return {queue: owners.get(queue) for queue in sorted(queues)}

    async def queue_ids(self, app: str) -> list[str]:
        return sorted(await (await self._store(app)).queues())

    async def queue_record(self, app: str, queue: str) -> QueueRecord:
        """Empty where it cannot be read."""
        store = await self._store(app)
        return (await self._queue_state(store, queue, None, False)).record

    async def directory(self, app: str) -> ChildrenView:
        """The records of the workers of an application, for who follows them. There is one for all, since what it has asked
        ZooKeeper to tell stays asked for."""
        store = await self._store(app)
        if app not in self._directories:
            if len(self._directories) >= MOST_DIRECTORIES:
                del self._directories[next(iter(self._directories))]
            self._directories[app] = ChildrenView(self._session, store.layout.workers)
        return self._directories[app]

    # Control

    async def reset(self, app: str, queue: str, source: QueueSource, cursor: str, last: str) -> None:
        """Have the queue go on after `cursor`, at once; mends a record that cannot be read."""
        store = await self._store(app)
        try:
            await store.change_queue(queue, lambda record: replace(record, cursor=cursor, last=last))
        except CorruptRecord:
            record = QueueRecord(event_type=source.event_type, partition=source.partition, cursor=cursor, last=last)
            await store.replace_queue(queue, record)

    async def pause_queue(self, app: str, queue: str, paused: bool) -> None:
        store = await self._store(app)
        _require(queue, await store.queues(), app)
        await store.change_queue(queue, lambda record: replace(record, paused=paused))

    async def pause_app(self, app: str, paused: bool) -> None:
        await (await self._store(app)).change_app(paused=paused)

    async def forget(self, app: str) -> None:
        """Remove an application that has no workers, with the positions of all its queues."""
        store = await self._store(app)
        if workers := await store.workers():
            raise Conflict(f"{len(workers)} workers are running for {app!r}: stop them first", workers=workers)
        layout = store.layout
        for parent in (layout.owners, layout.queues, layout.workers, layout.processes):
            children = await self._children(parent)
            await asyncio.gather(*(self._session.delete(f"{parent}/{child}") for child in children))
        for path in (layout.owners, layout.queues, layout.workers, layout.processes, layout.plan, layout.root):
            if await self._session.exists(path):
                await self._session.delete(path)

    # Looking

    async def _store(self, app: str) -> AppStore:
        try:
            store = AppStore(self._session, app_layout(self._namespace, app))
        except Invalid:
            raise _unknown(app) from None
        if await self._session.exists(store.layout.root) is None:
            raise _unknown(app)
        return store

    async def _state(self, name: str) -> AppState | None:
        try:
            store = await self._store(name)
        except NotFound:
            return None
        workers, queues, record = await asyncio.gather(store.workers(), store.queues(), _app(store))
        return AppState(name, len(workers), len(queues), record.paused)

    async def _owners(self, store: AppStore) -> dict[str, str]:
        holdings = await store.holdings(await store.workers())
        return {queue: worker for worker, queues in holdings.items() for queue in queues}

    async def _queue_state(self, store: AppStore, queue: str, owner: str | None, paused: bool) -> QueueState:
        try:
            return QueueState(queue, (await store.queue(queue)).record, owner, paused)
        except (CorruptRecord, NotFound) as error:
            return QueueState(queue, QueueRecord(), owner, paused, problem=error.detail)

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._session.children(path)
        except NotFound:
            return []


async def _app(store: AppStore) -> AppRecord:
    try:
        return await store.app()
    except NotFound:
        return AppRecord()


def _require(queue: str, queues: list[str], app: str) -> None:
    if queue not in queues:
        raise NotFound(f"application {app!r} has no queue {queue!r}")


def _unknown(app: str) -> NotFound:
    return NotFound(f"there is no application {app!r}")


def _number(partition: str) -> tuple[int, str]:
    return (int(partition) if partition.isdecimal() else -1, partition)
