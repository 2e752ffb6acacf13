"""What a switch does in ZooKeeper: two steps, each all or nothing, so that a switch adds exactly 2 to the version.

    begin   timelines/locked_et/<event type>  ──► created (ephemeral)      end   ──► deleted
            timelines/version                 ──► + 1                            ──► + 1
            switches/<id>                     ──► created (persistent)           ──► deleted

The mark `switches/<id>` outlives the session of whoever began: it tells a successor that the second step is still to be
done, and is gone with that step. Hence both steps may be repeated by anyone without counting twice. A switch that fails
before `begin` adds nothing; one that fails after it is ended like any other.
"""

import asyncio

from meantime.coordination.session import Session
from meantime.coordination.structure import ensure_structure
from meantime.coordination.transaction import Create, Delete, Set, Step, transact
from meantime.coordination.znodes import Znode
from meantime.errors import Conflict, NotFound, VersionMoved


class SwitchSteps:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._marks = f"{session.root}/switches"

    async def prepare(self) -> None:
        """Make what `begin` needs, ahead of time."""
        await ensure_structure(self._session)
        await self._session.ensure(self._marks)

    async def begin(self, switch_id: str, event_type: str, holder: bytes) -> int:
        """Lock the event type and raise the version; returns the new one. `Conflict` when it is locked already. Call
        `prepare` first."""
        while True:
            version = await self._session.get(self._session.layout.version)
            try:
                await transact(
                    self._session,
                    Create(self._session.layout.locked_event_type(event_type), holder, ephemeral=True),
                    self._raised(version),
                    Create(self._mark(switch_id), holder),
                )
            except VersionMoved:
                continue
            except Conflict as error:
                raise Conflict(f"event type {event_type!r} is locked: a switch is running") from error
            return int(version.data) + 1

    async def end(self, switch_id: str, event_type: str) -> int:
        """Remove the lock, if it is still the one of `begin`, and raise the version, unless that was done before; returns
        the version."""
        while True:
            version, mark, lock = await asyncio.gather(
                self._session.get(self._session.layout.version),
                self._read(self._mark(switch_id)),
                self._read(self._session.layout.locked_event_type(event_type)),
            )
            if mark is None:
                return int(version.data)
            steps: list[Step] = [self._raised(version), Delete(self._mark(switch_id))]
            if lock is not None and lock.data == mark.data:
                steps.insert(0, Delete(self._session.layout.locked_event_type(event_type), lock.version))
            try:
                await transact(self._session, *steps)
            except (VersionMoved, NotFound):
                continue
            return int(version.data) + 1

    async def holder(self, event_type: str) -> bytes | None:
        """What the lock's owner has written into it; None without a lock."""
        lock = await self._read(self._session.layout.locked_event_type(event_type))
        return lock.data if lock else None

    async def _read(self, path: str) -> Znode | None:
        try:
            return await self._session.get(path)
        except NotFound:
            return None

    def _raised(self, version: Znode) -> Set:
        return Set(self._session.layout.version, str(int(version.data) + 1).encode(), version.version)

    def _mark(self, switch_id: str) -> str:
        return f"{self._marks}/{switch_id}"
