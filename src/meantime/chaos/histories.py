"""Histories of publishers and readers, and the judgement over them: pure, so that it can be tested with planted faults.

A publisher writes to one partition of one event type, numbers its events, and waits for an answer before it sends the next
batch. So whatever was acknowledged must be read once, and in the order of its numbers; what was not acknowledged may have
been written or not, but not twice. A reader notes what it gets, partition by partition, in the order in which it came.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


class EventPartition(NamedTuple):
    """One partition of one event type."""

    event_type: str
    partition: int


class EventMark(NamedTuple):
    """One event: who published it, and its number there."""

    publisher: str
    number: int


@dataclass(slots=True)
class Published:
    """What one publisher knows. `acknowledged` in the order of the answers."""

    target: EventPartition
    publisher: str
    acknowledged: list[int] = field(default_factory=list)
    unanswered: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class HistoryVerdict:
    """What is wrong with what a reader got; nothing is the only good answer."""

    lost: tuple[tuple[EventPartition, EventMark], ...] = ()
    twice: tuple[tuple[EventPartition, EventMark], ...] = ()
    out_of_order: tuple[tuple[EventPartition, EventMark], ...] = ()
    unheard_of: tuple[tuple[EventPartition, EventMark], ...] = ()

    @property
    def good(self) -> bool:
        return not (self.lost or self.twice or self.out_of_order or self.unheard_of)

    def __str__(self) -> str:
        parts = {
            "lost": self.lost,
            "twice": self.twice,
            "out of order": self.out_of_order,
            "unheard of": self.unheard_of,
        }
        return ", ".join(f"{len(found)} {name}" for name, found in parts.items())


def judge(published: Iterable[Published], read: Mapping[EventPartition, list[EventMark]]) -> HistoryVerdict:
    """Hold what one reader got against what all publishers know."""
    lost: list[tuple[EventPartition, EventMark]] = []
    twice: list[tuple[EventPartition, EventMark]] = []
    disordered: list[tuple[EventPartition, EventMark]] = []
    sent: dict[EventPartition, set[EventMark]] = {}
    for one in published:
        numbers = [mark.number for mark in read.get(one.target, ()) if mark.publisher == one.publisher]
        seen = Counter(numbers)
        lost += [(one.target, EventMark(one.publisher, number)) for number in one.acknowledged if number not in seen]
        twice += [(one.target, EventMark(one.publisher, number)) for number, count in seen.items() if count > 1]
        acknowledged = set(one.acknowledged)
        disordered += [
            (one.target, EventMark(one.publisher, number)) for number in _overtaken(n for n in numbers if n in acknowledged)
        ]
        sent.setdefault(one.target, set()).update(
            EventMark(one.publisher, number) for number in acknowledged | one.unanswered
        )
    unheard = [(target, mark) for target, marks in read.items() for mark in marks if mark not in sent.get(target, ())]
    return HistoryVerdict(tuple(lost), tuple(twice), tuple(disordered), tuple(unheard))


def _overtaken(numbers: Iterable[int]) -> list[int]:
    """Those that come after a greater one; repetitions are not counted here."""
    greatest, late, seen = -1, [], set[int]()
    for number in numbers:
        if number in seen:
            continue
        seen.add(number)
        if number < greatest:
            late.append(number)
        greatest = max(greatest, number)
    return late
