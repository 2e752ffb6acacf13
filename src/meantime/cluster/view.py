"""What a node knows of its cluster, and what the cluster knows of it.

    members (ZooKeeper) ──► peers (HTTP, twice a second) ──► estimate ──► cluster clock
                                    │                           │
                                    └── who is reachable ───────┴──► health ──► own member record, gates of this node

The signs are judged anew after every answer and every beat of the view's own; what changed is written to the member record,
so that any node can tell how all are.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass, field

import msgspec
import structlog

from meantime.cluster import meters
from meantime.cluster.clock import ClusterClock, LocalClock, estimate_cluster_time, steady_us
from meantime.cluster.drift import NOTE_EVERY, DriftHistory
from meantime.cluster.health import (
    STORAGE_ASKED_EVERY,
    Health,
    HealthLimits,
    HealthSigns,
    HealthVerdict,
    StorageWatch,
)
from meantime.cluster.peers import PeerOptions, Peers, open_peers
from meantime.cluster.service_clocks import LOOK_EVERY, ReadClock, ServiceClocks, zookeeper_clock
from meantime.coordination.membership import Member, Members, Reason, open_members
from meantime.coordination.session import Session
from meantime.coordination.timelines_root import version_of
from meantime.coordination.views import ChildrenView
from meantime.database.pool import DatabaseState
from meantime.errors import CoordinationLost
from meantime.supervision import Duty, failing_tasks, kept_running, on_duty

log = structlog.get_logger(__name__)

UNREACHABLE = Reason("unreachable", "it does not answer the node that was asked")
NOTABLE_OFFSET_MS = 5.0


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    limits: HealthLimits = field(default_factory=HealthLimits)
    peers: PeerOptions = field(default_factory=PeerOptions)
    seen_within: float = 2.0
    """Seconds since its last answer for which a node counts as reachable."""
    judge_every: float = 0.25
    record_every: float = 5.0
    """Seconds between writes of the own record when only the clock has moved."""


class NodeReport(msgspec.Struct, frozen=True):
    """One line of `GET /nodes`. `clock_offset_ms`: how far its clock is ahead of cluster time."""

    id: str
    url: str
    state: str
    reasons: tuple[Reason, ...]
    clock_offset_ms: float | None
    timelines_version: int | None
    release: str


class PeerReport(msgspec.Struct, frozen=True):
    """`offset_ms`: how far the peer's clock is ahead of this node's."""

    id: str
    offset_ms: float
    rtt_ms: float


class ClockReport(msgspec.Struct, frozen=True):
    """`now_ms` is cluster time, `offset_ms` how far this node's clock is ahead of it, `error_ms` how wrong that may be;
    `received_us` and `sent_us` are this node's own clock, for peers that measure it, and `source_error_us` how wrong that
    may be by itself, which only a time source like NTP can tell."""

    now_ms: int
    offset_ms: float
    error_ms: float
    peers: tuple[PeerReport, ...]
    received_us: int
    sent_us: int
    source_error_us: float = 0.0


class Readiness(msgspec.Struct, frozen=True):
    state: str
    reasons: tuple[Reason, ...]


class ClusterView:
    """`clock` is cluster time; `health` says whether this node may be trusted; the rest are reports."""

    def __init__(
        self,
        me: Member,
        session: Session,
        local: LocalClock,
        options: ClusterOptions,
        *,
        members: Members,
        peers: Peers,
        storage: StorageWatch,
        services: ServiceClocks,
    ) -> None:
        self.estimate = estimate_cluster_time(local.now_us() - steady_us(), (), local.error_us)
        self.clock = ClusterClock(self.estimate.cluster_us, step_us=int(options.limits.drift_ms * 1000))
        self.health = Health(options.limits)
        self.members = members
        self._me = self._recorded = me
        self._recorded_at = 0.0
        self._session = session
        self._local = local
        self._options = options
        self._peers = peers
        self._storage = storage
        self._services = services
        self._acknowledgements = ChildrenView(session, session.layout.acknowledgements)
        self._started = self._stopping = False
        self.drift = DriftHistory()
        self.health.on_change(self._announce)

    async def note_drift(self) -> None:
        self.drift.note(self.clock.now_ms(), self.offsets())

    async def run(self) -> None:
        with ExitStack() as listening:
            listening.callback(self.members.on_change(self._follow_members))
            listening.callback(self._session.on_change(self._peers.answers.beat))
            self.members.join(self._me)
            self._follow_members()
            while True:
                seen = self._peers.answers.count
                self.judge()
                await self._peers.answers.beyond(seen, self._options.judge_every)

    def stop(self) -> None:
        """This node is going away: say so before the work in flight is finished."""
        self._stopping = True
        self.judge()

    def judge(self) -> None:
        samples = self._peers.best_samples()
        own_us = self._local.now_us() - steady_us()
        self.estimate = estimate_cluster_time(own_us, samples.values(), self._local.error_us)
        self.clock.adjust(self.estimate.cluster_us)
        signs = self._signs()
        self.health.observe(signs, time.monotonic())
        meters.observe(self.estimate, samples, signs, self.health.verdict)
        self._record()

    # Reports

    def readiness(self) -> Readiness:
        """The judgement in force, and the background tasks that keep failing, which leave the state as it is."""
        failing = tuple(Reason("background_task", f"{task} keeps failing: {task.error}") for task in failing_tasks())
        return Readiness(self.health.state, (*self.health.reasons, *failing))

    def clock_report(self, received_us: int | None = None) -> ClockReport:
        """`received_us` is this node's own clock when the request came, if it was noted."""
        sent_us = self._local.now_us()
        return ClockReport(
            now_ms=self.clock.now_ms(),
            offset_ms=self.estimate.offset_ms,
            error_ms=self.estimate.error_ms,
            peers=tuple(
                PeerReport(id, (sample.offset_us - self.estimate.own_us) / 1000, sample.round_trip_us / 1000)
                for id, sample in sorted(self._peers.best_samples().items())
            ),
            received_us=received_us or sent_us,
            sent_us=sent_us,
            source_error_us=self._local.error_us,
        )

    def offsets(self) -> dict[str, float]:
        """How far the clock of each node that answers is ahead of cluster time, in milliseconds, as it was just measured."""
        reachable, cluster_us = self._peers.reachable(self._options.seen_within), self.estimate.cluster_us
        samples = {id: sample for id, sample in self._peers.best_samples().items() if id in reachable}
        peers = {id: round((sample.offset_us - cluster_us) / 1000, 3) for id, sample in samples.items()}
        return peers | {self._me.id: round(self.estimate.offset_ms, 3)}

    async def nodes(self) -> list[NodeReport]:
        """All known nodes, this one included; one that this one does not reach is inactive."""
        versions = await self._versions()
        known = dict(self.members.current) | {self._me.id: self._present()}
        reachable = self._peers.reachable(self._options.seen_within) | {self._me.id}
        return [_report(member, versions.get(id), id in reachable) for id, member in sorted(known.items())]

    async def _versions(self) -> dict[str, int]:
        try:
            await self._acknowledgements.refresh()
        except CoordinationLost:
            log.debug("versions_not_refreshed")
        return {id: version_of(data) for id, data in self._acknowledgements.current.items()}

    # Judging

    def _signs(self) -> HealthSigns:
        known = {*self.members.current, self._me.id}
        seen = known & (self._peers.reachable(self._options.seen_within) | {self._me.id})
        return HealthSigns(
            offset_ms=self.estimate.offset_ms,
            contradiction=self._services.contradiction(self.estimate.cluster_us),
            nodes_seen=len(seen),
            nodes_known=len(known),
            session=self._session.state,
            storage_missing_for=self._storage.missing_for,
            storage_read_only=self._storage.read_only,
            starting=self._starting(),
            stopping=self._stopping,
        )

    def _starting(self) -> str | None:
        if not self._started:
            if not self.members.joined.is_set():
                return "the node has not joined yet"
            if not (self.members.known.is_set() and self._peers.all_asked and self._services.known):
                return "the clock is being compared"
            self._started = True
        return None

    def _follow_members(self) -> None:
        others = {id: member.url for id, member in self.members.current.items() if id != self._me.id}
        self._peers.follow(others, newcomers_seen=self._started)
        self._peers.answers.beat()

    # The own record

    def _present(self) -> Member:
        readiness = self.readiness()
        return msgspec.structs.replace(
            self._me,
            state=readiness.state,
            reasons=readiness.reasons,
            clock_offset_ms=round(self.estimate.offset_ms, 3),
        )

    def _record(self) -> None:
        present, recorded = self._present(), self._recorded
        moved = abs(present.clock_offset_ms - recorded.clock_offset_ms) >= NOTABLE_OFFSET_MS
        due = time.monotonic() - self._recorded_at >= self._options.record_every
        if _condition(present) != _condition(recorded) or (moved and due):
            self._recorded, self._recorded_at = present, time.monotonic()
            self.members.join(present)

    def _announce(self, verdict: HealthVerdict) -> None:
        log.info("health_changed", state=verdict.state.word, reasons=[reason.detail for reason in verdict.reasons])


def _condition(member: Member) -> tuple[str, list[str]]:
    return member.state, [reason.code for reason in member.reasons]


def _report(member: Member, version: int | None, reachable: bool) -> NodeReport:
    return NodeReport(
        id=member.id,
        url=member.url,
        state=member.state if reachable else "inactive",
        reasons=member.reasons if reachable else (UNREACHABLE,),
        clock_offset_ms=member.clock_offset_ms if reachable else None,
        timelines_version=version,
        release=member.release,
    )


@asynccontextmanager
async def open_cluster(
    me: Member,
    session: Session,
    clock: LocalClock,
    ask_database: Callable[[], Awaitable[DatabaseState]],
    options: ClusterOptions | None = None,
    *,
    services: Mapping[str, ReadClock] | None = None,
) -> AsyncIterator[ClusterView]:
    """Join as `me`. Does not wait for anything: `health` says `starting` until the node has joined and has compared its
    clock with every node that it knows, and with one of the `services` at the least. At the end the node leaves at once;
    call `stop` on the view before that, when the node begins to stop."""
    options = options or ClusterOptions()
    async with AsyncExitStack() as stack:
        open = stack.enter_async_context
        members = await open(open_members(session))
        peers = await open(open_peers(options.peers))
        storage = StorageWatch(ask_database)
        clocks = ServiceClocks(services or {"ZooKeeper": zookeeper_clock(session)})
        view = ClusterView(me, session, clock, options, members=members, peers=peers, storage=storage, services=clocks)
        await open(on_duty([Duty("storage watch", storage.run_once, STORAGE_ASKED_EVERY)]))
        await open(on_duty([Duty("service clocks", clocks.run_once, LOOK_EVERY)]))
        await open(on_duty([Duty("drift history", view.note_drift, NOTE_EVERY)]))
        await open(kept_running(view.run, "cluster view"))
        yield view
