"""What faults may not leave behind once they are over: locks, half switches, orphans, processes that do not come back."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from meantime.chaos.checks.model import Checker, Finding, Plant

STACK = "stack"


@dataclass(frozen=True, slots=True)
class EndState:
    """The stack some time after the last fault: what is left, who is not well, and what could not be done any more."""

    left_behind: tuple[str, ...] = ()
    not_well: tuple[str, ...] = ()
    never_again: tuple[str, ...] = ()


def check(state: EndState) -> Iterator[Finding]:
    for what in state.left_behind:
        yield Finding(STACK, "clean", "left behind", what)
    for what in state.not_well:
        yield Finding(STACK, "clean", "not well after the last fault", what)
    for what in state.never_again:
        yield Finding(STACK, "clean", "does not work any more", what)


def _lock(state: EndState, rng: random.Random) -> EndState:
    return replace(state, left_behind=(*state.left_behind, "a lock of an event type"))


def _down(state: EndState, rng: random.Random) -> EndState:
    return replace(state, not_well=(*state.not_well, "node-1 is down"))


END = Checker(
    STACK,
    check,
    (
        Plant("a lock that is left behind", "clean", _lock),
        Plant("a process that does not come back", "clean", _down),
    ),
    EndState(),
)
