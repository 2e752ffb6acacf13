"""What happened to messages, as their producers and consumers recorded it, and whether it could have been right.

A history is a list of events. Consumers write them before and after each step, so that what a killed one was doing is
known to be unknown. The checker gives the benefit of the doubt only there.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

import msgspec

LATE_ANSWERS = frozenset({"expired", "not_holder", "stale_version", "not_found"})


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """`created` by the producer; `leased`, then per operation `asked` and `answered`, by a consumer.

    `at_ms` is the instant asked for, or when the lease ends; `now_ms` is when it was written down, by the one clock of the
    machine.
    """

    kind: Literal["created", "leased", "asked", "answered"]
    id: str
    now_ms: float
    consumer: str = ""
    version: int = 0
    at_ms: int = 0
    created_for_ms: int = 0
    lease_ms: int = 0
    operation: str = ""
    status: str = ""


class Violation(msgspec.Struct, frozen=True):
    rule: str
    id: str
    detail: str


def read(folder: Path) -> list[Event]:
    """All complete lines of all files; the last line of a killed writer may be torn."""
    events = []
    for path in folder.glob("*.ndjson"):
        for line in path.read_bytes().split(b"\n")[:-1]:
            events.append(msgspec.json.decode(line, type=Event))
    return events


def check(events: Sequence[Event], left: set[str]) -> list[Violation]:
    """`left` are the ids that are still in the topic at the end."""
    by_id: dict[str, list[Event]] = defaultdict(list)
    for event in events:
        by_id[event.id].append(event)
    found: list[Violation] = []
    for message_id, recorded in by_id.items():
        history = _told_again(sorted(recorded, key=lambda event: event.now_ms))
        found += [*_lost(message_id, history, left), *_early(message_id, history)]
        found += [*_leased_twice(message_id, history), *_late_but_ok(message_id, history)]
    return found


def _told_again(history: Sequence[Event]) -> list[Event]:
    """A consumer that comes back is told of the leases that it holds. One that it had asked to extend, without ever getting
    the answer, is that answer and no new lease."""
    extensions = {
        (event.consumer, event.version + 1, event.at_ms): event
        for event in history
        if event.kind == "asked" and event.operation == "extend"
    }

    def meant(event: Event) -> Event:
        extension = extensions.get((event.consumer, event.version, event.at_ms))
        if event.kind != "leased" or extension is None or extension.now_ms > event.now_ms:
            return event
        return msgspec.structs.replace(extension, kind="answered", now_ms=event.now_ms, status="ok")

    return [meant(event) for event in history]


def _lost(message_id: str, history: Sequence[Event], left: set[str]) -> Iterable[Violation]:
    """An accepted message is there, or somebody has at least tried to delete it."""
    created = any(event.kind == "created" for event in history)
    deleting = any(event.operation == "delete" for event in history)
    if created and message_id not in left and not deleting:
        yield Violation("lost", message_id, "it is gone, and nobody deleted it")


def _early(message_id: str, history: Sequence[Event]) -> Iterable[Violation]:
    for event in history:
        if event.kind == "leased" and _granted_ms(event) < event.created_for_ms:
            yield Violation("early", message_id, f"leased {event.created_for_ms - _granted_ms(event)} ms too soon")


def _granted_ms(lease: Event) -> int:
    return lease.at_ms - lease.lease_ms


def _leased_twice(message_id: str, history: Sequence[Event]) -> Iterable[Violation]:
    """No lease begins before the one before it has ended; a version is one lease of one consumer."""
    leases: dict[int, Event] = {}
    for event in history:
        if event.kind == "leased":
            other = leases.setdefault(event.version, event)
            if other.consumer != event.consumer:
                yield Violation("two leases", message_id, f"version {event.version}: {other.consumer}, {event.consumer}")
    for before, after in pairwise([leases[version] for version in sorted(leases)]):
        too_soon_ms = _end_ms(before, history) - _granted_ms(after)
        if too_soon_ms > 0:
            detail = f"{after.consumer} got it {too_soon_ms:.0f} ms before the lease of {before.consumer} ended"
            yield Violation("two leases", message_id, detail)


def _end_ms(lease: Event, history: Sequence[Event]) -> float:
    """The earliest instant at which this lease can have ended, by what its holder did with it."""
    end_ms = float(lease.at_ms)
    version = lease.version
    for event in history:
        if event.consumer != lease.consumer or event.version != version or event.operation == "":
            continue
        if event.kind == "asked" and event.operation in ("release", "delete"):
            end_ms = min(end_ms, event.now_ms)
        elif event.kind == "asked" and event.operation == "extend":
            end_ms = min(end_ms, event.at_ms)
        elif event.operation == "extend" and event.status == "ok":
            end_ms, version = float(event.at_ms), version + 1
    return end_ms


def _late_but_ok(message_id: str, history: Sequence[Event]) -> Iterable[Violation]:
    """What was asked after the end of a lease must have been refused, with one of the right answers."""
    ends: dict[tuple[str, int], int] = {}
    asked: dict[tuple[str, str, int], Event] = {}
    for event in history:
        holder = (event.consumer, event.version)
        if event.kind == "leased":
            ends[holder] = event.at_ms
        elif event.kind == "asked":
            asked[event.operation, *holder] = event
        elif event.kind == "answered":
            request = asked[event.operation, *holder]
            late = holder in ends and request.now_ms > ends[holder]
            if late and event.status not in LATE_ANSWERS:
                yield Violation("late", message_id, f"{event.operation} after the end was answered with {event.status!r}")
            if event.operation == "extend" and event.status == "ok":
                ends[event.consumer, event.version + 1] = event.at_ms
