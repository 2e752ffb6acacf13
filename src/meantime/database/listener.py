"""Notifications from PostgreSQL: one connection per process that listens, for all subscribers.

`LISTEN/NOTIFY` loses what is sent while the process is not connected. So a subscriber is called with `None` whenever the
connection was made anew: it may have missed something and must look for itself. `connected` tells whether notifications
would arrive. Nobody would notice that a silent connection leads nowhere any more, so something is asked now and then.

Of several hosts one that is no longer the primary may not know that yet: it still answers, but nothing is notified there
any more. What is asked is then a commit, which only a primary with a standby can answer.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import psycopg
import structlog
from psycopg import sql
from psycopg.rows import TupleRow

from meantime.database.addresses import Hosts, has_several_hosts
from meantime.database.connecting import LimitedConnection
from meantime.supervision import kept_running

Subscriber = Callable[[str | None], None]

log = structlog.get_logger(__name__)

Connection = LimitedConnection[TupleRow]

ASK_EVERY = 2.0
ANSWER_WITHIN = 3.0
"""Seconds after which a listener that gets no answer counts as disconnected."""


_QUESTION = "SELECT 1"
_COMMIT = "SELECT pg_logical_emit_message(true, 'meantime', '')"


class Listener:
    def __init__(self, uri: str, *, retry_every: float = 0.5) -> None:
        self._hosts = Hosts(uri)
        self._question = _COMMIT if has_several_hosts(uri) else _QUESTION
        self._retry_every = retry_every
        self._subscribers: dict[str, list[Subscriber]] = defaultdict(list)
        self._channels_changed = asyncio.Event()
        self.connected = False

    def subscribe(self, channel: str, subscriber: Subscriber) -> None:
        """Call `subscriber(payload)` for every notification, and `subscriber(None)` when some may have been missed."""
        self._subscribers[channel].append(subscriber)
        self._channels_changed.set()

    async def run(self) -> None:
        """Listen for ever, re-connecting as needed."""
        while True:
            try:
                await self._listen()
            except (psycopg.Error, OSError) as error:
                if self.connected:
                    log.warning("listener_disconnected", error=str(error).strip())
                self.connected = False
            await asyncio.sleep(self._retry_every)

    async def _listen(self) -> None:
        async with await Connection.connect(self._hosts.address(), autocommit=True) as connection:
            connection.answer_within, connection.hosts = ANSWER_WITHIN, self._hosts
            listening: set[str] = set()
            while True:
                self._channels_changed.clear()
                await self._listen_to_new_channels(connection, listening)
                self.connected = True
                await self._deliver_until_channels_change(connection)

    async def _listen_to_new_channels(self, connection: Connection, listening: set[str]) -> None:
        for channel in set(self._subscribers) - listening:
            await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
            listening.add(channel)
            self._deliver(channel, None)

    async def _deliver_until_channels_change(self, connection: Connection) -> None:
        asked_at = time.monotonic()
        while not self._channels_changed.is_set():
            async for notification in connection.notifies(timeout=0.5):
                self._deliver(notification.channel, notification.payload)
            if time.monotonic() - asked_at >= ASK_EVERY:
                await connection.execute(self._question)
                asked_at = time.monotonic()

    def _deliver(self, channel: str, payload: str | None) -> None:
        for subscriber in self._subscribers[channel]:
            try:
                subscriber(payload)
            except Exception:
                log.exception("subscriber_failed", channel=channel)


@asynccontextmanager
async def open_listener(uri: str) -> AsyncIterator[Listener]:
    listener = Listener(uri)
    async with kept_running(listener.run, "listener"):
        yield listener
