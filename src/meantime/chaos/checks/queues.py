"""Queues of an application: everything is worked off in order by one owner at a time, and nobody's checkpoint goes back.

When a queue changes hands, the message whose job had not been recorded comes again: the last one, and no other.
"""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from meantime.chaos.checks.model import Checker, Finding, Plant

WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class JobRun:
    """One run of a job: which process had it, of which message."""

    worker: str
    partition: int
    number: int
    began_ms: float


@dataclass(frozen=True, slots=True)
class OwnerView:
    """Who lists which queues, seen in one moment."""

    at_ms: float
    queues: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """How far a queue is recorded to be."""

    at_ms: float
    queue: str
    cursor: str


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """`published`: acknowledged numbers of each partition; `runs` and `checkpoints` in the order of their times."""

    published: dict[int, tuple[int, ...]]
    runs: tuple[JobRun, ...]
    owners: tuple[OwnerView, ...]
    checkpoints: tuple[Checkpoint, ...]


def check(history: QueueHistory) -> Iterator[Finding]:
    by_partition: dict[int, list[JobRun]] = defaultdict(list)
    for run in sorted(history.runs, key=lambda run: run.began_ms):
        by_partition[run.partition].append(run)
    for partition, numbers in history.published.items():
        done = {run.number for run in by_partition[partition]}
        for number in numbers:
            if number not in done:
                yield Finding(WORKERS, "lost", f"{partition}#{number}", "acknowledged, and no job got it")
        acknowledged = set(numbers)
        yield from _order(partition, [run for run in by_partition[partition] if run.number in acknowledged])
    yield from _owners(history)
    yield from _checkpoints(history)


def _order(partition: int, runs: list[JobRun]) -> Iterator[Finding]:
    for before, run in pairwise(runs):
        again = run.number == before.number and run.worker != before.worker
        if run.number <= before.number and not again:
            detail = f"{run.worker} got it after {before.worker} had #{before.number}"
            yield Finding(WORKERS, "once", f"{partition}#{run.number}", detail)


def _owners(history: QueueHistory) -> Iterator[Finding]:
    for view in history.owners:
        holders: dict[str, list[str]] = defaultdict(list)
        for worker, queues in view.queues.items():
            for queue in queues:
                holders[queue].append(worker)
        for queue, workers in holders.items():
            if len(workers) > 1:
                yield Finding(WORKERS, "owner", queue, f"owned by {' and '.join(sorted(workers))}")


def _checkpoints(history: QueueHistory) -> Iterator[Finding]:
    latest: dict[str, str] = {}
    for point in sorted(history.checkpoints, key=lambda point: point.at_ms):
        if point.cursor < latest.get(point.queue, ""):
            yield Finding(
                WORKERS, "owner", point.queue, f"its checkpoint went back from {latest[point.queue]} to {point.cursor}"
            )
        latest[point.queue] = max(point.cursor, latest.get(point.queue, ""))


def _lose(history: QueueHistory, rng: random.Random) -> QueueHistory | None:
    known = {(partition, number) for partition, numbers in history.published.items() for number in numbers}
    runs = [run for run in history.runs if (run.partition, run.number) in known]
    if not runs:
        return None
    chosen = rng.choice(runs)
    kept = (run for run in history.runs if (run.partition, run.number) != (chosen.partition, chosen.number))
    return replace(history, runs=tuple(kept))


def _go_back(history: QueueHistory, rng: random.Random) -> QueueHistory | None:
    known = {(partition, number) for partition, numbers in history.published.items() for number in numbers}
    ordered = sorted((run for run in history.runs if (run.partition, run.number) in known), key=lambda run: run.began_ms)
    latest = {run.partition: run for run in ordered}
    older = [run for run in ordered if run.number < latest[run.partition].number]
    if not older:
        return None
    chosen = rng.choice(older)
    return replace(history, runs=(*history.runs, replace(chosen, began_ms=latest[chosen.partition].began_ms + 1)))


def _own_twice(history: QueueHistory, rng: random.Random) -> QueueHistory | None:
    views = [view for view in history.owners if any(view.queues.values())]
    if not views:
        return None
    view = rng.choice(views)
    held = next(queues for queues in view.queues.values() if queues)
    double = replace(view, queues={**view.queues, "worker-other": held})
    return replace(history, owners=tuple(double if one is view else one for one in history.owners))


def _late_checkpoint(history: QueueHistory, rng: random.Random) -> QueueHistory | None:
    if not history.checkpoints:
        return None
    last = max(history.checkpoints, key=lambda point: point.at_ms)
    return replace(history, checkpoints=(*history.checkpoints, Checkpoint(last.at_ms + 1, last.queue, "")))


QUEUES = Checker(
    WORKERS,
    check,
    (
        Plant("a message that no job gets", "lost", _lose),
        Plant("an older message that comes again", "once", _go_back),
        Plant("two owners of a queue", "owner", _own_twice),
        Plant("a former owner's checkpoint that is accepted", "owner", _late_checkpoint),
    ),
    QueueHistory(
        {0: (0, 1)},
        (JobRun("w1", 0, 0, 10), JobRun("w1", 0, 1, 11), JobRun("w2", 0, 1, 20)),
        (OwnerView(10, {"w1": ("q",)}), OwnerView(20, {"w1": (), "w2": ("q",)})),
        (Checkpoint(10, "q", "001-0001-000000000000000001"),),
    ),
)
