"""Workers in use: a publisher of jobs, processes that work them off, and a watcher who sees in ZooKeeper who owns what."""

import asyncio
import random
import time
from contextlib import AsyncExitStack, suppress
from pathlib import Path

import msgspec

from meantime.chaos.actors import ChaosPublisher
from meantime.chaos.checks.model import controls
from meantime.chaos.checks.queues import QUEUES, WORKERS, Checkpoint, JobRun, OwnerView, QueueHistory
from meantime.chaos.histories import EventPartition
from meantime.chaos.workloads.calls import ANSWER_WITHIN, Caller, odd
from meantime.chaos.workloads.model import SETTLE_WITHIN, Progress, Site, WorkloadVerdict, pause, until
from meantime.chaos.workloads.streams import event_type
from meantime.chaos.workloads.worker_job import RunLine
from meantime.chaos.workloads.worker_processes import WorkerProcesses
from meantime.coordination.session import SessionOptions, open_session
from meantime.errors import MeantimeError
from meantime.tasks import end
from meantime.workers.layout import app_layout, namespace_path
from meantime.workers.store import AppStore

PARTITIONS = 4
PUBLISH_EVERY = 0.2
LOOK_EVERY = 0.5


class WorkersWorkload:
    name = WORKERS

    def __init__(self, site: Site, workers: int = 2) -> None:
        self._site = site
        self.progress = Progress()
        self.event_type = f"{site.name}.jobs"
        self.app = f"{site.name}.app"
        self._runs_file = site.scratch / "runs.ndjson"
        self._runs: list[JobRun] = []
        self._read_to = 0
        self._owners: list[OwnerView] = []
        self._checkpoints: list[Checkpoint] = []
        rng = site.rng(WORKERS)
        self._publishers = [
            ChaosPublisher(
                "p",
                EventPartition(self.event_type, partition),
                site.urls,
                rng,
                PUBLISH_EVERY,
                most=2,
                answer_within=ANSWER_WITHIN,
            )
            for partition in range(PARTITIONS)
        ]
        settings = {
            "CHAOS_APP": self.app,
            "CHAOS_JOBS": self.event_type,
            "CHAOS_RUNS": str(self._runs_file),
            "MEANTIME_URL": ",".join(site.urls),
            "MEANTIME_ZOOKEEPER": site.places.zookeeper,
            **({"MEANTIME_KEY": site.key} if site.key else {}),
        }
        self.processes = WorkerProcesses(workers, settings, site.scratch)

    async def prepare(self) -> None:
        async with Caller(self._site.urls, self._site.rng("jobs"), self._site.headers) as caller:
            made = await caller.insist("POST", "/event-types", event_type(self.event_type, PARTITIONS))
            if made.status_code not in (201, 409):
                raise RuntimeError(odd("event type", made))
        self._runs_file.touch()

    async def run(self, stop: asyncio.Event) -> None:
        over = asyncio.Event()
        keeping = asyncio.create_task(self.processes.keep(over))
        watching = [asyncio.create_task(self._watch(over)), asyncio.create_task(self._follow(over))]
        try:
            async with asyncio.TaskGroup() as group:
                for publisher in self._publishers:
                    group.create_task(publisher.run(stop))
            await until(self._all_done, SETTLE_WITHIN)
            await asyncio.sleep(1.0)
        finally:
            over.set()
            await end(*watching)
            await keeping
        self._read_runs()

    def _all_done(self) -> bool:
        done = {(run.partition, run.number) for run in self._runs}
        return all(
            (one.history.target.partition, number) in done for one in self._publishers for number in one.history.acknowledged
        )

    async def _follow(self, over: asyncio.Event) -> None:
        while not over.is_set():
            self._read_runs()
            await pause(over, 0.1)

    def _read_runs(self) -> None:
        """What has been written since the last time; a line that is just being written is left for the next."""
        new = _read_from(self._runs_file, self._read_to)
        whole = new[: new.rfind(b"\n") + 1]
        self._read_to += len(whole)
        for text in whole.splitlines():
            line = msgspec.json.decode(text, type=RunLine)
            if line.step == "began":
                self._runs.append(JobRun(line.worker, line.partition, line.number, line.at_ms))
            else:
                self.progress.at.append(line.at_ms / 1000)

    # The watcher

    async def _watch(self, over: asyncio.Event) -> None:
        async with AsyncExitStack() as opened:
            session = await opened.enter_async_context(open_session(SessionOptions(self._site.places.zookeeper)))
            store = AppStore(session, app_layout(namespace_path(session.root), self.app))
            while not over.is_set():
                # While ZooKeeper is away there is nothing to see.
                with suppress(MeantimeError, TimeoutError):
                    async with asyncio.timeout(5.0):
                        await self._look(store)
                await pause(over, LOOK_EVERY)

    async def _look(self, store: AppStore) -> None:
        """Two looks that agree show one moment; a queue that changes hands in between shows nothing."""
        first = await store.holdings(await store.workers())
        second = await store.holdings(await store.workers())
        now_ms = time.time() * 1000
        if first == second:
            self._owners.append(OwnerView(now_ms, {worker: tuple(queues) for worker, queues in second.items()}))
        for queue in await store.queues():
            record = (await store.queue(queue)).record
            if record.cursor:
                self._checkpoints.append(Checkpoint(time.time() * 1000, queue, record.cursor))

    async def settle(self) -> None:
        """All has been waited for already."""

    def verdict(self, rng: random.Random) -> WorkloadVerdict:
        published = {one.history.target.partition: tuple(one.history.acknowledged) for one in self._publishers}
        history = QueueHistory(published, tuple(self._runs), tuple(self._owners), tuple(self._checkpoints))
        messages = {(run.partition, run.number) for run in self._runs}
        counts = {
            "acknowledged": sum(map(len, published.values())),
            "jobs": len(self._runs),
            "again": len(self._runs) - len(messages),
            "looks at owners": len(self._owners),
        }
        return WorkloadVerdict(tuple(QUEUES.check(history)), tuple(controls(QUEUES, history, rng)), counts)


def _read_from(path: Path, offset: int) -> bytes:
    with path.open("rb") as file:
        file.seek(offset)
        return file.read()
