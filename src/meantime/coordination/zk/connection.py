"""Kazoo's connection, on the event loop.

Kazoo keeps its connection in a thread. In a process whose loop is busy that thread gets the interpreter only now and then,
several times for each message, and a barrier takes several times as long as it should (docs/adr/0004). Here the same
client, with kazoo's protocol, watches and states, reads and writes its socket on the loop: no thread, no hop. The session
lives by pings of this loop, so a process that is stuck loses it, as it should.

    connect ──► serve ──► (dropped) ──► connect …       requests in flight fail, watches fire, state SUSPENDED
                  └─────► (expired) ──► connect anew    state LOST
"""

import asyncio
import random
from typing import Any

import structlog
from kazoo.exceptions import AuthFailedError, SessionExpiredError
from kazoo.protocol.connection import AUTH_XID, PING_XID, WATCH_XID, ConnectionHandler
from kazoo.protocol.serialization import Auth, CloseInstance, Connect, PingInstance, ReplyHeader
from kazoo.protocol.states import KeeperState

from meantime.coordination.zk.frames import Wire
from meantime.supervision import supervised
from meantime.tasks import end, start

log = structlog.get_logger(__name__)

PAUSE_FIRST = 0.05
PAUSE_MOST = 0.4
"""Connecting again must be quicker than the session's end."""
LAST_CHANCE = 0.05
GOODBYE_WITHIN = 2.0


class Dropped(Exception):
    """The connection is no good any more."""


class Doorbell:
    """What kazoo believes to be a socket that wakes its thread."""

    def __init__(self, connection: "LoopConnection") -> None:
        self._connection = connection

    def send(self, _: bytes) -> None:
        self._connection.flush()


class LoopConnection(ConnectionHandler):  # type: ignore[misc]
    def __init__(self, client: Any) -> None:
        super().__init__(client, retry_sleeper=None)
        self._write_sock = Doorbell(self)
        self._wire: Wire | None = None
        self._task: asyncio.Task[None] | None = None
        self._number = 0
        self._heard_at = self._sent_at = 0.0

    def start(self) -> None:
        self.client._stopped.clear()
        self._task = start(supervised(self._run, "ZooKeeper connection"), name="ZooKeeper connection")

    async def goodbye(self) -> None:
        """End the session, so that what it owns goes at once."""
        self.client._stopped.set()
        if self._wire:
            self.client._queue.append((CloseInstance, None))
            self.flush()
            await asyncio.wait({self._wire.lost}, timeout=GOODBYE_WITHIN)
        if self._task:
            await end(self._task)
        self.client._session_callback(KeeperState.CLOSED)

    def drop(self) -> None:
        """Cut the connection; it is made again."""
        if self._wire:
            self._wire.abort()

    def flush(self) -> None:
        """Send what kazoo has queued; before the session is established it stays in the queue."""
        while self._wire and self.client._queue:
            request, result = self.client._queue.popleft()
            self._number = self._number % 0x7FFFFFFF + 1
            self.client._pending.append((request, result, self._number))
            self._send(self._wire, request, self._number)

    async def _run(self) -> None:
        pause = PAUSE_FIRST
        while True:
            for host, port in random.sample(self.client.hosts, len(self.client.hosts)):
                if await self._was_good(host, port):
                    pause = PAUSE_FIRST
            await asyncio.sleep(pause * random.uniform(0.7, 1.3))
            pause = min(pause * 2, PAUSE_MOST)

    async def _was_good(self, host: str, port: int) -> bool:
        """Connect and serve until the connection ends; whether there was a session at all."""
        if self.client._state != KeeperState.CONNECTING:
            self.client._session_callback(KeeperState.CONNECTING)
        try:
            await self._serve(host, port)
        except SessionExpiredError:
            log.warning("zookeeper_session_expired")
            self.client._session_callback(KeeperState.EXPIRED_SESSION)
            return True
        except (OSError, TimeoutError, Dropped) as error:
            log.debug("zookeeper_not_connected", host=host, port=port, error=str(error) or type(error).__name__)
        except Exception:
            log.exception("zookeeper_connection_failed", host=host, port=port)
        good = bool(self.client._state == KeeperState.CONNECTED)
        if good:
            if not self.client._stopped.is_set():
                log.warning("zookeeper_connection_dropped", host=host, port=port)
            self.client._session_callback(KeeperState.CONNECTING)
        return good

    async def _serve(self, host: str, port: int) -> None:
        wire: Wire | None = None
        try:
            async with asyncio.timeout(self._patience):
                _, wire = await asyncio.get_running_loop().create_connection(Wire, host, port)
                timeout = await self._establish(wire)
            await self._stay(wire, timeout)
        finally:
            self._wire = None
            if wire is not None:
                wire.abort()

    @property
    def _patience(self) -> float:
        timeout_ms: int = self.client._session_timeout
        return max(1.0, timeout_ms / 1000 / len(self.client.hosts))

    async def _establish(self, wire: Wire) -> float:
        """Ask for the session, the former one if there was one; returns its timeout in seconds."""
        wire.send(_request_for_session(self.client))
        granted, _ = Connect.deserialize(await wire.greeting, 0)
        wire.receive = self._received
        if granted.time_out <= 0:
            raise SessionExpiredError
        self.client._session_id, self.client._session_passwd = granted.session_id, granted.passwd
        for scheme, credential in self.client.auth_data:
            wire.send(Auth(0, scheme, credential), AUTH_XID)
        self._wire = wire
        self._heard_at = self._sent_at = asyncio.get_running_loop().time()
        self.client._session_callback(KeeperState.CONNECTED)
        self.flush()
        return float(granted.time_out / 1000)

    async def _stay(self, wire: Wire, timeout: float) -> None:
        """A ping goes out after a third of the timeout without a request, and must be answered within another third."""
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.wait({wire.lost}, timeout=timeout / 12)
            if wire.lost.done():
                raise Dropped("closed by the server")
            if loop.time() - self._sent_at >= timeout / 3:
                self._send(wire, PingInstance, PING_XID)
            if loop.time() - self._heard_at >= timeout * 2 / 3:
                await self._check_silence(wire)

    async def _check_silence(self, wire: Wire) -> None:
        """After this process was held up, what the server has said may be waiting to be read."""
        before = self._heard_at
        await asyncio.wait({wire.lost}, timeout=LAST_CHANCE)
        if self._heard_at == before:
            raise Dropped("the server is silent")

    def _send(self, wire: Wire, request: Any, number: int) -> None:
        self._sent_at = asyncio.get_running_loop().time()
        wire.send(request, number)

    def _received(self, frame: bytes) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        header, offset = ReplyHeader.deserialize(frame, 0)
        try:
            if header.xid == WATCH_XID:
                self._read_watch_event(frame, offset)
            elif header.xid == AUTH_XID:
                _check_credentials(header)
            elif header.xid != PING_XID:
                self._read_response(header, frame, offset)
        except Exception:
            log.exception("zookeeper_answer_not_understood")
            self.drop()


def _request_for_session(client: Any) -> Any:
    return Connect(
        0, client.last_zxid, client._session_timeout, client._session_id or 0, client._session_passwd, client.read_only
    )


def _check_credentials(header: Any) -> None:
    if header.err:
        raise AuthFailedError
