"""What a checker says, and how it is proved to see: a *plant* puts one defect into a good history, and must be found.

history ──► check ──► findings            (the verdict: none)
   └──► plant ──► check ──► findings      (the control: one of the plant's invariant)
"""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Invariant = Literal["lost", "once", "early", "lease", "owner", "truth", "clean"]

INVARIANTS: dict[Invariant, str] = {
    "lost": "nothing acknowledged is lost",
    "once": "each once, and in order",
    "early": "nothing before its instant",
    "lease": "one live lease per message",
    "owner": "one owner per queue; a late checkpoint is refused",
    "truth": "answers say what happened",
    "clean": "nothing is left behind",
}

H = TypeVar("H")


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that may not be."""

    capability: str
    invariant: Invariant
    subject: str
    detail: str

    def __str__(self) -> str:
        return f"{self.capability}: {INVARIANTS[self.invariant]}: {self.subject}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Plant(Generic[H]):
    """Puts one defect into a history; `None` where there is nothing that it could be put into."""

    name: str
    invariant: Invariant
    into: Callable[[H, random.Random], H | None]


@dataclass(frozen=True, slots=True)
class Checker(Generic[H]):
    """A check with its controls. `sample` is a good history for plants that find no place in a real one."""

    capability: str
    check: Callable[[H], Iterable[Finding]]
    plants: Sequence[Plant[H]]
    sample: H


@dataclass(frozen=True, slots=True)
class Control:
    """Whether a checker saw a planted defect, and whether it was planted into what was recorded or into a sample."""

    capability: str
    name: str
    invariant: Invariant
    caught: bool
    recorded: bool

    def __str__(self) -> str:
        where = "this run's history" if self.recorded else "a sample"
        return f"{self.capability}: {self.name} in {where}: {'found' if self.caught else 'NOT FOUND'}"


def controls(checker: Checker[H], history: H | None, rng: random.Random) -> list[Control]:
    """Each plant in turn, into the recorded history if there is a place for it."""
    return [_control(checker, plant, history, rng) for plant in checker.plants]


def _control(checker: Checker[H], plant: Plant[H], history: H | None, rng: random.Random) -> Control:
    planted = plant.into(history, rng) if history is not None else None
    recorded = planted is not None
    before = history if recorded and history is not None else checker.sample
    planted = planted if planted is not None else plant.into(checker.sample, rng)
    caught = planted is not None and _count(checker, planted)[plant.invariant] > _count(checker, before)[plant.invariant]
    return Control(checker.capability, plant.name, plant.invariant, caught, recorded)


def _count(checker: Checker[H], history: H) -> Counter[Invariant]:
    return Counter(finding.invariant for finding in checker.check(history))
