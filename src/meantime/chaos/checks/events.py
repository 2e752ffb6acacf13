"""Events: what was acknowledged is read once, in order, by readers that were always there and by those that come later."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from meantime.chaos.checks.model import Checker, Finding, Invariant, Plant
from meantime.chaos.histories import EventMark, EventPartition, Published, judge

STREAMS = "streams"

Read = dict[EventPartition, list[EventMark]]


@dataclass(frozen=True, slots=True)
class EventHistory:
    """`read` by each reader, under its name; `surprises` are answers that no client should get."""

    published: tuple[Published, ...]
    read: dict[str, Read]
    surprises: tuple[str, ...] = ()


def check(history: EventHistory) -> Iterator[Finding]:
    for reader, read in history.read.items():
        verdict = judge(history.published, read)
        kinds: Sequence[tuple[Invariant, str, Sequence[tuple[EventPartition, EventMark]]]] = (
            ("lost", "acknowledged and never read", verdict.lost),
            ("once", "read twice", verdict.twice),
            ("once", "read after a later one", verdict.out_of_order),
            ("truth", "read, and nobody published it", verdict.unheard_of),
        )
        for invariant, what, found in kinds:
            for target, mark in found:
                subject = f"{target.event_type}/{target.partition} {mark.publisher}#{mark.number}"
                yield Finding(STREAMS, invariant, subject, f"{what} ({reader})")
    for surprise in history.surprises:
        yield Finding(STREAMS, "truth", "answer", surprise)


def _changed(history: EventHistory, reader: str, target: EventPartition, marks: list[EventMark]) -> EventHistory:
    return replace(history, read={**history.read, reader: {**history.read[reader], target: marks}})


def _places(history: EventHistory) -> list[tuple[str, EventPartition, int]]:
    """Where acknowledged events were read."""
    known = {(one.target, EventMark(one.publisher, number)) for one in history.published for number in one.acknowledged}
    return [
        (reader, target, index)
        for reader, read in history.read.items()
        for target, marks in read.items()
        for index, mark in enumerate(marks)
        if (target, mark) in known
    ]


def _lose(history: EventHistory, rng: random.Random) -> EventHistory | None:
    if not (places := _places(history)):
        return None
    reader, target, index = rng.choice(places)
    marks = history.read[reader][target]
    return _changed(history, reader, target, [*marks[:index], *marks[index + 1 :]])


def _double(history: EventHistory, rng: random.Random) -> EventHistory | None:
    if not (places := _places(history)):
        return None
    reader, target, index = rng.choice(places)
    marks = history.read[reader][target]
    return _changed(history, reader, target, [*marks, marks[index]])


def _swap(history: EventHistory, rng: random.Random) -> EventHistory | None:
    places = _places(history)
    known = set(places)
    pairs = [
        (reader, target, index)
        for reader, target, index in places
        if (reader, target, index + 1) in known
        and history.read[reader][target][index].publisher == history.read[reader][target][index + 1].publisher
    ]
    if not pairs:
        return None
    reader, target, index = rng.choice(pairs)
    marks = list(history.read[reader][target])
    marks[index], marks[index + 1] = marks[index + 1], marks[index]
    return _changed(history, reader, target, marks)


def _invent(history: EventHistory, rng: random.Random) -> EventHistory | None:
    targets = [(reader, target) for reader, read in history.read.items() for target in read]
    if not targets:
        return None
    reader, target = rng.choice(targets)
    return _changed(history, reader, target, [*history.read[reader][target], EventMark("nobody", 1)])


_ONE = EventPartition("orders", 0)

EVENTS = Checker(
    STREAMS,
    check,
    (
        Plant("an acknowledged event that is not read", "lost", _lose),
        Plant("an event that is read twice", "once", _double),
        Plant("two events in the wrong order", "once", _swap),
        Plant("an event that nobody published", "truth", _invent),
    ),
    EventHistory(
        (Published(_ONE, "p", [0, 1, 2], set()),), {"a reader": {_ONE: [EventMark("p", number) for number in range(3)]}}
    ),
)
