"""Everything in use at once while faults come by plan: `meantime chaos`.

up ──► users begin ──► fault ──► whole again ──► fault … time over ──► users end ──► all settles ──► verdict ──► controls
"""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from meantime.chaos.checks.cleanliness import END, EndState
from meantime.chaos.checks.model import controls
from meantime.chaos.injecting.faults import Injectors, open_injectors
from meantime.chaos.injecting.plan import FaultKind, PlannedFault, Topology, plan
from meantime.chaos.injecting.stage import Stage
from meantime.chaos.leftovers import look_for_leftovers
from meantime.chaos.reporting.report import Capability, DoneFault, SuiteReport
from meantime.chaos.streams import free_block
from meantime.chaos.workloads.model import Site, Workload, until
from meantime.chaos.workloads.pipelines import PipelinesWorkload
from meantime.chaos.workloads.streams import StreamsWorkload
from meantime.chaos.workloads.timers import TimersWorkload
from meantime.chaos.workloads.topics import TopicsWorkload
from meantime.chaos.workloads.workers import WorkersWorkload
from meantime.errors import StackError
from meantime.stack.model import StackOptions

CAPABILITIES = ("streams", "topics", "timers", "workers", "pipelines")
WHOLE_WITHIN = 150.0
WARM_WITHIN = 300.0
NODES = 3

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    capabilities: Sequence[str] = CAPABILITIES
    kinds: Sequence[FaultKind] = ("kill", "freeze")
    replicas: int = 1
    seed: int = 1
    lasts: float = 300.0
    durable: bool = False
    script: Sequence[PlannedFault] = ()
    """These faults instead of a plan by the seed."""
    settings: dict[str, str] = field(default_factory=dict)
    """Of every process of the stack."""
    command: str = "meantime chaos"


def run_suite(folder: Path, options: SuiteOptions, tell: Tell) -> SuiteReport:
    """Start a stack in `folder`, use and break it, stop it, and judge."""
    with staged(folder, options, tell) as (stage, injectors):
        return asyncio.run(SuiteRun(stage, injectors, folder, options, tell).act())


@contextmanager
def staged(folder: Path, options: SuiteOptions, tell: Tell) -> Iterator[tuple[Stage, Injectors]]:
    """A stack that can be broken in the ways that are asked for, as far as this machine allows it."""
    timers = "timers" in options.capabilities
    asked = StackOptions(
        data=str(folder / "stack"),
        nodes=NODES,
        kafka=1,
        replicas=options.replicas,
        durable=options.durable or "power" in options.kinds,
        port=free_block(NODES, random.Random(f"{folder}{time.time_ns()}")),
        timers=timers,
        node_env={
            "MEANTIME_SESSION_TIMEOUT": "4",
            "MEANTIME_BARRIER_TIMEOUT": "15",
            "MEANTIME_TIMERS_NEAR": "15",
            **options.settings,
        },
        until_eof=True,
        # Users of timers wait for Spark by themselves, while the others begin.
        wait_for_late=False,
    )
    with ExitStack() as opened:
        injectors = opened.enter_context(open_injectors(asked, folder, options.kinds))
        for what in injectors.left_out:
            tell(f"left out: {what}")
        if not injectors.kinds:
            raise StackError(f"no fault that was asked for can be made on this machine: {'; '.join(injectors.left_out)}")
        stage = Stage(injectors.options)
        tell(f"starting {NODES} nodes and {options.replicas} of each service (seed {options.seed})")
        opened.callback(stage.down)
        stage.up()
        yield stage, injectors


class SuiteRun:
    def __init__(self, stage: Stage, injectors: Injectors, folder: Path, options: SuiteOptions, tell: Tell) -> None:
        self._stage = stage
        self._injectors = injectors
        self._options = options
        self._tell = tell
        scratch = folder / "users"
        scratch.mkdir(exist_ok=True)
        name = f"chaos.{options.seed}.{uuid4().hex[:6]}"
        self._site = Site(stage.places, folder / "stack", scratch, name, options.seed, injectors.key(stage))
        self._workloads = self._make_workloads()
        self._report = SuiteReport(options.seed, options.command, options.replicas, left_out=list(injectors.left_out))
        self._never_whole: list[str] = []

    def _make_workloads(self) -> list[Workload]:
        kinds: dict[str, Callable[[Site], Workload]] = {
            "streams": StreamsWorkload,
            "topics": TopicsWorkload,
            "timers": TimersWorkload,
            "workers": WorkersWorkload,
            "pipelines": PipelinesWorkload,
        }
        return [kinds[name](self._site) for name in CAPABILITIES if name in self._options.capabilities]

    def _workers(self) -> dict[str, int]:
        found = (workload.processes.pids for workload in self._workloads if isinstance(workload, WorkersWorkload))
        return next(found, {})

    async def act(self) -> SuiteReport:
        self._tell("preparing: " + ", ".join(workload.name for workload in self._workloads))
        await asyncio.gather(*(workload.prepare() for workload in self._workloads))
        stop = asyncio.Event()
        running = [asyncio.create_task(workload.run(stop)) for workload in self._workloads]
        try:
            await self._warm_up(running)
            self._report.began = time.time()
            await self._break_things(running)
        finally:
            self._report.ended = time.time()
            stop.set()
        self._tell("faults are over: waiting for what is under way")
        await asyncio.gather(*running)
        for workload in self._workloads:
            await workload.settle()
        await self._judge()
        return self._report

    async def _warm_up(self, running: Sequence[asyncio.Task[None]]) -> None:
        """Until all users get on and the stack is whole: a start that takes long is no consequence of the first fault."""
        lacking: list[str] = []

        async def flows() -> bool:
            nonlocal lacking
            _raise_failed(running)
            lacking = [f"{workload.name} not in use" for workload in self._workloads if len(workload.progress.at) < 10]
            lacking = lacking or await self._stage.unwell()
            return not lacking

        if not await until(flows, WARM_WITHIN, every=0.3):
            raise RuntimeError(f"not begun after {WARM_WITHIN:.0f} s: {'; '.join(lacking)}")

    async def _break_things(self, running: Sequence[asyncio.Task[None]]) -> None:
        over_at = time.monotonic() + self._options.lasts
        faults = iter(self._options.script) if self._options.script else self._planned()
        number = 0
        for fault in faults:
            if not self._options.script and time.monotonic() + fault.pause > over_at:
                break
            await asyncio.sleep(fault.pause)
            _raise_failed(running)
            if await self._break(number + 1, fault):
                number += 1
        if (left := over_at - time.monotonic()) > 0 and not self._options.script:
            await asyncio.sleep(left)

    def _planned(self) -> Iterator[PlannedFault]:
        found = (workload.processes.names for workload in self._workloads if isinstance(workload, WorkersWorkload))
        rows = self._stage.processes()
        topology = Topology(
            nodes=tuple(node.id for node in self._stage.places.nodes),
            replicas=self._options.replicas,
            timers=tuple(
                sorted(n for n, row in rows.items() if row.kind in ("oscillator", "dispatcher", "ledger", "futures"))
            ),
            workers=tuple(next(found, [])),
        )
        return plan(self._options.seed, self._injectors.kinds, topology)

    async def _break(self, number: int, fault: PlannedFault) -> bool:
        began = time.time()
        self._tell(f"{began - self._report.began:6.1f} s  {number}. {fault}")
        done = await self._injectors.inject(self._stage, self._workers, fault)
        if done is None:
            self._tell("          nobody has that part now")
            return False
        mended = time.time()
        unwell: list[str] = []

        async def whole() -> bool:
            nonlocal unwell
            unwell = await self._stage.unwell()
            return not unwell

        if not await until(whole, WHOLE_WITHIN, every=0.3):
            self._never_whole.append(f"{WHOLE_WITHIN:.0f} s after {done}: {'; '.join(unwell)}")
        self._report.faults.append(DoneFault(number, fault.kind, str(fault), done, began, mended, time.time()))
        self._tell(f"          {done}; whole after {time.time() - began:.1f} s")
        return True

    async def _judge(self) -> None:
        rng = random.Random(f"controls {self._options.seed}")
        for workload in self._workloads:
            found = await asyncio.to_thread(workload.verdict, rng)
            self._report.findings += found.findings
            self._report.controls += found.controls
            progress = workload.progress
            self._report.capabilities[workload.name] = Capability(progress.at, progress.late, found.counts)
        state = await self._end_state()
        self._report.findings += END.check(state)
        self._report.controls += controls(END, state, rng)
        self._report.measure()

    async def _end_state(self) -> EndState:
        left: list[str] = []
        never: list[str] = []
        for workload in self._workloads:
            if isinstance(workload, StreamsWorkload):
                found = await look_for_leftovers(self._stage.places, workload.event_types, self._tell)
                left += [] if found.none else [str(found)]
                never += workload.unfinished_switches
        return EndState(tuple(left), (*self._never_whole, *await self._stage.unwell()), tuple(never))


def _raise_failed(running: Sequence[asyncio.Task[None]]) -> None:
    """A user that fails has found a mistake in itself: the run is void."""
    for task in running:
        if task.done():
            task.result()
