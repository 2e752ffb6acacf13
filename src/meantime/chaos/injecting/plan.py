"""Which fault hits whom, in which order, after which pause and for how long: all of it follows from the seed.

Kinds and targets are dealt like cards: no pair comes again before all have come. When a fault is over, the next one waits
until the stack is whole again, so the plan has no instants, only an order.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

FaultKind = Literal["kill", "freeze", "partition", "power", "clock", "disk"]
KINDS: tuple[FaultKind, ...] = get_args(FaultKind)

AGENT = "agent of the primary"
PRIMARY, STANDBY = "postgres primary", "postgres standby"
ZOOKEEPER_LEADER, ZOOKEEPER_FOLLOWER = "zookeeper leader", "zookeeper follower"
MACHINE = "the machine"
PAUSE = (3.0, 6.0)
LASTS: dict[FaultKind, tuple[float, float]] = {
    "kill": (0.0, 0.0),
    "freeze": (1.0, 12.0),
    "partition": (3.0, 12.0),
    "power": (0.0, 0.0),
    "clock": (4.0, 10.0),
    "disk": (3.0, 8.0),
}
AGENT_FROZEN_FOR = 25.0
"""Until somebody else is the primary, and longer: a session of its agent lives 10 s."""
LINKS = ("its peers", "zookeeper", "postgres", "kafka")
JUMPS = (-8.0, -2.0, -0.3, 0.3, 2.0, 8.0)
"""Seconds by which a clock is set, around the 0.5 s at which a node counts as wrong."""


@dataclass(frozen=True, slots=True)
class Topology:
    """Which processes there are to be hit."""

    nodes: tuple[str, ...]
    replicas: int = 1
    clusters: tuple[str, ...] = ("kafka-1",)
    timers: tuple[str, ...] = ()
    workers: tuple[str, ...] = ()

    @property
    def services(self) -> tuple[str, ...]:
        if self.replicas == 1:
            return ("zookeeper", "postgres", *self.clusters)
        brokers = (f"{name}-{number}" for name in self.clusters for number in range(1, self.replicas + 1))
        return (ZOOKEEPER_LEADER, ZOOKEEPER_FOLLOWER, PRIMARY, STANDBY, *brokers)


@dataclass(frozen=True, slots=True)
class PlannedFault:
    """`detail` is what the kind needs to know beside the target: by how much a clock is set, what is cut off, which trouble
    the disk has."""

    kind: FaultKind
    target: str
    pause: float
    lasts: float
    detail: str = ""

    def __str__(self) -> str:
        words = {
            "kill": f"kill -9 of {self.target}",
            "freeze": f"{self.target} frozen for {self.lasts:.1f} s",
            "partition": f"{self.target} cut off from {self.detail} for {self.lasts:.1f} s",
            "power": f"power cut of {self.target}",
            "clock": f"clock of {self.target} set by {self.detail} s for {self.lasts:.1f} s",
            "disk": f"disk of {self.target} {self.detail} for {self.lasts:.1f} s",
        }
        return words[self.kind]


def targets(kind: FaultKind, topology: Topology) -> list[tuple[str, str]]:
    """Whom a kind of fault can hit, and how."""
    everybody = [*topology.services, *topology.nodes, *topology.timers, *topology.workers]
    if topology.replicas > 1 and kind in ("kill", "freeze"):
        everybody.append(AGENT)
    match kind:
        case "kill" | "freeze":
            return [(name, "") for name in everybody]
        case "partition":
            return [(name, link) for name in topology.nodes for link in LINKS]
        case "power":
            return [(MACHINE, "")]
        case "clock":
            # A ledger and the Spark job compare no instants of their own.
            ours = [*topology.nodes, *(name for name in topology.timers if name.startswith(("oscillator", "dispatcher")))]
            return [(name, f"{jump:+g}") for name in ours for jump in JUMPS]
        case "disk":
            return [(name, trouble) for name in topology.services for trouble in ("full", "read-only")]


def plan(seed: int, kinds: Sequence[FaultKind], topology: Topology) -> Iterator[PlannedFault]:
    """Faults without end; whoever follows the plan stops when the time is over."""
    rng = random.Random(f"plan {seed}")
    decks: dict[FaultKind, list[tuple[str, str]]] = {kind: [] for kind in kinds}
    while kinds:
        for kind in rng.sample(kinds, len(kinds)):
            if not decks[kind]:
                decks[kind] = targets(kind, topology)
                rng.shuffle(decks[kind])
            target, detail = decks[kind].pop()
            lasts = AGENT_FROZEN_FOR if (kind, target) == ("freeze", AGENT) else rng.uniform(*LASTS[kind])
            yield PlannedFault(kind, target, round(rng.uniform(*PAUSE), 1), round(lasts, 1), detail)
