"""Timers: each that was acknowledged fires once, not before its second; and who cancels is told what happened."""

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace

from meantime.chaos.checks.model import Checker, Finding, Plant

TIMERS = "timers"
TOLERANCE_MS = 50


@dataclass(frozen=True, slots=True)
class AskedTimer:
    """A timer that was acknowledged."""

    token: str
    second: int


@dataclass(frozen=True, slots=True)
class CancelledTimer:
    """What somebody was told who cancelled: the status, and when the answer came."""

    token: str
    status: int
    answered_ms: float


@dataclass(frozen=True, slots=True)
class Callback:
    """A callback as a reader of committed records saw it: Kafka's timestamp of it, and when it was seen."""

    token: str
    written_ms: int
    seen_ms: float


@dataclass(frozen=True, slots=True)
class TimerHistory:
    asked: tuple[AskedTimer, ...]
    cancelled: tuple[CancelledTimer, ...]
    fired: tuple[Callback, ...]
    surprises: tuple[str, ...] = ()


def check(history: TimerHistory) -> Iterator[Finding]:
    fired: dict[str, list[Callback]] = defaultdict(list)
    for callback in history.fired:
        fired[callback.token].append(callback)
    cancels = {cancel.token: cancel for cancel in history.cancelled}
    for timer in history.asked:
        yield from _judge(timer, fired.get(timer.token, []), cancels.get(timer.token))
    for surprise in history.surprises:
        yield Finding(TIMERS, "truth", "answer", surprise)


def _judge(timer: AskedTimer, fired: list[Callback], cancel: CancelledTimer | None) -> Iterator[Finding]:
    due_ms = timer.second * 1000
    if not fired and (cancel is None or cancel.status == 409):
        told = "and a cancel was told that it had fired" if cancel else "and nobody cancelled it"
        yield Finding(TIMERS, "truth" if cancel else "lost", timer.token, f"it never fired, {told}")
    if len(fired) > 1:
        yield Finding(TIMERS, "once", timer.token, f"it fired {len(fired)} times")
    for callback in fired:
        first_ms = min(callback.written_ms, callback.seen_ms + TOLERANCE_MS)
        if first_ms < due_ms:
            yield Finding(TIMERS, "early", timer.token, f"it fired {due_ms - first_ms:.0f} ms too soon")
    if fired and cancel and cancel.status == 202 and cancel.answered_ms <= due_ms - 1000 - TOLERANCE_MS:
        yield Finding(TIMERS, "truth", timer.token, "it was cancelled in time, and fired")


def _plain(history: TimerHistory) -> list[Callback]:
    """Callbacks of acknowledged timers that nobody cancelled."""
    asked = {timer.token for timer in history.asked} - {cancel.token for cancel in history.cancelled}
    return [callback for callback in history.fired if callback.token in asked]


def _lose(history: TimerHistory, rng: random.Random) -> TimerHistory | None:
    if not (plain := _plain(history)):
        return None
    token = rng.choice(plain).token
    return replace(history, fired=tuple(callback for callback in history.fired if callback.token != token))


def _double(history: TimerHistory, rng: random.Random) -> TimerHistory | None:
    return replace(history, fired=(*history.fired, rng.choice(plain))) if (plain := _plain(history)) else None


def _early(history: TimerHistory, rng: random.Random) -> TimerHistory | None:
    if not (plain := _plain(history)):
        return None
    chosen = rng.choice(plain)
    second = next(timer.second for timer in history.asked if timer.token == chosen.token)
    early = replace(chosen, written_ms=second * 1000 - 1)
    return replace(history, fired=tuple(early if callback is chosen else callback for callback in history.fired))


def _fire_cancelled(history: TimerHistory, rng: random.Random) -> TimerHistory | None:
    seconds = {timer.token: timer.second for timer in history.asked}
    in_time = [
        cancel
        for cancel in history.cancelled
        if cancel.status == 202 and cancel.answered_ms <= seconds.get(cancel.token, 0) * 1000 - 1000 - TOLERANCE_MS
    ]
    if not in_time:
        return None
    token = rng.choice(in_time).token
    at_ms = seconds[token] * 1000 + 5
    return replace(history, fired=(*history.fired, Callback(token, at_ms, at_ms)))


CALLBACKS = Checker(
    TIMERS,
    check,
    (
        Plant("a timer that never fires", "lost", _lose),
        Plant("a timer that fires twice", "once", _double),
        Plant("a timer that fires before its second", "early", _early),
        Plant("a cancelled timer that fires", "truth", _fire_cancelled),
    ),
    TimerHistory(
        (AskedTimer("a", 10), AskedTimer("b", 10)), (CancelledTimer("b", 202, 5000),), (Callback("a", 10_003, 10_006),)
    ),
)
