"""For how long ZooKeeper surely still has this session.

The server counts the session's timeout from the last request that it heard. So an answer proves that the session is good
for the timeout from the moment its request was *sent*. A process that was frozen finds its tenure over when it thaws,
before it can touch a message that belongs to somebody else by now, and starts nothing until ZooKeeper has answered again.
"""

import asyncio
import time
from collections.abc import Callable

from meantime.coordination.session import Session
from meantime.errors import CoordinationLost, MeantimeError
from meantime.pulse import Pulse

SHARE = 2 / 3
"""How much of the timeout is relied on; the rest is for what lies between looking and doing."""
BEATS = 5
"""Renewals in the time that is relied on."""


class Tenure:
    def __init__(self, session: Session, timeout: float, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.renewed = Pulse()
        self._session = session
        self._good_for = timeout * SHARE
        self._until = 0.0
        self._monotonic = monotonic

    @property
    def holds(self) -> bool:
        return self._session.connected and self._monotonic() < self._until

    def now(self) -> float:
        return self._monotonic()

    def renew(self, sent_at: float) -> None:
        """A request that was sent then has been answered."""
        was_over = self._monotonic() >= self._until
        self._until = max(self._until, sent_at + self._good_for)
        if was_over:
            self.renewed.beat()

    async def run(self, path: str) -> None:
        """Keep renewing by looking at a node of this session; raises `CoordinationLost` when it is not there any more."""
        while True:
            await self._session.wait_connected()
            sent_at = self._monotonic()
            try:
                node = await self._session.exists(path)
            except MeantimeError:
                await asyncio.sleep(self._good_for / BEATS)
                continue
            if node is None or node.owner != self._session.id:
                raise CoordinationLost(f"{path} is not this session's any more")
            self.renew(sent_at)
            await asyncio.sleep(self._good_for / BEATS)
