"""The version barrier: all nodes react to a change, and whoever made the change knows when they have.

    SwitchSteps.begin / end ──► timelines/version + 1 ──► every node looks: the version, then the locked event types
                                                          reacts locally ──► writes the version to timelines/nodes/<node>
    wait_for ◄── watches ◄─────────────────────────────── every registered node has written it

What makes it safe
- A node reads the version before the locks, so what it acknowledges includes every lock made before that version.
- A node registers before its first reaction, with the last version that it has reacted to (0: none). Hence whoever raises
  the version either counts the node and waits for it, or came before the registration and is seen by the look that follows
  it: there is no moment at which a node has reacted, opens its gates, and is not counted.
- Reactions run one after another, always to the newest state; one that fails is tried again and not acknowledged.
- After a lost session the node registers again, reacts to the present state, whatever it was before, and acknowledges it.
- Locks count without a new version too: a lock made or removed by any client of the protocol is reacted to at once.
- A node that vanishes stops counting. If the waiting process itself lost its session, its locks are gone and others may
  just be registering again: it gets `CoordinationLost` and no false success.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager

from meantime.coordination.barrier_participant import Participant, React
from meantime.coordination.session import Session
from meantime.coordination.timelines_root import version_of
from meantime.coordination.views import RETRY_EVERY, ChildrenView
from meantime.errors import BarrierTimeout, CoordinationLost
from meantime.supervision import kept_running


@asynccontextmanager
async def open_barrier(
    session: Session, node_id: str, react: React, *, counted: bool = True
) -> AsyncIterator["VersionBarrier"]:
    """Take part as `node_id`. Does not wait for ZooKeeper: until the first call of `react` nothing is known about locks,
    and `registered` is set after the first acknowledgement. Whoever is not `counted` reacts, but is never registered."""
    barrier = VersionBarrier(session, node_id, react, counted=counted)
    async with kept_running(barrier.run, "barrier"):
        yield barrier
    await barrier.leave()


class VersionBarrier:
    def __init__(self, session: Session, node_id: str, react: React, *, counted: bool = True) -> None:
        self.node_id = node_id
        self._session = session
        self._participant = Participant(session, node_id, react, counted=counted)
        self._acknowledgements = ChildrenView(session, session.layout.acknowledgements)

    async def run(self) -> None:
        await self._participant.run()

    async def leave(self) -> None:
        await self._participant.leave()

    # This node

    @property
    def version(self) -> int:
        """The version that this node has reacted to."""
        return self._participant.situation.version

    @property
    def locked(self) -> frozenset[str]:
        """The locked event types that this node has reacted to."""
        return self._participant.situation.locked

    @property
    def registered(self) -> bool:
        """Whether initiators count this node."""
        return self._participant.registered.is_set()

    async def wait_registered(self) -> None:
        await self._participant.registered.wait()

    async def wait_here(self, version: int, timeout: float) -> None:
        """Wait until this node itself has reacted to `version`; raises as `wait_for` does."""
        session_id = self._session.id
        try:
            async with asyncio.timeout(timeout):
                while self.version < version:
                    await self._participant.reactions.beyond(self._participant.reactions.count)
        except TimeoutError as error:
            raise BarrierTimeout(version, [self.node_id], timeout) from error
        if self._session.id != session_id:
            raise CoordinationLost("the ZooKeeper session was lost while waiting for the own reaction")

    # All nodes

    async def wait_for(self, version: int, timeout: float) -> None:
        """Wait until every registered node has reacted to `version`.

        Raises `BarrierTimeout` naming who is missing, or `CoordinationLost` when this process lost its session.
        """
        await self.missing_after(version, math.inf, timeout)

    async def missing_after(
        self,
        version: int,
        patience: float,
        timeout: float,
        without: Collection[str] = (),
        seen: Callable[[Mapping[str, int]], None] = lambda _: None,
    ) -> list[str]:
        """The same, but only for `patience` seconds: returns who has not reacted by then, as ZooKeeper shows it after that.
        Those in `without` are not waited for. While ZooKeeper does not answer it raises as `wait_for` does. `seen` is told
        the versions that nodes have reacted to, whenever that is looked at."""
        give_up_at, session_id = time.monotonic() + patience, self._session.id
        missing: list[str] = []
        try:
            async with asyncio.timeout(timeout):
                while True:
                    changes, asked_at = self._acknowledgements.changes.count, time.monotonic()
                    reached = await self._reached(session_id)
                    seen(reached)
                    missing = sorted(name for name, at in reached.items() if at < version and name not in without)
                    if not missing or asked_at >= give_up_at:
                        return missing
                    left = give_up_at - time.monotonic()
                    await self._acknowledgements.changes.beyond(changes, None if math.isinf(left) else max(left, 0))
        except TimeoutError as error:
            if not self._session.connected:
                raise CoordinationLost("the ZooKeeper connection broke while waiting for acknowledgements") from error
            raise BarrierTimeout(version, missing, timeout) from error

    async def acknowledgements(self) -> dict[str, int]:
        """The version that each registered node has reacted to."""
        await self._acknowledgements.refresh()
        return {name: version_of(data) for name, data in self._acknowledgements.current.items()}

    async def _reached(self, session_id: int | None) -> dict[str, int]:
        while True:
            await self._session.wait_connected()
            try:
                reached = await self.acknowledgements()
            except CoordinationLost:
                await asyncio.sleep(RETRY_EVERY)
                continue
            if self._session.id != session_id:
                raise CoordinationLost("the ZooKeeper session was lost while waiting for acknowledgements")
            return reached
