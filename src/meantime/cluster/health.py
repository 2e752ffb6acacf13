"""Whether this node may be trusted, and why not.

    healthy ──► degraded ──► inactive        at once, on the first sign
    healthy ◄── degraded ◄── inactive        after the signs have been good for a while

degraded: the node answers, but does nothing that could be wrong: no leases, no pushes, no relative instants, no purging.
inactive: the node is of no use: others have taken over what it held.

| code | what is wrong | state |
| --- | --- | --- |
| `starting` | the node has not joined, or has not compared its clock yet | degraded |
| `stopping` | the node is going away | inactive |
| `clock_drift` | its clock is further from cluster time than the limit | degraded |
| `no_majority` | it does not reach a majority of the known nodes | degraded |
| `zookeeper_suspended` | the connection to ZooKeeper is interrupted | degraded |
| `zookeeper_lost` | there is no ZooKeeper session | inactive |
| `storage` | PostgreSQL does not answer | degraded, later inactive |

`judge` is a pure function of the signs; `Health` adds the patience.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

import msgspec

from meantime.coordination.membership import Reason
from meantime.coordination.session import SessionState
from meantime.errors import Degraded


class State(IntEnum):
    HEALTHY = 0
    DEGRADED = 1
    INACTIVE = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Limits:
    drift_ms: float = 500.0
    recovered_drift: float = 0.8
    """A node that drifted is well again below this part of the limit, so that it does not flap around it."""
    recover_for: float = 1.0
    storage_for: float = 5.0
    """Seconds without storage after which a node is inactive."""


@dataclass(frozen=True, slots=True)
class Signs:
    """All that a judgement is made of."""

    offset_ms: float = 0.0
    nodes_seen: int = 1
    nodes_known: int = 1
    session: SessionState = SessionState.CONNECTED
    storage_missing_for: float | None = None
    starting: str | None = None
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    state: State = State.HEALTHY
    reasons: tuple[Reason, ...] = ()

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(reason.code for reason in self.reasons)


STARTING = Verdict(State.DEGRADED, (Reason("starting", "the node is starting"),))


def judge(signs: Signs, limits: Limits, before: Verdict = STARTING) -> Verdict:
    findings = [
        finding
        for finding in (
            _starting_or_stopping(signs),
            _clock(signs, limits, before),
            _majority(signs),
            _session(signs),
            _storage(signs, limits),
        )
        if finding
    ]
    state = max((state for state, _ in findings), default=State.HEALTHY)
    return Verdict(state, tuple(reason for _, reason in findings))


Finding = tuple[State, Reason] | None


def _starting_or_stopping(signs: Signs) -> Finding:
    if signs.stopping:
        return State.INACTIVE, Reason("stopping", "the node is stopping")
    if signs.starting:
        return State.DEGRADED, Reason("starting", signs.starting)
    return None


def _clock(signs: Signs, limits: Limits, before: Verdict) -> Finding:
    limit = limits.drift_ms * (limits.recovered_drift if "clock_drift" in before.codes else 1)
    if abs(signs.offset_ms) <= limit:
        return None
    way = "ahead of" if signs.offset_ms > 0 else "behind"
    detail = f"the clock is {abs(signs.offset_ms):.0f} ms {way} cluster time; the limit is {limits.drift_ms:g} ms"
    return State.DEGRADED, Reason("clock_drift", detail)


def _majority(signs: Signs) -> Finding:
    if signs.nodes_seen * 2 > signs.nodes_known:
        return None
    detail = f"only {signs.nodes_seen} of {signs.nodes_known} nodes in sight, itself included"
    return State.DEGRADED, Reason("no_majority", detail)


def _session(signs: Signs) -> Finding:
    match signs.session:
        case SessionState.CONNECTED:
            return None
        case SessionState.SUSPENDED:
            return State.DEGRADED, Reason("zookeeper_suspended", "the connection to ZooKeeper is interrupted")
        case SessionState.LOST:
            return State.INACTIVE, Reason("zookeeper_lost", "there is no ZooKeeper session")


def _storage(signs: Signs, limits: Limits) -> Finding:
    if signs.storage_missing_for is None:
        return None
    state = State.INACTIVE if signs.storage_missing_for >= limits.storage_for else State.DEGRADED
    return state, Reason("storage", f"PostgreSQL has not answered for {signs.storage_missing_for:.0f} s")


class Health:
    """The judgement in force. Worse takes effect at once, better only after `recover_for` seconds of good signs; a node
    that was merely starting is believed at once."""

    def __init__(self, limits: Limits) -> None:
        self.verdict = STARTING
        self._limits = limits
        self._better_since: float | None = None
        self._listeners: list[Callable[[Verdict], None]] = []

    @property
    def state(self) -> str:
        return self.verdict.state.word

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return self.verdict.reasons

    @property
    def healthy(self) -> bool:
        return self.verdict.state is State.HEALTHY

    def require_healthy(self) -> None:
        """Raise `Degraded` with the reasons unless this node may be trusted."""
        if not self.healthy:
            why = "; ".join(reason.detail for reason in self.reasons)
            raise Degraded(f"this node is {self.state}: {why}", reasons=msgspec.to_builtins(list(self.reasons)))

    def on_change(self, listener: Callable[[Verdict], None]) -> Callable[[], None]:
        """Call `listener` whenever state or codes change; returns what stops that."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def observe(self, signs: Signs, at: float) -> None:
        """Take in the signs of the monotonic instant `at`."""
        found = judge(signs, self._limits, self.verdict)
        if found.state >= self.verdict.state or self.verdict.codes == {"starting"}:
            self._better_since = None
            self._adopt(found)
        elif self._better_since is None:
            self._better_since = at
        elif at - self._better_since >= self._limits.recover_for:
            self._better_since = None
            self._adopt(found)

    def _adopt(self, verdict: Verdict) -> None:
        before, self.verdict = self.verdict, verdict
        if (before.state, before.codes) != (verdict.state, verdict.codes):
            for listener in list(self._listeners):
                listener(verdict)
