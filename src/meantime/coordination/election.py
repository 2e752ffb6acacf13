"""One leader, and standbys who take over when it goes.

Candidates queue below `<root>/elections/<name>`; the head leads. Each leadership has an epoch that is greater than
all before it: whatever the leader writes should carry it, so that a former leader who does not know yet can be refused.
A leader stops as soon as its connection is SUSPENDED, which is before ZooKeeper can let anybody else be leader, and stands
at the end of the queue again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import structlog

from meantime.coordination.session import Session, SessionState
from meantime.coordination.ticket_queue import Ticket, TicketQueue
from meantime.errors import CoordinationLost, NotFound
from meantime.tasks import end

log = structlog.get_logger(__name__)

RETRY_EVERY = 0.2


class Leadership:
    """A time of being the leader; over for good once `ended` is set."""

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.ended = asyncio.Event()

    @property
    def held(self) -> bool:
        return not self.ended.is_set()

    def require(self) -> None:
        """Raise `CoordinationLost` when it is over; to be asked before every act of a leader."""
        if self.ended.is_set():
            raise CoordinationLost("this process is not the leader any more")


class Election:
    def __init__(self, session: Session, name: str, candidate: str) -> None:
        self._session = session
        self._path = session.layout.election(name)
        self._name = name
        self._queue = TicketQueue(session, self._path, candidate.encode())

    @asynccontextmanager
    async def leadership(self) -> AsyncIterator[Leadership]:
        """Wait for as long as it takes; the block runs as leader and must stop when `ended` is set."""
        ticket = await self._win()
        leadership = Leadership(ticket.epoch)
        unsubscribe = self._session.on_change(lambda state: _end_unless_connected(leadership, state))
        _end_unless_connected(leadership, self._session.state)
        log.info("leadership_won", election=self._name, epoch=ticket.epoch)
        try:
            yield leadership
        finally:
            unsubscribe()
            leadership.ended.set()
            log.info("leadership_ended", election=self._name, epoch=ticket.epoch)
            with suppress(CoordinationLost):
                await self._session.discard(ticket.path)

    async def run(self, lead: Callable[[Leadership], Awaitable[None]]) -> None:
        """Lead whenever elected, for ever: `lead` is cancelled when the leadership ends, and called again with the next
        one. When it returns or fails, the leadership is passed on."""
        while True:
            async with self.leadership() as leadership:
                await self._lead(lead, leadership)

    async def leader(self) -> str | None:
        """Who leads now, as the candidate named itself."""
        with suppress(NotFound):
            for name in (await self._queue.waiting())[:1]:
                return (await self._session.get(f"{self._path}/{name}")).text
        return None

    async def _lead(self, lead: Callable[[Leadership], Awaitable[None]], leadership: Leadership) -> None:
        work = asyncio.ensure_future(lead(leadership))
        ended = asyncio.ensure_future(leadership.ended.wait())
        try:
            await asyncio.wait({work, ended}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            (outcome, _) = await end(work, ended)
        if isinstance(outcome, Exception):
            log.error("leader_failed", election=self._name, exc_info=outcome)
            await asyncio.sleep(RETRY_EVERY)

    async def _win(self) -> Ticket:
        while True:
            await self._session.wait_connected()
            try:
                ticket = await self._queue.enter()
                await self._wait_for_head(ticket)
            except CoordinationLost as error:
                log.info("candidate_starts_over", election=self._name, error=error.detail)
                await asyncio.sleep(RETRY_EVERY)
            else:
                return ticket

    async def _wait_for_head(self, ticket: Ticket) -> None:
        try:
            await self._queue.wait_for_head(ticket)
        except BaseException:
            with suppress(CoordinationLost):
                await self._session.discard(ticket.path)
            raise


def _end_unless_connected(leadership: Leadership, state: SessionState) -> None:
    if state is not SessionState.CONNECTED:
        leadership.ended.set()
