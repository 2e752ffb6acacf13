"""What a node knows of its cluster, and what the cluster knows of it.

    members (ZooKeeper) ──► peers (HTTP, twice a second) ──► reckoning ──► cluster clock
                                    │                           │
                                    └── who is in sight ────────┴──► health ──► own member record, gates of this node

The signs are judged anew after every answer and every beat of the view's own; what changed is written to the member record,
so that any node can tell how all are.
"""

import time
from contextlib import ExitStack

import msgspec
import structlog

from meantime.cluster import meters
from meantime.cluster.clock import ClusterClock, LocalClock, reckon, steady_us
from meantime.cluster.health import Health, Signs, Verdict
from meantime.cluster.options import ClusterOptions
from meantime.cluster.peers import Peers
from meantime.cluster.reports import ClockReport, NodeReport, PeerReport, Readiness
from meantime.cluster.storage import StorageWatch
from meantime.coordination.membership import Member, Members, Reason
from meantime.coordination.session import Session
from meantime.coordination.structure import version_of
from meantime.coordination.views import Directory
from meantime.errors import CoordinationLost

log = structlog.get_logger(__name__)

UNREACHABLE = Reason("unreachable", "it does not answer the node that was asked")
NOTABLE_OFFSET_MS = 5.0


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
    ) -> None:
        self.reckoning = reckon(local.now_us() - steady_us(), ())
        self.clock = ClusterClock(self.reckoning.cluster_us, step_us=int(options.limits.drift_ms * 1000))
        self.health = Health(options.limits)
        self.members = members
        self._me = self._recorded = me
        self._recorded_at = 0.0
        self._session = session
        self._local = local
        self._options = options
        self._peers = peers
        self._storage = storage
        self._acknowledgements = Directory(session, session.layout.acknowledgements)
        self._started = self._stopping = False
        self.health.on_change(self._announce)

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
        self.reckoning = reckon(self._local.now_us() - steady_us(), samples.values())
        self.clock.adjust(self.reckoning.cluster_us)
        signs = self._signs()
        self.health.observe(signs, time.monotonic())
        meters.observe(self.reckoning, samples, signs, self.health.verdict)
        self._record()

    # Reports

    def readiness(self) -> Readiness:
        return Readiness(self.health.state, self.health.reasons)

    def clock_report(self, received_us: int | None = None) -> ClockReport:
        """`received_us` is this node's own clock when the request came, if somebody has noted it."""
        sent_us = self._local.now_us()
        return ClockReport(
            now_ms=self.clock.now_ms(),
            offset_ms=self.reckoning.offset_ms,
            error_ms=self.reckoning.error_ms,
            peers=tuple(
                PeerReport(id, (sample.offset_us - self.reckoning.own_us) / 1000, sample.round_trip_us / 1000)
                for id, sample in sorted(self._peers.best_samples().items())
            ),
            received_us=received_us or sent_us,
            sent_us=sent_us,
        )

    async def nodes(self) -> list[NodeReport]:
        """All known nodes, this one included; who is not in sight of this one is inactive."""
        versions = await self._versions()
        known = dict(self.members.current) | {self._me.id: self._present()}
        in_sight = self._peers.in_sight(self._options.seen_within) | {self._me.id}
        return [_report(member, versions.get(id), id in in_sight) for id, member in sorted(known.items())]

    async def _versions(self) -> dict[str, int]:
        try:
            await self._acknowledgements.refresh()
        except CoordinationLost:
            log.debug("no ZooKeeper connection; versions are the last known")
        return {id: version_of(data) for id, data in self._acknowledgements.current.items()}

    # Judging

    def _signs(self) -> Signs:
        known = {*self.members.current, self._me.id}
        seen = known & (self._peers.in_sight(self._options.seen_within) | {self._me.id})
        return Signs(
            offset_ms=self.reckoning.offset_ms,
            nodes_seen=len(seen),
            nodes_known=len(known),
            session=self._session.state,
            storage_missing_for=self._storage.missing_for,
            starting=self._starting(),
            stopping=self._stopping,
        )

    def _starting(self) -> str | None:
        if not self._started:
            if not self.members.joined.is_set():
                return "the node has not joined yet"
            if not (self.members.known.is_set() and self._peers.all_asked):
                return "the clock is being compared"
            self._started = True
        return None

    def _follow_members(self) -> None:
        others = {id: member.url for id, member in self.members.current.items() if id != self._me.id}
        self._peers.follow(others, newcomers_seen=self._started)
        self._peers.answers.beat()

    # The own record

    def _present(self) -> Member:
        return msgspec.structs.replace(
            self._me,
            state=self.health.state,
            reasons=self.health.reasons,
            clock_offset_ms=round(self.reckoning.offset_ms, 3),
        )

    def _record(self) -> None:
        present, recorded = self._present(), self._recorded
        moved = abs(present.clock_offset_ms - recorded.clock_offset_ms) >= NOTABLE_OFFSET_MS
        due = time.monotonic() - self._recorded_at >= self._options.record_every
        if _condition(present) != _condition(recorded) or (moved and due):
            self._recorded, self._recorded_at = present, time.monotonic()
            self.members.join(present)

    def _announce(self, verdict: Verdict) -> None:
        log.info("this node is " + verdict.state.word, reasons=[reason.detail for reason in verdict.reasons])


def _condition(member: Member) -> tuple[str, list[str]]:
    return member.state, [reason.code for reason in member.reasons]


def _report(member: Member, version: int | None, in_sight: bool) -> NodeReport:
    return NodeReport(
        id=member.id,
        url=member.url,
        state=member.state if in_sight else "inactive",
        reasons=member.reasons if in_sight else (UNREACHABLE,),
        clock_offset_ms=member.clock_offset_ms if in_sight else None,
        timelines_version=version,
        release=member.release,
    )
