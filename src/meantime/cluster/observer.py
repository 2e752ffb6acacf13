"""Cluster time for a process that is no node: the median of the nodes' clocks, without a vote of its own.

Its own clock counts for nothing. Until most of the nodes have told theirs, and the services' clocks do not contradict, there
is no cluster time, and the process waits; it says so. Later, while no node is reachable or their clocks cannot be right, the
last known difference stands.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager

import structlog

from meantime.cluster.clock import ClusterClock, estimate_cluster_time
from meantime.cluster.peers import PeerOptions, Peers, open_peers
from meantime.cluster.service_clocks import LOOK_EVERY, ReadClock, ServiceClocks
from meantime.coordination.membership import Members, open_members
from meantime.coordination.session import Session
from meantime.supervision import Duty, kept_running, on_duty

log = structlog.get_logger(__name__)

SAY_EVERY = 10.0


@asynccontextmanager
async def open_observed_clock(
    session: Session, services: Mapping[str, ReadClock], options: PeerOptions | None = None
) -> AsyncIterator[ClusterClock]:
    """Waits until there is cluster time, however long that takes."""
    options = options or PeerOptions()
    async with AsyncExitStack() as stack:
        open = stack.enter_async_context
        members = await open(open_members(session))
        peers = await open(open_peers(options))
        clocks = ServiceClocks(services)
        await open(on_duty([Duty("service clocks", clocks.run_once, LOOK_EVERY)]))
        observer = Observer(members, peers, clocks)
        await open(kept_running(observer.run, "cluster time"))
        yield await observer.first()


class Observer:
    def __init__(self, members: Members, peers: Peers, services: ServiceClocks) -> None:
        self.clock: ClusterClock | None = None
        self._compared = asyncio.Event()
        self._missing = ""
        self._members = members
        self._peers = peers
        self._services = services

    async def first(self) -> ClusterClock:
        """Wait for cluster time, and say every now and then what it is that is waited for."""
        while self.clock is None:
            try:
                async with asyncio.timeout(SAY_EVERY):
                    await self._compared.wait()
            except TimeoutError:
                log.warning("waiting_for_cluster_time", missing=self._missing or "the members of the cluster")
        return self.clock

    async def run(self) -> None:
        with ExitStack() as listening:
            listening.callback(self._members.on_change(self._follow))
            await self._members.known.wait()
            self._follow()
            while True:
                seen = self._peers.answers.count
                self.look()
                await self._peers.answers.beyond(seen, LOOK_EVERY)

    def look(self) -> None:
        samples = list(self._peers.best_samples().values())
        if not samples:
            self._miss("no node tells its clock")
            return
        estimate = estimate_cluster_time(samples[0].offset_us, samples[1:])
        if contradiction := self._services.contradiction(estimate.cluster_us):
            self._miss(contradiction)
        elif self.clock is not None:
            self._missing = ""
            self.clock.adjust(estimate.cluster_us)
        elif not self._services.known:
            self._miss("no service tells its clock")
        elif len(samples) * 2 <= len(self._members.current):
            self._miss(f"only {len(samples)} of {len(self._members.current)} nodes tell their clocks")
        else:
            self.clock = ClusterClock(estimate.cluster_us)
            self._compared.set()

    def _miss(self, what: str) -> None:
        if what and not self._missing:
            log.warning("cluster_time_uncertain", reason=what)
        self._missing = what

    def _follow(self) -> None:
        self._peers.follow({id: member.url for id, member in self._members.current.items()})
        self._peers.answers.beat()
