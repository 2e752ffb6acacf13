"""A queue of ephemeral sequential tickets below a node: the lowest number is at the head. Locks and elections use it.

Each ticket watches only the one before it, so that a departure wakes one waiter. Numbers are compared by the last ten
digits, which other clients of ZooKeeper use too, so that queues may be shared with them. A ticket that could not be given
back for want of a connection is given back before the next one is taken.
"""

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from meantime.coordination.session import Session
from meantime.errors import CoordinationLost
from meantime.pulse import Pulse


@dataclass(frozen=True, slots=True)
class Ticket:
    """`epoch` grows with every ticket ever taken in ZooKeeper: a later head of the queue has a greater one."""

    path: str
    epoch: int

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]


def number(name: str) -> int:
    """-1 for what is no ticket; nobody waits for that."""
    digits = name[-10:]
    return int(digits) if digits.isdigit() else -1


class TicketQueue:
    def __init__(self, session: Session, path: str, data: bytes = b"") -> None:
        self._session = session
        self._path = path
        self._data = data
        self._mark = uuid.uuid4().hex

    async def enter(self) -> Ticket:
        """Take a ticket, after giving back what is left of earlier ones."""
        await self._session.ensure(self._path)
        await self.leave()
        try:
            path = await self._session.create(f"{self._path}/{self._mark}-", self._data, ephemeral=True, sequence=True)
            return Ticket(path, (await self._session.get(path)).created_zxid)
        except asyncio.CancelledError:
            with suppress(CoordinationLost):
                await self.leave()
            raise

    async def wait_for_head(self, ticket: Ticket) -> None:
        pulse = Pulse()
        while True:
            seen = pulse.count
            before = await self._before(ticket)
            if before is None:
                return
            if await self._session.exists(f"{self._path}/{before}", pulse.beat):
                await pulse.beyond(seen)

    async def leave(self) -> None:
        for name in await self._session.children(self._path):
            if name.startswith(self._mark):
                await self._session.discard(f"{self._path}/{name}")

    async def waiting(self) -> list[str]:
        """Everybody's tickets, the head first."""
        return sorted((name for name in await self._session.children(self._path) if number(name) >= 0), key=number)

    async def _before(self, ticket: Ticket) -> str | None:
        names = await self.waiting()
        if ticket.name not in names:
            raise CoordinationLost(f"the ticket in {self._path} is gone with its session")
        place = names.index(ticket.name)
        return names[place - 1] if place else None


@asynccontextmanager
async def holding(session: Session, path: str) -> AsyncIterator[Ticket]:
    """A lock: the block runs at the head of the queue."""
    queue = TicketQueue(session, path)
    ticket = await queue.enter()
    try:
        await queue.wait_for_head(ticket)
        yield ticket
    finally:
        await session.discard(ticket.path)
