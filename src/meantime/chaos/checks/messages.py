"""Messages of a topic, as their producers and consumers recorded it, and whether it could have been right.

A history is a list of events. Consumers write them before and after each step, so that what a killed one was doing is
known to be unknown. The checker gives the benefit of the doubt only there.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal

import msgspec

from meantime.chaos.checks.model import Checker, Finding, Plant

TOPICS = "topics"
OWNER = "(owner)"
"""Who moves and deletes messages without a lease."""
LATE_ANSWERS = frozenset({"expired", "not_holder", "stale_version", "not_found"})
TOLERANCE_MS = 50
"""What the clock of whoever writes a history and cluster time may differ by."""


class MessageEvent(msgspec.Struct, frozen=True, omit_defaults=True):
    """`created` by the producer; `leased`, then per operation `asked` and `answered`, by a consumer or the owner.

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


@dataclass(frozen=True, slots=True)
class MessageHistory:
    """`left` are the ids that are still in the topic at the end."""

    events: tuple[MessageEvent, ...]
    left: frozenset[str] = frozenset()
    surprises: tuple[str, ...] = ()


def check(history: MessageHistory) -> Iterator[Finding]:
    by_id: dict[str, list[MessageEvent]] = defaultdict(list)
    for event in history.events:
        by_id[event.id].append(event)
    for message_id, recorded in by_id.items():
        told = _told_again(sorted(recorded, key=lambda event: event.now_ms))
        yield from _lost(message_id, told, history.left)
        yield from _early(message_id, told)
        yield from _leased_twice(message_id, told)
        yield from _late_but_ok(message_id, told)
        yield from _owner_obeyed(message_id, told, history.left)
    for surprise in history.surprises:
        yield Finding(TOPICS, "truth", "answer", surprise)


def _told_again(history: Sequence[MessageEvent]) -> list[MessageEvent]:
    """A consumer that comes back is told of the leases that it holds. One that it had asked to extend, without ever getting
    the answer, is that answer and no new lease."""
    extensions = {
        (event.consumer, event.version + 1, event.at_ms): event
        for event in history
        if event.kind == "asked" and event.operation == "extend"
    }

    def meant(event: MessageEvent) -> MessageEvent:
        extension = extensions.get((event.consumer, event.version, event.at_ms))
        if event.kind != "leased" or extension is None or extension.now_ms > event.now_ms:
            return event
        return msgspec.structs.replace(extension, kind="answered", now_ms=event.now_ms, status="ok")

    return [meant(event) for event in history]


def _lost(message_id: str, history: Sequence[MessageEvent], left: frozenset[str]) -> Iterable[Finding]:
    """An accepted message is there, or somebody has deleted it, or may have: a delete without an answer."""
    created = any(event.kind == "created" for event in history)
    if created and message_id not in left and not _may_be_deleted(history):
        yield Finding(TOPICS, "lost", message_id, "it is gone, and nobody deleted it")


def _may_be_deleted(history: Sequence[MessageEvent]) -> bool:
    asked = [event for event in history if event.kind == "asked" and event.operation == "delete"]
    answers = {
        (event.consumer, event.version): event.status
        for event in history
        if event.kind == "answered" and event.operation == "delete"
    }
    return any(answers.get((event.consumer, event.version), "ok") == "ok" for event in asked)


def _early(message_id: str, history: Sequence[MessageEvent]) -> Iterable[Finding]:
    for event in history:
        if event.kind == "leased" and granted_ms(event) < event.created_for_ms:
            yield Finding(TOPICS, "early", message_id, f"leased {event.created_for_ms - granted_ms(event)} ms too soon")
        # A returning consumer hears again of what it holds, so only a lease that comes before its instant tells.
        elif event.kind == "leased" and event.now_ms < event.created_for_ms - TOLERANCE_MS:
            early_ms = event.created_for_ms - event.now_ms
            yield Finding(TOPICS, "early", message_id, f"delivered {early_ms:.0f} ms too soon")


def granted_ms(lease: MessageEvent) -> int:
    return lease.at_ms - lease.lease_ms


def _leased_twice(message_id: str, history: Sequence[MessageEvent]) -> Iterable[Finding]:
    """No lease begins before the one before it has ended; a version is one lease of one consumer."""
    leases: dict[int, MessageEvent] = {}
    for event in history:
        if event.kind == "leased":
            other = leases.setdefault(event.version, event)
            if other.consumer != event.consumer:
                who = f"version {event.version}: {other.consumer}, {event.consumer}"
                yield Finding(TOPICS, "lease", message_id, who)
    for before, after in pairwise([leases[version] for version in sorted(leases)]):
        too_soon_ms = _end_ms(before, history) - granted_ms(after)
        if too_soon_ms > 0:
            detail = f"{after.consumer} got it {too_soon_ms:.0f} ms before the lease of {before.consumer} ended"
            yield Finding(TOPICS, "lease", message_id, detail)


def _end_ms(lease: MessageEvent, history: Sequence[MessageEvent]) -> float:
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


def _late_but_ok(message_id: str, history: Sequence[MessageEvent]) -> Iterable[Finding]:
    """What was asked after the end of a lease must have been refused, with one of the right answers."""
    ends: dict[tuple[str, int], int] = {}
    asked: dict[tuple[str, str, int], MessageEvent] = {}
    for event in history:
        holder = (event.consumer, event.version)
        if event.kind == "leased":
            ends[holder] = event.at_ms
        elif event.kind == "asked":
            asked[event.operation, *holder] = event
        elif event.kind == "answered" and event.consumer != OWNER:
            request = asked[event.operation, *holder]
            late = holder in ends and request.now_ms > ends[holder] + TOLERANCE_MS
            if late and event.status not in LATE_ANSWERS:
                detail = f"{event.operation} after the end was answered with {event.status!r}"
                yield Finding(TOPICS, "truth", message_id, detail)
            if event.operation == "extend" and event.status == "ok":
                ends[event.consumer, event.version + 1] = event.at_ms


def _owner_obeyed(message_id: str, history: Sequence[MessageEvent], left: frozenset[str]) -> Iterable[Finding]:
    """What its owner was told to be deleted is never leased again; what was told to be moved not before its new instant."""
    for told in history:
        if told.consumer != OWNER or told.kind != "answered" or told.status != "ok":
            continue
        later = [event for event in history if event.kind == "leased" and event.now_ms > told.now_ms]
        if told.operation == "delete":
            again = [event for event in later if granted_ms(event) > told.now_ms + TOLERANCE_MS]
            if again or message_id in left:
                yield Finding(TOPICS, "truth", message_id, "its owner was told that it is deleted, and it is there")
        for event in later if told.operation == "move" else ():
            if event.version > told.version and granted_ms(event) < told.at_ms and event.created_for_ms == told.at_ms:
                yield Finding(
                    TOPICS, "early", message_id, f"leased {told.at_ms - granted_ms(event)} ms before it was moved to"
                )


# Controls


def _pick(history: MessageHistory, rng: random.Random, *kinds: tuple[str, str, str]) -> MessageEvent | None:
    """Some event of one of these kinds, operations and statuses."""
    found = [event for event in history.events if (event.kind, event.operation, event.status) in kinds]
    return rng.choice(found) if found else None


def _lose(history: MessageHistory, rng: random.Random) -> MessageHistory | None:
    """A message that was deleted is gone without anybody's doing."""
    gone = {event.id for event in history.events if event.operation == "delete" and event.status == "ok"}
    created = [event for event in history.events if event.kind == "created" and event.id in gone]
    if not created:
        return None
    chosen = rng.choice(created).id
    kept = tuple(event for event in history.events if event.id != chosen or event.operation != "delete")
    return replace(history, events=kept)


def _lease_early(history: MessageHistory, rng: random.Random) -> MessageHistory | None:
    lease = _pick(history, rng, ("leased", "", ""))
    if lease is None:
        return None
    early = msgspec.structs.replace(lease, created_for_ms=granted_ms(lease) + 500)
    return replace(history, events=tuple(early if event is lease else event for event in history.events))


def _lease_twice(history: MessageHistory, rng: random.Random) -> MessageHistory | None:
    lease = _pick(history, rng, ("leased", "", ""))
    if lease is None:
        return None
    other = msgspec.structs.replace(lease, consumer=f"{lease.consumer}-other", now_ms=lease.now_ms + 0.1)
    return replace(history, events=(*history.events, other))


def _accept_late(history: MessageHistory, rng: random.Random) -> MessageHistory | None:
    answered = _pick(history, rng, *(("answered", "delete", status) for status in LATE_ANSWERS))
    leased = {(event.id, event.consumer, event.version): event for event in history.events if event.kind == "leased"}
    if answered is None or (answered.id, answered.consumer, answered.version) not in leased:
        return None
    lease = leased[answered.id, answered.consumer, answered.version]
    asked_ms = max(lease.at_ms + 2.0 * TOLERANCE_MS, answered.now_ms)
    late = (
        msgspec.structs.replace(answered, kind="asked", status="", now_ms=asked_ms),
        msgspec.structs.replace(answered, status="ok", now_ms=asked_ms + 1),
    )
    return replace(history, events=(*history.events, *late))


def _keep_deleted(history: MessageHistory, rng: random.Random) -> MessageHistory | None:
    deleted = [
        event
        for event in history.events
        if (event.kind, event.operation, event.status, event.consumer) == ("answered", "delete", "ok", OWNER)
    ]
    return replace(history, left=history.left | {rng.choice(deleted).id}) if deleted else None


def _sample() -> MessageHistory:
    def event(kind: Literal["created", "leased", "asked", "answered"], now_ms: float, **more: object) -> MessageEvent:
        fields = {"id": "m", "consumer": "a", "version": 2, **more}
        return MessageEvent(kind, now_ms=now_ms, **fields)  # type: ignore[arg-type]

    return MessageHistory(
        (
            event("created", 0, consumer="", version=1, at_ms=100),
            event("leased", 101, at_ms=1100, created_for_ms=100, lease_ms=1000),
            event("asked", 1200, operation="delete"),
            event("answered", 1201, operation="delete", status="expired"),
            event("leased", 1301, version=3, at_ms=2300, created_for_ms=100, lease_ms=1000),
            event("asked", 1400, operation="delete", version=3),
            event("answered", 1401, operation="delete", status="ok", version=3),
            event("created", 0, id="n", consumer="", version=1, at_ms=5000),
            event("asked", 10, id="n", consumer=OWNER, version=1, operation="delete"),
            event("answered", 11, id="n", consumer=OWNER, version=1, operation="delete", status="ok"),
        )
    )


MESSAGES = Checker(
    TOPICS,
    check,
    (
        Plant("a message that is gone without a delete", "lost", _lose),
        Plant("a lease before the instant", "early", _lease_early),
        Plant("a second holder of a lease", "lease", _lease_twice),
        Plant("a delete that is accepted after the end of the lease", "truth", _accept_late),
        Plant("a deleted message that is still there", "truth", _keep_deleted),
    ),
    _sample(),
)
