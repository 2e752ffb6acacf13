"""How every connection to PostgreSQL is opened, and given up when it is left without an answer.

A database can vanish without a word: its host is gone, its process stands still, something on the way swallows all that is
sent. TCP tells of the first after some seconds, of the others never. So every round trip has a time limit here, in the
client; a connection that has kept somebody waiting for longer is closed and thrown away, since nobody knows what it would
answer next. Whoever reads notifications, and waits for hours, has to ask something in between.

While nothing is answered, not everybody has to find that out by waiting: `Silence` lets one statement a second try, and
refuses the others. Any answer ends it.

Where there are standbys a commit waits for one. When somebody cancels that wait, PostgreSQL says *done* and adds a mere
warning. Such a commit may be lost with its server, so here it has failed.
"""

import asyncio
import select
import time
from contextlib import suppress
from typing import Any

import psycopg
from psycopg import AsyncConnection, Connection
from psycopg.abc import RV, PQGen
from psycopg.errors import Diagnostic
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import Row

from meantime.database.addresses import Hosts, conninfo
from meantime.errors import StorageUnavailable

ANSWER_WITHIN = 5.0
"""Seconds that a round trip may take; `answer_within` of a connection changes it for what is known to take longer."""
LONG_WITHIN = 60.0
"""The same for statements that look at very many rows, and for pipelines."""
CANCEL_WITHIN = 1.0

_TRY_EVERY = 1.0
_PATIENCE = 0.5
_LOOK_EVERY = 0.1
_NEVER_LOOK = 3600.0
"""A thread looks for signals between its waits. A coroutine is told, and need not wake up for that."""
_TRUSTED_FOR = 2.0


class Silence:
    """Whether something was left unanswered, and nothing was answered since; shared by the connections of a pool."""

    def __init__(self) -> None:
        self.begun = False
        self._next_try = 0.0
        self._over = asyncio.Event()

    def begin(self) -> None:
        if not self.begun:
            self.begun = True
            self._over.clear()

    def end(self) -> None:
        self.begun = False
        self._over.set()

    async def admit(self) -> None:
        """Return when it makes sense to ask; `StorageUnavailable` while others ask in vain."""
        if not self.begun or self._is_my_turn():
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._over.wait()
        except TimeoutError:
            raise StorageUnavailable("PostgreSQL does not answer") from None

    def _is_my_turn(self) -> bool:
        now = time.monotonic()
        if now < self._next_try:
            return False
        self._next_try = now + _TRY_EVERY
        return True


class Unreplicated:
    """Looks for the warning that a commit did not wait for a standby to the end. Its words depend on the server's language,
    where it comes from does not."""

    def __init__(self) -> None:
        self._warned = False

    def notice(self, notice: Diagnostic) -> None:
        self._warned = self._warned or notice.source_function == "SyncRepWaitForLSN"

    def check(self, pgconn: PGconn) -> None:
        if self._warned:
            pgconn.finish()
            raise psycopg.OperationalError("the commit may have reached no standby: nobody knows whether it stays")


class LimitedConnection(AsyncConnection[Row]):
    """A connection whose round trips are limited in time."""

    answer_within: float = ANSWER_WITHIN
    silence: Silence | None = None
    hosts: Hosts | None = None
    _answered_at: float = 0.0

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unreplicated = Unreplicated()
        self.add_notice_handler(self._unreplicated.notice)

    @property
    def trusted(self) -> bool:
        """Whether it has answered lately, and nothing has come since: one that was closed has something to say."""
        return time.monotonic() - self._answered_at < _TRUSTED_FOR and not _has_news(self.pgconn.socket)

    async def wait(self, gen: PQGen[RV], interval: float = _NEVER_LOOK, timeout: float | None = None) -> RV:
        """Everything that is sent and waited for passes here. A caller with a limit of its own handles it itself."""
        if timeout is not None:
            return await super().wait(gen, interval, timeout)
        try:
            answer = await super().wait(gen, interval, self.answer_within)
        except psycopg.OperationalError as error:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                await self._give_up()
                raise psycopg.OperationalError(f"no answer within {self.answer_within:g} s") from error
            raise
        if self.silence is not None and self.silence.begun:
            self.silence.end()
        self._unreplicated.check(self.pgconn)
        self._answered_at = time.monotonic()
        return answer

    async def _give_up(self) -> None:
        """A server that is only slow is told to stop: what nobody waits for any more should not hold locks."""
        if self.silence is not None:
            self.silence.begin()
        if self.hosts is not None:
            self.hosts.avoid(self.info.host, str(self.info.port))
        with suppress(psycopg.Error):
            await self.cancel_safe(timeout=CANCEL_WITHIN)
        self.pgconn.finish()


def _has_news(socket: int) -> bool:
    look = select.poll()
    look.register(socket, select.POLLIN)
    return bool(look.poll(0))


class LimitedSyncConnection(Connection[Row]):
    """The same for threads and tasks of Spark."""

    answer_within: float | None = ANSWER_WITHIN

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._unreplicated = Unreplicated()
        self.add_notice_handler(self._unreplicated.notice)

    def wait(self, gen: PQGen[RV], interval: float = _LOOK_EVERY, timeout: float | None = None) -> RV:
        if timeout is not None:
            return super().wait(gen, interval, timeout)
        try:
            answer = super().wait(gen, interval, self.answer_within)
        except psycopg.OperationalError as error:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                self.pgconn.finish()
                raise psycopg.OperationalError(f"no answer within {self.answer_within:g} s") from error
            raise
        self._unreplicated.check(self.pgconn)
        return answer


def connect(
    uri: str, *, answer_within: float | None = ANSWER_WITHIN, autocommit: bool = False
) -> Connection[tuple[Any, ...]]:
    """A connection for a thread; `answer_within` None is for migrations, which take as long as they take."""
    connection = LimitedSyncConnection[tuple[Any, ...]].connect(conninfo(uri), autocommit=autocommit)
    connection.answer_within = answer_within
    return connection
