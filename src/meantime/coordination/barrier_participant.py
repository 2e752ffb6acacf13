"""A process's part in the version barrier: look, react, acknowledge; see `barrier` for why it is done in this order.

A node is counted: it registers, and initiators wait for its acknowledgement. A process that is not counted looks and reacts
in the same way, but leaves nothing in ZooKeeper, and nobody waits for it.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from meantime.coordination.ephemeral import claim_ephemeral
from meantime.coordination.session import Session, SessionState
from meantime.coordination.timelines_root import current_version, ensure_timelines
from meantime.coordination.zk.znodes import Znode
from meantime.errors import CoordinationLost, MeantimeError
from meantime.pulse import Pulse

log = structlog.get_logger(__name__)

React = Callable[[int, frozenset[str]], Awaitable[None]]

LOOK_EVERY = 5.0
RETRY_FIRST = 0.05
RETRY_MOST = 2.0


@dataclass(frozen=True, slots=True)
class BarrierState:
    """What a node reacts to."""

    version: int = 0
    locked: frozenset[str] = frozenset()


class ReactionFailed(Exception):
    """The local reaction raised; it is not acknowledged."""


class Participant:
    def __init__(self, session: Session, node_id: str, react: React, *, counted: bool = True) -> None:
        self.registered = asyncio.Event()
        """Set from the first acknowledgement in a session until that session is lost."""
        self.situation = BarrierState()
        """What this node has reacted to last."""
        self.reactions = Pulse()
        """Beats after each reaction."""
        self._session = session
        self._path = session.layout.acknowledgement(node_id)
        self._react = react
        self._counted = counted
        self._pulse = Pulse()
        self._joined: int | None = None
        self._caught_up = False
        self._acknowledged: int | None = None

    def _session_changed(self, state: SessionState) -> None:
        if state is SessionState.LOST:
            self.registered.clear()
        self._pulse.beat()

    async def run(self) -> None:
        stop_listening = self._session.on_change(self._session_changed)
        try:
            await self._keep_looking()
        finally:
            stop_listening()

    async def _keep_looking(self) -> None:
        delay = RETRY_FIRST
        while True:
            seen = self._pulse.count
            await self._session.wait_connected()
            if await self._turn_went_well(delay):
                delay = RETRY_FIRST
                # Watches wake this loop; the regular look repairs what an outsider may do to the own node.
                await self._pulse.beyond(seen, LOOK_EVERY)
            else:
                await self._pulse.beyond(seen, delay)
                delay = min(delay * 2, RETRY_MOST)

    async def leave(self) -> None:
        self.registered.clear()
        if not self._counted:
            return
        try:
            await self._session.discard(self._path)
        except CoordinationLost:
            log.info("barrier_left_without_connection", path=self._path)

    async def _turn_went_well(self, delay: float) -> bool:
        try:
            await self._turn()
        except ReactionFailed as failure:
            log.warning("reaction_failed", error=str(failure), retry_in=delay, exc_info=failure.__cause__)
        except Exception as error:
            log.warning("barrier_restarted", error=str(error), exc_info=not isinstance(error, MeantimeError))
            self._joined = None
        else:
            return True
        return False

    async def _turn(self) -> None:
        if self._joined != self._session.id and not await self._join():
            return
        situation, own = await self._look()
        if self._counted and (own is None or own.owner != self._session.id):
            raise CoordinationLost(f"the registration {self._path} is gone")
        if situation != self.situation or not self._caught_up:
            await self._react_to(situation)
        if own is not None and self._counted:
            await self._acknowledge(situation.version, own)

    async def _acknowledge(self, version: int, own: Znode) -> None:
        if version != self._acknowledged:
            await self._session.set(self._path, str(version).encode(), own.version)
            self._acknowledged = version
        self.registered.set()

    async def _join(self) -> bool:
        await ensure_timelines(self._session)
        data = str(self.situation.version).encode()
        if self._counted and await claim_ephemeral(self._session, self._path, data, self._pulse.beat) is None:
            log.warning("name_held_by_another_session", path=self._path)
            return False
        self._joined, self._caught_up, self._acknowledged = self._session.id, False, None
        return True

    async def _look(self) -> tuple[BarrierState, Znode | None]:
        """ZooKeeper answers a session's requests in their order: the locks are as new as the version, or newer."""
        layout = self._session.layout
        version = self._session.get(layout.version, self._pulse.beat)
        locked = self._session.children(layout.locked_event_types, self._pulse.beat)
        own = self._session.exists(self._path)
        return BarrierState(current_version(await version), frozenset(await locked)), await own

    async def _react_to(self, situation: BarrierState) -> None:
        try:
            await self._react(situation.version, situation.locked)
        except Exception as error:
            raise ReactionFailed(f"the reaction to version {situation.version} failed") from error
        self.situation, self._caught_up = situation, True
        self.reactions.beat()
