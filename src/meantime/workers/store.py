"""One application in ZooKeeper: its queues, its workers, its plan.

What is changed from outside the owner, a reset or a pause, is a compare-and-set of the queue's record. Then the owner is
notified by a change of its own node, so that it takes effect at once and no checkpoint of the owner undoes it.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from meantime.coordination.session import Session
from meantime.coordination.transaction import Create, transact
from meantime.errors import Conflict, CorruptRecord, NotFound, VersionMoved
from meantime.workers.layout import AppLayout
from meantime.workers.model import AppRecord, ProcessRecord, QueueRecord, QueueSource, WorkerRecord, decode, encode

WORKER = "worker-"


@dataclass(frozen=True, slots=True)
class Versioned:
    record: QueueRecord
    version: int


class AppStore:
    def __init__(self, session: Session, layout: AppLayout) -> None:
        self.session = session
        self.layout = layout

    async def ensure(self) -> None:
        """Make what an application needs to be there."""
        layout = self.layout
        for path in (layout.workers, layout.processes, layout.queues, layout.owners, layout.plan):
            await self.session.ensure(path)

    # Queues

    async def queues(self) -> list[str]:
        return await self._children(self.layout.queues)

    async def queue(self, queue: str) -> Versioned:
        path = self.layout.queue(queue)
        node = await self.session.get(path)
        return Versioned(decode(QueueRecord, path, node.data), node.version)

    async def create_queues(self, sources: Iterable[QueueSource], known: Collection[str]) -> int:
        """Make the queues that are not among the known ones; how many were new."""
        missing = [source for source in sources if source.queue not in known]
        made = await asyncio.gather(*map(self._create_queue, missing))
        return sum(made)

    async def create_together(self, records: Sequence[QueueRecord]) -> bool:
        """Make all these queues or, if one of them is there, none."""
        try:
            await transact(
                self.session, *(Create(self.layout.queue(record.source.queue), encode(record)) for record in records)
            )
        except Conflict:
            return False
        return True

    async def _create_queue(self, source: QueueSource) -> bool:
        record = QueueRecord(event_type=source.event_type, partition=source.partition)
        try:
            await self.session.create(self.layout.queue(source.queue), encode(record))
        except Conflict:
            return False
        return True

    async def change_queue(self, queue: str, change: Callable[[QueueRecord], QueueRecord]) -> QueueRecord:
        """Change a record whatever its owner does meanwhile, and let the owner know."""
        while True:
            found = await self.queue(queue)
            changed = change(found.record)
            try:
                await self.session.set(self.layout.queue(queue), encode(changed), found.version)
            except VersionMoved:
                continue
            await self.notify_owner(queue)
            return changed

    async def replace_queue(self, queue: str, record: QueueRecord) -> None:
        """Write a record over whatever is there: the way out for one that cannot be read."""
        await self.session.set(self.layout.queue(queue), encode(record))
        await self.notify_owner(queue)

    async def notify_owner(self, queue: str) -> None:
        """Tell the owner, if there is one, to look at the record again."""
        path = self.layout.owner(queue)
        with suppress(NotFound):
            await self.session.set(path, (await self.session.get(path)).data)

    # Workers

    async def workers(self) -> list[str]:
        names = await self._children(self.layout.workers)
        return [name for name in names if name.startswith(WORKER)]

    async def holdings(self, workers: Iterable[str]) -> dict[str, list[str]]:
        """What these workers say they have; one that is gone, or whose record cannot be read, has nothing."""
        names = list(workers)
        records = await asyncio.gather(*map(self._worker, names))
        return {name: record.queues for name, record in zip(names, records, strict=True)}

    async def _worker(self, name: str) -> WorkerRecord:
        path = self.layout.worker(name)
        try:
            return decode(WorkerRecord, path, (await self.session.get(path)).data)
        except (NotFound, CorruptRecord):
            return WorkerRecord()

    async def processes(self, workers: Iterable[str]) -> dict[str, ProcessRecord]:
        """Where these workers run, as far as they have said so."""
        names = list(workers)
        records = await asyncio.gather(*map(self._process, names))
        return {name: record for name, record in zip(names, records, strict=True) if record}

    async def _process(self, worker: str) -> ProcessRecord | None:
        path = self.layout.process(worker)
        try:
            return decode(ProcessRecord, path, (await self.session.get(path)).data)
        except (NotFound, CorruptRecord):
            return None

    # The application

    async def app(self) -> AppRecord:
        try:
            return decode(AppRecord, self.layout.root, (await self.session.get(self.layout.root)).data)
        except CorruptRecord:
            return AppRecord()

    async def change_app(self, **fields: bool) -> AppRecord:
        changed = msgspec.structs.replace(await self.app(), **fields)
        await self.session.set(self.layout.root, encode(changed))
        return changed

    async def _children(self, path: str) -> list[str]:
        try:
            return await self.session.children(path)
        except NotFound:
            return []
