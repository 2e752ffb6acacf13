"""Whether initiators of switches count this node, right now and beyond doubt.

The node asks ZooKeeper every second whether its registration is still there. An answer proves that the session was alive
when the question was sent, and so until a session's timeout after that. A process that was frozen, or cut off, knows
by its own monotonic clock that its last proof is too old, before any library has told it.
"""

import asyncio
import time

from meantime.coordination.session import Session
from meantime.errors import MeantimeError

_ASK_EVERY = 1.0


class Standing:
    def __init__(self, session: Session, node_id: str) -> None:
        self._session = session
        self._path = session.layout.acknowledgement(node_id)
        self._good_for = session.timeout * 2 / 3
        self._proved_at = -float("inf")

    @property
    def counted(self) -> bool:
        return time.monotonic() - self._proved_at < self._good_for

    async def run(self) -> None:
        while True:
            await self.prove()
            await asyncio.sleep(_ASK_EVERY)

    async def prove(self) -> None:
        asked_at = time.monotonic()
        try:
            registration = await self._session.exists(self._path)
        except MeantimeError:
            return
        if registration is not None and registration.owner == self._session.id:
            self._proved_at = asked_at
