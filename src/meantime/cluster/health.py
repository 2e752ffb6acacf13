"""Whether this node may be trusted, and why not.

    healthy ──► degraded ──► inactive        at once, on the first sign
    healthy ◄── degraded ◄── inactive        after the signs have been good for a while

degraded: the node answers, but does nothing that could be wrong: no leases, no pushes, no relative instants, no purging.
inactive: the node is of no use: others have taken over what it held.

| code | what is wrong | state |
| --- | --- | --- |
| `starting` | the node has not joined, or has not compared its clock yet | degraded |
| `stopping` | the node is going away | inactive |
| `clock_drift` | its clock is far from cluster time, or that from the clocks of the services | degraded |
| `no_majority` | it does not reach a majority of the known nodes | degraded |
| `zookeeper_suspended` | the connection to ZooKeeper is interrupted | degraded |
| `zookeeper_lost` | there is no ZooKeeper session | inactive |
| `storage` | PostgreSQL does not answer | degraded, later inactive |
| `storage_read_only` | PostgreSQL takes no writes | degraded |

`judge` is a pure function of the signs; `Health` adds the patience.

A background task that keeps failing is one more reason, with the code `background_task`, for `/ready` and for the peers. It
changes no state: what such a task is needed for does not go on anyway, and all the rest may. If it did, a failure that all
nodes share, as they share their database, would take all of them away at once.
"""

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

import msgspec
import structlog

from meantime.coordination.membership import Reason
from meantime.coordination.session import SessionState
from meantime.database.pool import DatabaseState
from meantime.errors import Degraded

log = structlog.get_logger(__name__)

STORAGE_ASKED_EVERY = 1.0
STORAGE_ANSWERS_WITHIN = 2.0


class NodeState(IntEnum):
    HEALTHY = 0
    DEGRADED = 1
    INACTIVE = 2

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class HealthLimits:
    drift_ms: float = 500.0
    recovered_drift: float = 0.8
    """A node that drifted is well again below this part of the limit, so that it does not flap around it."""
    recover_for: float = 1.0
    storage_for: float = 5.0
    """Seconds without storage after which a node is inactive."""


@dataclass(frozen=True, slots=True)
class HealthSigns:
    """All that a judgement is made of."""

    offset_ms: float = 0.0
    contradiction: str | None = None
    """Why cluster time cannot be right, if it cannot."""
    nodes_seen: int = 1
    nodes_known: int = 1
    session: SessionState = SessionState.CONNECTED
    storage_missing_for: float | None = None
    storage_read_only: bool = False
    starting: str | None = None
    stopping: bool = False


@dataclass(frozen=True, slots=True)
class HealthVerdict:
    state: NodeState = NodeState.HEALTHY
    reasons: tuple[Reason, ...] = ()

    @property
    def codes(self) -> frozenset[str]:
        return frozenset(reason.code for reason in self.reasons)


READ_ONLY = Reason("storage_read_only", "PostgreSQL is read-only: it takes no messages and no declarations")
STARTING = HealthVerdict(NodeState.DEGRADED, (Reason("starting", "the node is starting"),))


def judge(signs: HealthSigns, limits: HealthLimits, before: HealthVerdict = STARTING) -> HealthVerdict:
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
    state = max((state for state, _ in findings), default=NodeState.HEALTHY)
    return HealthVerdict(state, tuple(reason for _, reason in findings))


Finding = tuple[NodeState, Reason] | None


def _starting_or_stopping(signs: HealthSigns) -> Finding:
    if signs.stopping:
        return NodeState.INACTIVE, Reason("stopping", "the node is stopping")
    if signs.starting:
        return NodeState.DEGRADED, Reason("starting", signs.starting)
    return None


def _clock(signs: HealthSigns, limits: HealthLimits, before: HealthVerdict) -> Finding:
    if signs.contradiction is not None:
        return NodeState.DEGRADED, Reason("clock_drift", signs.contradiction)
    limit = limits.drift_ms * (limits.recovered_drift if "clock_drift" in before.codes else 1)
    if abs(signs.offset_ms) <= limit:
        return None
    way = "ahead of" if signs.offset_ms > 0 else "behind"
    detail = f"the clock is {abs(signs.offset_ms):.0f} ms {way} cluster time; the limit is {limits.drift_ms:g} ms"
    return NodeState.DEGRADED, Reason("clock_drift", detail)


def _majority(signs: HealthSigns) -> Finding:
    if signs.nodes_seen * 2 > signs.nodes_known:
        return None
    detail = f"only {signs.nodes_seen} of {signs.nodes_known} nodes reachable, itself included"
    return NodeState.DEGRADED, Reason("no_majority", detail)


def _session(signs: HealthSigns) -> Finding:
    match signs.session:
        case SessionState.CONNECTED:
            return None
        case SessionState.SUSPENDED:
            return NodeState.DEGRADED, Reason("zookeeper_suspended", "the connection to ZooKeeper is interrupted")
        case SessionState.LOST:
            return NodeState.INACTIVE, Reason("zookeeper_lost", "there is no ZooKeeper session")


def _storage(signs: HealthSigns, limits: HealthLimits) -> Finding:
    if signs.storage_missing_for is None:
        return (NodeState.DEGRADED, READ_ONLY) if signs.storage_read_only else None
    state = NodeState.INACTIVE if signs.storage_missing_for >= limits.storage_for else NodeState.DEGRADED
    return state, Reason("storage", f"PostgreSQL has not answered for {signs.storage_missing_for:.0f} s")


class Health:
    """The judgement in force. Worse takes effect at once, better only after `recover_for` seconds of good signs; a node
    that was merely starting is believed at once."""

    def __init__(self, limits: HealthLimits) -> None:
        self.verdict = STARTING
        self._limits = limits
        self._better_since: float | None = None
        self._listeners: list[Callable[[HealthVerdict], None]] = []

    @property
    def state(self) -> str:
        return self.verdict.state.word

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return self.verdict.reasons

    @property
    def healthy(self) -> bool:
        return self.verdict.state is NodeState.HEALTHY

    def require_healthy(self) -> None:
        """Raise `Degraded` with the reasons unless this node may be trusted."""
        if not self.healthy:
            why = "; ".join(reason.detail for reason in self.reasons)
            raise Degraded(f"this node is {self.state}: {why}", reasons=msgspec.to_builtins(list(self.reasons)))

    def on_change(self, listener: Callable[[HealthVerdict], None]) -> Callable[[], None]:
        """Call `listener` whenever state or codes change; returns what stops that."""
        self._listeners.append(listener)
        return partial(self._listeners.remove, listener)

    def observe(self, signs: HealthSigns, at: float) -> None:
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

    def _adopt(self, verdict: HealthVerdict) -> None:
        before, self.verdict = self.verdict, verdict
        if (before.state, before.codes) != (verdict.state, verdict.codes):
            for listener in list(self._listeners):
                listener(verdict)


class StorageWatch:
    """Whether the database answers, and takes writes. A question that has been open for a while counts as not answered; it
    is left to end by itself, since calling it off would take longer than its own time limit."""

    def __init__(self, ask: Callable[[], Awaitable[DatabaseState]]) -> None:
        self._ask = ask
        self._asked_at: float | None = None
        self._missing_since: float | None = None
        self.read_only = False

    @property
    def missing_for(self) -> float | None:
        """Seconds without an answer; None while it answers."""
        now, asked_at = time.monotonic(), self._asked_at
        if self._missing_since is not None:
            return now - self._missing_since
        return None if asked_at is None or now - asked_at < STORAGE_ANSWERS_WITHIN else now - asked_at

    async def run_once(self) -> None:
        self._asked_at = asked_at = time.monotonic()
        try:
            state = await self._ask()
        except Exception as error:
            log.debug("database_silent", error=repr(error))
            state = DatabaseState.SILENT
        finally:
            self._asked_at = None
        self.read_only = state is DatabaseState.READ_ONLY
        if state is not DatabaseState.SILENT:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = asked_at
