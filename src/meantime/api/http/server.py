"""The HTTP server of a node: it listens, hands connections to their protocol, and stops without losing what is in flight."""

import asyncio
import os
import socket
import stat
from contextlib import AsyncExitStack
from pathlib import Path

import structlog

from meantime.api.http.connection import Application, Connections
from meantime.api.http.http1 import Http1Connection
from meantime.api.http.limits import HttpLimits
from meantime.api.http.tls import LOOK_EVERY, TlsContext, TlsFiles
from meantime.errors import Invalid
from meantime.supervision import Duty, on_duty
from meantime.tasks import end

log = structlog.get_logger(__name__)

BACKLOG = 2048


class HttpServer:
    """`start`, then `stop`. Works on the running event loop and starts no thread."""

    def __init__(self, application: Application, limits: HttpLimits, tls: TlsFiles | None = None) -> None:
        self._application = application
        self._limits = limits
        self._tls = TlsContext(tls) if tls else None
        self._servers: list[asyncio.Server] = []
        self._duties = AsyncExitStack()
        self._unix_path: Path | None = None
        self._shared: Connections

    async def start(self, listening: socket.socket, unix_path: str = "") -> None:
        loop = asyncio.get_running_loop()
        shared = self._shared = Connections(self._application, self._limits, loop)
        context = self._tls.context if self._tls else None
        handshake = self._limits.header_timeout if context else None
        self._servers.append(
            await loop.create_server(
                lambda: Http1Connection(shared),
                sock=listening,
                ssl=context,
                ssl_handshake_timeout=handshake,
                backlog=BACKLOG,
            )
        )
        if unix_path:
            listening = _bind_unix(Path(unix_path))
            self._unix_path = Path(unix_path)
            self._servers.append(
                await loop.create_unix_server(lambda: Http1Connection(shared), sock=listening, backlog=BACKLOG)
            )
        if self._tls:
            looking = Duty("look at TLS files", self.look_at_tls, every=LOOK_EVERY)
            await self._duties.enter_async_context(on_duty([looking]))

    async def stop(self) -> None:
        """No new connections. What is in flight has its time to finish; then it is cut."""
        shared = self._shared
        shared.stopping = True
        for server in self._servers:
            server.close()
        for connection in list(shared.open):
            connection.stop()
        if not await self._emptied(self._limits.stop_timeout):
            log.warning("connections_cut", count=len(shared.open))
            for connection in list(shared.open):
                connection.abort()
        if shared.answering:
            await asyncio.wait(shared.answering.values(), timeout=1.0)
        await end(*shared.answering.values())
        await self._duties.aclose()
        if self._unix_path:
            self._unix_path.unlink(missing_ok=True)

    async def look_at_tls(self) -> None:
        """Use the certificate that is in the files now."""
        if self._tls:
            self._tls.refresh()

    @property
    def connections(self) -> int:
        return len(self._shared.open)

    async def _emptied(self, within: float) -> bool:
        empty = asyncio.Event()
        self._shared.on_empty = empty.set
        if not self._shared.open:
            return True
        try:
            async with asyncio.timeout(within):
                await empty.wait()
        except TimeoutError:
            return False
        return True


def _bind_unix(path: Path) -> socket.socket:
    """Only this user may connect. A socket that a killed node has left is replaced; anything else is not ours."""
    if path.exists():
        if not stat.S_ISSOCK(path.stat().st_mode):
            raise Invalid(f"cannot listen on {path}: there is a file of that name")
        path.unlink()
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listening.bind(str(path))
    except OSError as error:
        listening.close()
        raise Invalid(f"cannot listen on {path}: {error.strerror}") from error
    finally:
        os.umask(before)
    return listening
