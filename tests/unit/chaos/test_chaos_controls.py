"""Every check of the fault suite has planted defects that it finds, and finds nothing in a good history."""

import random
from dataclasses import replace
from typing import Any

import pytest

from meantime.chaos.checks.cleanliness import END
from meantime.chaos.checks.events import EVENTS
from meantime.chaos.checks.everything import all_controls
from meantime.chaos.checks.messages import MESSAGES, OWNER, MessageEvent, MessageHistory
from meantime.chaos.checks.model import INVARIANTS, Checker, Control, Plant, controls
from meantime.chaos.checks.queues import QUEUES, JobRun, QueueHistory
from meantime.chaos.checks.records import RECORDS
from meantime.chaos.checks.timers import CALLBACKS, AskedTimer, Callback, CancelledTimer, TimerHistory

CHECKERS: list[Checker[Any]] = [EVENTS, MESSAGES, CALLBACKS, QUEUES, RECORDS, END]


@pytest.mark.parametrize("checker", CHECKERS, ids=lambda checker: checker.capability)
def test_a_good_history_has_no_finding(checker: Checker[Any]) -> None:
    assert list(checker.check(checker.sample)) == []


@pytest.mark.parametrize("control", all_controls(), ids=str)
def test_a_planted_defect_is_found(control: Control) -> None:
    assert control.caught


def test_every_invariant_has_a_control() -> None:
    assert {control.invariant for control in all_controls()} == INVARIANTS.keys()


def test_a_check_that_sees_nothing_fails_its_control() -> None:
    blind = replace(EVENTS, check=lambda _: ())
    assert not any(control.caught for control in controls(blind, None, random.Random(1)))


def test_a_defect_is_planted_into_what_was_recorded_if_there_is_a_place_for_it() -> None:
    nowhere: Plant[TimerHistory] = Plant("nothing", "lost", lambda history, _: None)
    checker = replace(CALLBACKS, plants=(*CALLBACKS.plants, nowhere))
    recorded = TimerHistory((AskedTimer("x", 50),), (), (Callback("x", 50_001, 50_002),))
    found = {control.name: control for control in controls(checker, recorded, random.Random(1))}
    assert found["a timer that never fires"].recorded
    assert not found["a cancelled timer that fires"].recorded
    assert not found["nothing"].caught


def test_a_delete_without_an_answer_excuses_a_missing_message_and_a_refused_one_does_not() -> None:
    created = MessageEvent("created", "m", 0, version=1, at_ms=10)
    asked = MessageEvent("asked", "m", 20, "a", 2, operation="delete")
    refused = MessageEvent("answered", "m", 21, "a", 2, operation="delete", status="expired")
    assert list(MESSAGES.check(MessageHistory((created, asked)))) == []
    assert [found.invariant for found in MESSAGES.check(MessageHistory((created, asked, refused)))] == ["lost"]


def test_a_message_that_its_owner_moved_is_not_leased_before_its_new_instant() -> None:
    moved = MessageEvent("answered", "m", 20, OWNER, 2, at_ms=500, operation="move", status="ok")
    early = MessageEvent("leased", "m", 400, "a", 3, at_ms=1400, created_for_ms=500, lease_ms=1000)
    found = MESSAGES.check(MessageHistory((moved, early), frozenset({"m"})))
    assert {finding.invariant for finding in found} == {"early"}


def test_a_cancel_that_came_too_late_promises_nothing() -> None:
    history = TimerHistory((AskedTimer("x", 50),), (CancelledTimer("x", 202, 49_500),), (Callback("x", 50_001, 50_002),))
    assert list(CALLBACKS.check(history)) == []


def test_who_is_told_that_a_timer_has_fired_may_count_on_it() -> None:
    history = TimerHistory((AskedTimer("x", 50),), (CancelledTimer("x", 409, 49_500),), ())
    assert [finding.invariant for finding in CALLBACKS.check(history)] == ["truth"]


def test_only_the_last_message_of_a_queue_may_come_again_and_only_to_another_worker() -> None:
    def findings(*runs: JobRun) -> list[str]:
        return [finding.invariant for finding in QUEUES.check(QueueHistory({0: (1, 2)}, runs, (), ()))]

    one, two = JobRun("a", 0, 1, 10), JobRun("a", 0, 2, 11)
    assert findings(one, two, JobRun("b", 0, 2, 12)) == []
    assert findings(one, two, JobRun("a", 0, 2, 12)) == ["once"]
    assert findings(one, two, JobRun("b", 0, 1, 12)) == ["once"]
