"""The version barrier: all nodes react to a change, and whoever made the change knows when they have.

    bump ──► timelines/version ──► every node looks: the version, then the locked event types
                                   reacts locally ──► writes the version to timelines/nodes/<node>
    wait_for ◄── watches ◄──────── every registered node has written it

What makes it safe
- A node reads the version before the locks, so what it acknowledges includes every lock made before that version.
- A node registers before its first reaction, with the last version that it has reacted to (0: none). Hence a bump either
  counts the node and waits for it, or came before the registration and is seen by the look that follows it: there is no
  moment at which a node has reacted, opens its gates, and is not counted.
- Reactions run one after another, always to the newest state; one that fails is tried again and not acknowledged.
- After a lost session the node registers again, reacts to the present state, whatever it was before, and acknowledges it.
- Locks count without a bump too: a lock made or removed by any client of the protocol is reacted to at once.
- A node that vanishes stops counting. If the waiting process itself lost its session, its locks are gone and others may
  just be registering again: it gets `CoordinationLost` and no false success.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from meantime.coordination.participant import Participant, React
from meantime.coordination.session import Session
from meantime.coordination.structure import ensure_structure, version_of
from meantime.coordination.views import RETRY_EVERY, Directory
from meantime.coordination.zk.znodes import Znode
from meantime.errors import BarrierTimeout, Conflict, CoordinationLost, NotFound, VersionMoved
from meantime.tasks import running


@asynccontextmanager
async def open_barrier(session: Session, node_id: str, react: React) -> AsyncIterator["VersionBarrier"]:
    """Take part as `node_id`. Does not wait for ZooKeeper: until the first call of `react` nothing is known about locks,
    and `registered` is set after the first acknowledgement."""
    barrier = VersionBarrier(session, node_id, react)
    async with running(barrier.run(), name="barrier"):
        yield barrier
    await barrier.leave()


class VersionBarrier:
    def __init__(self, session: Session, node_id: str, react: React) -> None:
        self.node_id = node_id
        self._session = session
        self._participant = Participant(session, node_id, react)
        self._acknowledgements = Directory(session, session.layout.acknowledgements)

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

    async def bump(self) -> int:
        """Add one to the version; returns the new one. Waits a session's timeout for a connection.

        When the connection breaks in between and the session survives, a version that has moved is taken for the bump:
        whoever moved it, nodes that acknowledge it have seen all that was written before this call.
        """
        path, session_id = self._session.layout.version, self._session.id
        before = self._participant.version_node or await self._first_version()
        while True:
            await self._same_session(session_id)
            version = int(before.data) + 1
            try:
                await self._session.set(path, str(version).encode(), before.version)
            except VersionMoved:
                before = await self._session.get(path)
            except CoordinationLost:
                await self._same_session(session_id)
                now = await self._session.get(path)
                if now.version != before.version:
                    return int(now.data)
            else:
                return version

    async def wait_for(self, version: int, timeout: float) -> float:
        """Wait until every registered node has reacted to `version`; returns the seconds that took.

        Raises `BarrierTimeout` naming who is missing, or `CoordinationLost` when this process lost its session.
        """
        started, session_id = time.monotonic(), self._session.id
        missing: list[str] = []
        try:
            async with asyncio.timeout(timeout):
                while True:
                    seen = self._acknowledgements.changes.count
                    missing = await self._missing(version, session_id)
                    if not missing:
                        return time.monotonic() - started
                    await self._acknowledgements.changes.beyond(seen)
        except TimeoutError as error:
            if not self._session.connected:
                raise CoordinationLost("the ZooKeeper connection broke while waiting for acknowledgements") from error
            raise BarrierTimeout(version, missing, timeout) from error

    async def acknowledgements(self) -> dict[str, int]:
        """The version that each registered node has reacted to."""
        await self._acknowledgements.refresh()
        return {name: version_of(data) for name, data in self._acknowledgements.current.items()}

    async def _missing(self, version: int, session_id: int | None) -> list[str]:
        while True:
            await self._session.wait_connected()
            try:
                reached = await self.acknowledgements()
            except CoordinationLost:
                await asyncio.sleep(RETRY_EVERY)
                continue
            if self._session.id != session_id:
                raise CoordinationLost("the ZooKeeper session was lost while waiting for acknowledgements")
            return sorted(name for name, number in reached.items() if number < version)

    async def _first_version(self) -> Znode:
        await ensure_structure(self._session)
        return await self._session.get(self._session.layout.version)

    async def _same_session(self, session_id: int | None) -> None:
        """Wait for a connection, and make sure that nothing was lost with a session in between."""
        try:
            async with asyncio.timeout(self._session.timeout):
                await self._session.wait_connected()
        except TimeoutError as error:
            raise CoordinationLost("there was no ZooKeeper connection for a bump") from error
        if self._session.id != session_id:
            raise CoordinationLost("the ZooKeeper session was lost in the middle of a bump")

    # Locks

    async def lock(self, event_type: str, holder: bytes) -> None:
        """Lock an event type for as long as this session lives. `holder` tells others who and why, and must be unique
        to this attempt; `Conflict` when it is locked already, with the `holder` as an extra."""
        path = self._session.layout.locked_event_type(event_type)
        await ensure_structure(self._session)
        await self._session.settle(path)
        while True:
            try:
                await self._session.create(path, holder, ephemeral=True)
            except Conflict:
                if not await self._held(event_type, holder):
                    continue
            except CoordinationLost:
                await self._session.discard(path, holder)
                raise
            return

    async def unlock(self, event_type: str, holder: bytes) -> None:
        """Remove the lock that was made with `holder`; nothing happens when it is gone. Without a connection it is removed
        as soon as there is one, and `CoordinationLost` is raised."""
        await self._session.discard(self._session.layout.locked_event_type(event_type), holder)

    async def confirm(self, event_type: str, holder: bytes) -> None:
        """Make sure that the lock is still held; `CoordinationLost` when it went with a lost session."""
        try:
            held = await self._held(event_type, holder)
        except Conflict:
            held = False
        if not held:
            raise CoordinationLost(f"the lock on event type {event_type!r} is gone")

    async def _held(self, event_type: str, holder: bytes) -> bool:
        """True when the lock is this very one, False when it has just gone."""
        try:
            node = await self._session.get(self._session.layout.locked_event_type(event_type))
        except NotFound:
            return False
        if node.owner == self._session.id and node.data == holder:
            return True
        raise Conflict(f"event type {event_type!r} is locked by {node.text or 'somebody'}", holder=node.text)
