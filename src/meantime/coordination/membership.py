"""Who is there: `<root>/members/<node>`, an ephemeral JSON record per node.

`current` is what ZooKeeper said last; it stands while there is no connection. `join` says what the own record should be; it
is then written, re-written after a change and made again in a new session. The record of a killed predecessor of the same
name is waited for, see `ephemeral`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager

import msgspec
import structlog

from meantime.coordination.ephemeral import claim_ephemeral
from meantime.coordination.session import Session
from meantime.coordination.views import RETRY_EVERY, ChildrenView, open_children_view
from meantime.errors import UNREADABLE, CoordinationLost, MeantimeError
from meantime.pulse import Pulse
from meantime.supervision import kept_running

log = structlog.get_logger(__name__)


class Reason(msgspec.Struct, frozen=True):
    """Why something is not as it should be: a stable code and a sentence."""

    code: str
    detail: str


class Member(msgspec.Struct, frozen=True):
    """What a node says of itself. Unknown fields of newer releases are ignored."""

    id: str
    url: str
    release: str
    started_at_ms: int
    state: str = "degraded"
    reasons: tuple[Reason, ...] = ()
    clock_offset_ms: float = 0.0


@asynccontextmanager
async def open_members(session: Session) -> AsyncIterator["Members"]:
    async with open_children_view(session, session.layout.members) as view:
        members = Members(session, view)
        async with kept_running(members.run, "membership"):
            yield members
        await members.leave()


class Members:
    def __init__(self, session: Session, view: ChildrenView) -> None:
        self.joined = asyncio.Event()
        """Set while the own record is in ZooKeeper."""
        self._session = session
        self._view = view
        self._wanted: Member | None = None
        self._written: tuple[int | None, bytes] | None = None
        self._pulse = Pulse()
        self.current: Mapping[str, Member] = {}
        """By id."""
        view.on_change(self._decode_all)
        self._decode_all()

    def _decode_all(self) -> None:
        decoded = (_decode(name, data) for name, data in self._view.current.items())
        self.current = {member.id: member for member in decoded if member}

    @property
    def known(self) -> asyncio.Event:
        """Set once the members were read for the first time."""
        return self._view.known

    def on_change(self, listener: Callable[[], None]) -> Callable[[], None]:
        return self._view.on_change(listener)

    def join(self, member: Member) -> None:
        """State the own record, or another one under the same id; `joined` tells when ZooKeeper has it."""
        self._wanted = member
        self._pulse.beat()

    async def leave(self) -> None:
        """Go at once instead of when the session ends."""
        if self._wanted is None:
            return
        path, self._wanted = self._session.layout.member(self._wanted.id), None
        try:
            await self._session.discard(path)
        except CoordinationLost:
            log.info("member_left_without_connection", path=path)

    async def run(self) -> None:
        stop_listening = self._session.on_change(self._pulse.beat)
        try:
            await self._keep_writing()
        finally:
            stop_listening()

    async def _keep_writing(self) -> None:
        while True:
            seen = self._pulse.count
            await self._session.wait_connected()
            try:
                if self._wanted:
                    await self._write(self._wanted)
            except MeantimeError as error:
                log.warning("member_record_not_written", error=error.detail)
                await asyncio.sleep(RETRY_EVERY)
            else:
                await self._pulse.beyond(seen)

    async def _write(self, member: Member) -> None:
        data = msgspec.json.encode(member)
        if self._written == (self._session.id, data):
            return
        path = self._session.layout.member(member.id)
        node = await claim_ephemeral(self._session, path, data, self._pulse.beat)
        if node is None:
            self.joined.clear()
            log.warning("name_held_by_another_session", path=path)
            return
        await self._session.set(path, data)
        self._written = (self._session.id, data)
        self.joined.set()


def _decode(name: str, data: bytes) -> Member | None:
    try:
        return msgspec.json.decode(data, type=Member)
    except UNREADABLE as error:
        log.warning("member_record_not_understood", node=name, error=str(error))
        return None
