"""The fault suite of streams: switches between two clusters under load, each with a fault.

Three nodes, several event types, publishers and readers that never pause. At the end nothing acknowledged may be lost,
twice or out of order, no event type locked, no switch unfinished, no topic without a timeline. The order of faults and
all choices follow from the seed.
"""

import asyncio
import random
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx

from meantime.chaos.actors import ChaosPublisher, ChaosReader, switch
from meantime.chaos.faults import FAULTS, Fault, FaultSite
from meantime.chaos.histories import EventMark, EventPartition, HistoryVerdict, Published, judge
from meantime.chaos.leftovers import Leftovers, look_for_leftovers
from meantime.stack.folder import Folder
from meantime.stack.model import Places
from meantime.stack.session import running
from meantime.tasks import end

SETTLE_WITHIN = 90.0
STORAGES = ("kafka-2", "default")

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class ChaosPlan:
    seed: int = 1
    switches: int = 10
    event_types: int = 3
    partitions: int = 2
    nodes: int = 3
    faults: Sequence[Fault] = FAULTS
    session_timeout: float = 4.0
    pause: float = 0.0
    """Seconds between two batches of a publisher."""


@dataclass(slots=True)
class ChaosReport:
    """What came out of it."""

    seed: int
    acknowledged: int = 0
    unanswered: int = 0
    switched: int = 0
    not_switched: list[str] = field(default_factory=list)
    surprises: list[str] = field(default_factory=list)
    verdicts: dict[str, HistoryVerdict] = field(default_factory=dict)
    leftovers: Leftovers = field(default_factory=Leftovers)
    took: float = 0.0

    @property
    def good(self) -> bool:
        judged = all(verdict.good for verdict in self.verdicts.values())
        return judged and self.leftovers.none and not self.surprises and not self.not_switched

    def lines(self) -> list[str]:
        return [
            f"seed {self.seed}: {self.switched} switches in {self.took:.0f} s",
            f"  {self.acknowledged} events acknowledged, {self.unanswered} without an answer",
            *(f"  {who}: {verdict}" for who, verdict in self.verdicts.items()),
            f"  left behind: {self.leftovers}",
            *(f"  not switched: {said}" for said in self.not_switched),
            *(f"  surprise: {surprise}" for surprise in self.surprises[:20]),
            "nothing lost, nothing twice, all in order" if self.good else "FAILED",
        ]

    def summary(self) -> dict[str, object]:
        return {
            "seed": self.seed,
            "good": self.good,
            "switches": self.switched,
            "acknowledged": self.acknowledged,
            "unanswered": self.unanswered,
            "took_s": round(self.took, 1),
            "verdicts": {who: str(verdict) for who, verdict in self.verdicts.items()},
            "left_behind": str(self.leftovers),
            "not_switched": self.not_switched,
            "surprises": self.surprises,
        }


def run(data: Path, plan: ChaosPlan, tell: Tell) -> ChaosReport:
    """Start a stack in `data`, put it through the plan, stop it."""
    with staged(data, plan, tell) as (places, site):
        return play(places, site, plan, tell)


@contextmanager
def staged(data: Path, plan: ChaosPlan, tell: Tell) -> Iterator[tuple[Places, FaultSite]]:
    """A stack in `data` as the plan needs it, for as long as the block runs."""
    fault_file = data.parent / f"fault-{uuid4().hex[:8]}"
    environment = {
        "MEANTIME_FAULT_POINT": str(fault_file),
        "MEANTIME_SESSION_TIMEOUT": str(plan.session_timeout),
        "MEANTIME_BARRIER_TIMEOUT": "15",
    }
    tell(f"starting {plan.nodes} nodes and two Kafka clusters (seed {plan.seed})")
    port = free_block(plan.nodes, random.Random(f"{data}{time.time_ns()}"))
    with running(data, nodes=plan.nodes, kafka=2, port=port, node_env=environment) as places:
        yield places, FaultSite(Folder(data), fault_file, freeze_for=plan.session_timeout * 2.5)


def play(places: Places, site: FaultSite, plan: ChaosPlan, tell: Tell) -> ChaosReport:
    """Put a stack that runs through the plan."""
    return asyncio.run(ChaosRun(places, site, plan, tell).act())


def free_block(size: int, rng: random.Random) -> int:
    """The first of some free ports in a row, away from those that stacks take by default: while one of the nodes is down,
    a node of another stack must not be found at its address."""
    while True:
        first = rng.randrange(10_000, 19_000, 10)
        if all(_is_free(first + offset) for offset in range(size)):
            return first


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) != 0


class ChaosRun:
    def __init__(self, places: Places, site: FaultSite, plan: ChaosPlan, tell: Tell) -> None:
        self._places = places
        self._site = site
        self._plan = plan
        self._tell = tell
        self._rng = random.Random(plan.seed)
        self._urls = {node.id: node.url for node in places.nodes}
        self._report = ChaosReport(plan.seed)
        self._event_types = [f"chaos.{plan.seed}.{number}" for number in range(plan.event_types)]

    async def act(self) -> ChaosReport:
        started = time.monotonic()
        await self._declare()
        targets = [
            EventPartition(name, partition) for name in self._event_types for partition in range(self._plan.partitions)
        ]
        urls = list(self._urls.values())
        publishers = [
            ChaosPublisher(f"p{number}", target, urls, self._rng, self._plan.pause) for number, target in enumerate(targets)
        ]
        readers = [ChaosReader(name, self._plan.partitions, urls, self._rng) for name in self._event_types]
        stop = asyncio.Event()
        publishing = [asyncio.create_task(publisher.run(stop)) for publisher in publishers]
        reading = [asyncio.create_task(reader.run()) for reader in readers]
        for number in range(self._plan.switches):
            await self._switch_with_fault(number)
        stop.set()
        await asyncio.gather(*publishing)
        await self._settle(publishers, readers, "readers that were there all the time")
        await _cancel(reading)
        await self._read_again(publishers, urls)
        self._report.leftovers = await look_for_leftovers(self._places, self._event_types, self._tell)
        self._sum_up(publishers, readers)
        self._report.took = time.monotonic() - started
        return self._report

    async def _declare(self) -> None:
        statistic = {"read_parallelism": self._plan.partitions, "write_parallelism": self._plan.partitions}
        async with httpx.AsyncClient(base_url=self._places.nodes[0].url, timeout=30) as client:
            for name in self._event_types:
                document = {
                    "name": name,
                    "owning_application": "chaos",
                    "category": "undefined",
                    "partition_strategy": "user_defined",
                    "default_statistic": statistic,
                }
                (await client.post("/event-types", json=document)).raise_for_status()

    # Switching

    async def _switch_with_fault(self, number: int) -> None:
        fault = self._plan.faults[number % len(self._plan.faults)]
        event_type = self._event_types[number % len(self._event_types)]
        initiator, bystander = self._rng.sample(sorted(self._urls), 2)
        storage_id = STORAGES[(number // len(self._event_types)) % 2]
        self._tell(f"switch {number + 1}: {event_type} to {storage_id} by {initiator}; fault: {fault.name}")
        if fault.plan is not None:
            self._site.plan(*fault.plan)
        delay = self._rng.uniform(0.0, 0.15)
        happening = asyncio.create_task(fault.happen(self._site, initiator, bystander, delay))
        started = time.monotonic()
        outcome = await self._insist(event_type, storage_id, initiator)
        await happening
        self._site.mend(self._urls)
        self._tell(f"          {outcome} after {time.monotonic() - started:.1f} s")
        await asyncio.sleep(self._rng.uniform(0.2, 1.0))

    async def _insist(self, event_type: str, storage_id: str, initiator: str) -> str:
        """Ask with one key until the switch is done: it must not happen twice, whoever is asked."""
        key, said = uuid4().hex, ""
        names = [initiator, *self._rng.sample(sorted(set(self._urls) - {initiator}), len(self._urls) - 1)]
        deadline = time.monotonic() + SETTLE_WITHIN
        while time.monotonic() < deadline:
            for name in names:
                status, said = await switch(self._urls[name], event_type, storage_id, key)
                if status in (200, 201):
                    self._report.switched += 1
                    return f"switched ({status} from {name})"
                if status not in (0, 409, 503):
                    self._report.surprises.append(f"switch: {status} {said[:200]}")
                await asyncio.sleep(0.3)
        self._report.not_switched.append(f"{event_type}: {said[:200]}")
        return "NOT switched"

    # Judging

    async def _settle(self, publishers: list[ChaosPublisher], readers: list[ChaosReader], who: str) -> None:
        """Give readers time to get everything that was acknowledged."""
        self._tell(f"judging: {who}")
        histories = [publisher.history for publisher in publishers]
        deadline = time.monotonic() + SETTLE_WITHIN
        while judge(histories, _merged(readers)).lost and time.monotonic() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        await asyncio.sleep(1.0)
        self._report.verdicts[who] = verdict = judge(histories, _merged(readers))
        self._tell(f"          {sum(reader.count for reader in readers)} events read: {verdict}")

    async def _read_again(self, publishers: list[ChaosPublisher], urls: list[str]) -> None:
        readers = [ChaosReader(name, self._plan.partitions, urls, self._rng) for name in self._event_types]
        reading = [asyncio.create_task(reader.run()) for reader in readers]
        await self._settle(publishers, readers, "readers that come afterwards")
        await _cancel(reading)
        self._report.surprises += [surprise for reader in readers for surprise in reader.surprises]

    def _sum_up(self, publishers: list[ChaosPublisher], readers: list[ChaosReader]) -> None:
        histories: list[Published] = [publisher.history for publisher in publishers]
        self._report.acknowledged = sum(len(history.acknowledged) for history in histories)
        self._report.unanswered = sum(len(history.unanswered) for history in histories)
        for publisher in publishers:
            self._report.surprises += publisher.surprises
        for reader in readers:
            self._report.surprises += reader.surprises


def _merged(readers: list[ChaosReader]) -> dict[EventPartition, list[EventMark]]:
    return {target: marks for reader in readers for target, marks in reader.read.items()}


async def _cancel(tasks: list[asyncio.Task[None]]) -> None:
    for outcome in await end(*tasks):
        if isinstance(outcome, Exception):
            raise outcome
