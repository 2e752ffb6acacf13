"""Records that a pipeline delays: each arrives once, and not before its delay is over."""

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from meantime.chaos.checks.model import Checker, Finding, Plant

PIPELINES = "pipelines"


@dataclass(frozen=True, slots=True)
class Delivered:
    """A record at its target; both instants are Kafka's timestamps."""

    key: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class RecordHistory:
    """`sent`: acknowledged records and the instants from which on they may arrive."""

    sent: dict[str, int]
    delivered: tuple[Delivered, ...]
    surprises: tuple[str, ...] = ()


def check(history: RecordHistory) -> Iterator[Finding]:
    times = Counter(one.key for one in history.delivered)
    for key in history.sent:
        if not times[key]:
            yield Finding(PIPELINES, "lost", key, "it never arrived")
        if times[key] > 1:
            yield Finding(PIPELINES, "once", key, f"it arrived {times[key]} times")
    for one in history.delivered:
        early_ms = history.sent.get(one.key, one.at_ms) - one.at_ms
        if early_ms > 0:
            yield Finding(PIPELINES, "early", one.key, f"it arrived {early_ms} ms too soon")
    for surprise in history.surprises:
        yield Finding(PIPELINES, "truth", "pipeline", surprise)


def _known(history: RecordHistory) -> list[Delivered]:
    return [one for one in history.delivered if one.key in history.sent]


def _lose(history: RecordHistory, rng: random.Random) -> RecordHistory | None:
    if not (known := _known(history)):
        return None
    key = rng.choice(known).key
    return replace(history, delivered=tuple(one for one in history.delivered if one.key != key))


def _double(history: RecordHistory, rng: random.Random) -> RecordHistory | None:
    return replace(history, delivered=(*history.delivered, rng.choice(known))) if (known := _known(history)) else None


def _early(history: RecordHistory, rng: random.Random) -> RecordHistory | None:
    if not (known := _known(history)):
        return None
    chosen = rng.choice(known)
    early = replace(chosen, at_ms=history.sent[chosen.key] - 1)
    return replace(history, delivered=tuple(early if one is chosen else one for one in history.delivered))


RECORDS = Checker(
    PIPELINES,
    check,
    (
        Plant("a record that never arrives", "lost", _lose),
        Plant("a record that arrives twice", "once", _double),
        Plant("a record that arrives before its delay is over", "early", _early),
    ),
    RecordHistory({"a": 100}, (Delivered("a", 105),)),
)
