"""What a switch does in ZooKeeper: two steps, each all or nothing, so that a switch adds exactly 2 to the version.

    begin   timelines/locked_et/<event type>  ──► created (ephemeral)      end   ──► deleted
            timelines/version                 ──► + 1                            ──► + 1
            switches/<id>                     ──► created (persistent)           ──► deleted

The mark `switches/<id>` outlives the session of whoever began: it tells a successor that the second step is still to be
done, and is gone with that step. Hence both steps may be repeated by anyone without counting twice. A switch that fails
before `begin` adds nothing; one that fails after it is ended like any other.

Publishers wait from the first step to the second, so each is tried at once with the version that was seen last, and
only if that has moved is it read anew.
"""

import asyncio
from dataclasses import replace

from meantime.coordination.session import Session
from meantime.coordination.timelines_root import current_version, ensure_timelines
from meantime.coordination.transaction import Create, Delete, SetData, Step, transact
from meantime.coordination.zk.znodes import Znode
from meantime.errors import Conflict, NotFound, VersionMoved


class SwitchSteps:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._marks = f"{session.root}/switches"
        self._seen: Znode | None = None
        self._begun: dict[str, tuple[int | None, Znode]] = {}
        """By switch: the session that it was begun in, and the version after that."""

    async def prepare(self) -> None:
        """Make what `begin` needs, ahead of time."""
        await ensure_timelines(self._session)
        await self._session.ensure(self._marks)
        self._seen = await self._session.get(self._session.layout.version)

    async def begin(self, switch_id: str, event_type: str, holder: bytes) -> int:
        """Lock the event type and raise the version; returns the new one. `Conflict` when it is locked already. Call
        `prepare` first."""
        while True:
            version, self._seen = self._seen or await self._session.get(self._session.layout.version), None
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
            raised = replace(version, data=str(current_version(version) + 1).encode(), version=version.version + 1)
            self._begun[switch_id] = self._session.id, raised
            return int(raised.data)

    async def end(self, switch_id: str, event_type: str) -> int:
        """Remove the lock, if it is still the one of `begin`, and raise the version, unless that was done before; returns
        the version."""
        session_id, begun = self._begun.pop(switch_id, (None, None))
        if begun is not None and session_id == self._session.id and await self._end_at_once(switch_id, event_type, begun):
            return int(begun.data) + 1
        while True:
            version, mark, lock = await asyncio.gather(
                self._session.get(self._session.layout.version),
                self._read(self._mark(switch_id)),
                self._read(self._session.layout.locked_event_type(event_type)),
            )
            if mark is None:
                return current_version(version)
            steps: list[Step] = [self._raised(version), Delete(self._mark(switch_id))]
            if lock is not None and lock.data == mark.data:
                steps.insert(0, Delete(self._session.layout.locked_event_type(event_type), lock.version))
            try:
                await transact(self._session, *steps)
            except (VersionMoved, NotFound):
                continue
            return current_version(version) + 1

    async def _end_at_once(self, switch_id: str, event_type: str, begun: Znode) -> bool:
        """In the session that made the lock nobody else can hold it; if anything at all has changed, nothing is done."""
        try:
            await transact(
                self._session,
                Delete(self._session.layout.locked_event_type(event_type), 0),
                self._raised(begun),
                Delete(self._mark(switch_id)),
            )
        except (VersionMoved, NotFound):
            return False
        return True

    async def holder(self, event_type: str) -> bytes | None:
        """What the lock's owner has written into it; None without a lock."""
        lock = await self._read(self._session.layout.locked_event_type(event_type))
        return lock.data if lock else None

    async def _read(self, path: str) -> Znode | None:
        try:
            return await self._session.get(path)
        except NotFound:
            return None

    def _raised(self, version: Znode) -> SetData:
        return SetData(self._session.layout.version, str(current_version(version) + 1).encode(), version.version)

    def _mark(self, switch_id: str) -> str:
        return f"{self._marks}/{switch_id}"
