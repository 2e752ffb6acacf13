"""For how long ZooKeeper surely still has this session: the one proof of liveness, for nodes that publish and for workers.

The server counts the session's timeout from the last request that it got. So an answer proves that the session is alive
for the timeout from the moment its request was *sent*. A process that was frozen or cut off sees by its own monotonic clock
that its last proof is too old, before any library has told it: a worker then starts no job, and a node no longer relies on
being waited for by switches, until ZooKeeper has answered again.
"""

import asyncio
import time
from collections.abc import Callable

from meantime.coordination.session import Session
from meantime.errors import CoordinationLost, MeantimeError
from meantime.pulse import Pulse

SHARE = 2 / 3
"""How much of the timeout is relied on; the rest is for what lies between looking and doing."""
PROOFS = 5
"""Proofs in the time that is relied on."""


class SessionLiveness:
    def __init__(self, session: Session, timeout: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.renewed = Pulse()
        """Beats when the session is proven again after it was not."""
        self._session = session
        self._good_for = timeout * SHARE
        self._until = -float("inf")
        self._monotonic = monotonic

    @property
    def proven(self) -> bool:
        return self._session.connected and self._monotonic() < self._until

    @property
    def proof(self) -> tuple[int | None, int] | None:
        """The same as before if the session has been proven without a gap since; None while it is not proven."""
        return (self._session.id, self.renewed.count) if self.proven else None

    def now(self) -> float:
        return self._monotonic()

    def renew(self, sent_at: float) -> None:
        """A request that was sent then has been answered."""
        was_over = self._monotonic() >= self._until
        self._until = max(self._until, sent_at + self._good_for)
        if was_over:
            self.renewed.beat()

    async def run(self, path: str, *, may_be_missing: bool = False) -> None:
        """Keep proving by looking at an ephemeral node of this session. When it is not there (any more), that is no proof:
        `CoordinationLost` is raised, or with `may_be_missing` it is looked for again."""
        while True:
            await self._session.wait_connected()
            await self._prove(path, may_be_missing)
            await asyncio.sleep(self._good_for / PROOFS)

    async def _prove(self, path: str, may_be_missing: bool) -> None:
        sent_at = self._monotonic()
        try:
            node = await self._session.exists(path)
        except MeantimeError:
            return
        if node is not None and node.owner == self._session.id:
            self.renew(sent_at)
        elif not may_be_missing:
            raise CoordinationLost(f"{path} is not this session's any more")
