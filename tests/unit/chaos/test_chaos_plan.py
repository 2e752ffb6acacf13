"""The plan of faults follows from the seed, and hits everybody."""

from itertools import islice
from pathlib import Path

import pytest

from meantime.chaos.injecting import faults
from meantime.chaos.injecting.plan import AGENT, KINDS, FaultKind, PlannedFault, Topology, plan, targets
from meantime.chaos.suite import SuiteOptions, run_suite
from meantime.errors import StackError

ONE = Topology(("node-1", "node-2", "node-3"), timers=("dispatcher-1", "futures", "oscillator-1"), workers=("worker-1",))
THREE = Topology(("node-1", "node-2", "node-3"), replicas=3)


def first(count: int, seed: int, kinds: tuple[FaultKind, ...] = KINDS, topology: Topology = ONE) -> list[PlannedFault]:
    return list(islice(plan(seed, kinds, topology), count))


def test_the_same_seed_makes_the_same_plan_and_another_one_another() -> None:
    assert first(50, 7) == first(50, 7)
    assert first(50, 7) != first(50, 8)


def test_every_kind_and_every_target_gets_its_turn_before_any_comes_again() -> None:
    count = len(targets("kill", ONE))
    assert len({fault.target for fault in first(count, 1, ("kill",))}) == count
    assert {fault.kind for fault in first(6, 3)} == set(KINDS)


def test_with_replicas_the_agent_alone_is_frozen_for_longer_than_its_session() -> None:
    frozen = [fault for fault in first(40, 2, ("freeze",), THREE) if fault.target == AGENT]
    assert frozen
    assert all(fault.lasts > 20 for fault in frozen)
    assert AGENT not in {target for target, _ in targets("freeze", ONE)}


def test_a_plan_without_kinds_is_empty() -> None:
    assert first(3, 1, ()) == []


def test_a_run_none_of_whose_faults_can_be_made_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(faults.WHY_NOT, "clock", lambda: "no libfaketime")
    with pytest.raises(StackError, match="clock: no libfaketime"):
        run_suite(tmp_path, SuiteOptions(kinds=["clock"]), lambda _: None)
