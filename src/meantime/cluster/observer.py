"""Cluster time for a process that is no node: the median of the nodes' clocks, without a vote of its own.

Without a reachable node the last known difference stands; before the first, the machine's own clock is right.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress

from meantime.cluster.clock import ClusterClock, LocalClock, estimate_cluster_time, steady_us
from meantime.cluster.peers import PeerOptions, Peers, open_peers
from meantime.coordination.membership import Members, open_members
from meantime.coordination.session import Session
from meantime.supervision import kept_running

FIRST_LOOK = 2.0


@asynccontextmanager
async def open_observed_clock(
    session: Session, local: LocalClock, options: PeerOptions | None = None
) -> AsyncIterator[ClusterClock]:
    """Waits a moment for the first comparison, not longer."""
    options = options or PeerOptions()
    async with AsyncExitStack() as stack:
        open = stack.enter_async_context
        members = await open(open_members(session))
        peers = await open(open_peers(options))
        observer = Observer(members, peers, ClusterClock(local.now_us() - steady_us()))
        await open(kept_running(observer.run, "cluster time"))
        with suppress(TimeoutError):
            async with asyncio.timeout(FIRST_LOOK):
                await observer.compared.wait()
        yield observer.clock


class Observer:
    def __init__(self, members: Members, peers: Peers, clock: ClusterClock) -> None:
        self.clock = clock
        self.compared = asyncio.Event()
        self._members = members
        self._peers = peers

    async def run(self) -> None:
        with ExitStack() as listening:
            listening.callback(self._members.on_change(self._follow))
            await self._members.known.wait()
            self._follow()
            while True:
                seen = self._peers.answers.count
                self.look()
                await self._peers.answers.beyond(seen)

    def look(self) -> None:
        samples = list(self._peers.best_samples().values())
        if samples:
            self.clock.adjust(estimate_cluster_time(samples[0].offset_us, samples[1:]).cluster_us)
        if samples or not self._members.current:
            self.compared.set()

    def _follow(self) -> None:
        self._peers.follow({id: member.url for id, member in self._members.current.items()})
        self._peers.answers.beat()
