"""May jobs be started now? Only while the session is surely good and the application is not paused."""

import asyncio
from collections.abc import Callable

import structlog

from meantime.coordination.liveness import SessionLiveness
from meantime.coordination.session import Session
from meantime.coordination.views import follow_data
from meantime.errors import CorruptRecord
from meantime.pulse import Pulse
from meantime.workers.model import AppRecord, decode
from meantime.workers.store import AppStore

log = structlog.get_logger(__name__)


class JobGate:
    def __init__(self, liveness: SessionLiveness) -> None:
        self.paused = False
        self._liveness = liveness
        self._listeners: set[Callable[[], None]] = set()
        self._changed = Pulse()

    @property
    def open(self) -> bool:
        return not self.paused and self._liveness.proven

    async def resumed(self) -> None:
        """Wait until the application is not paused."""
        while self.paused:
            await self._changed.beyond(self._changed.count)

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call whenever it may have opened."""
        self._listeners.add(listener)

    def unsubscribe(self, listener: Callable[[], None]) -> None:
        self._listeners.discard(listener)

    async def run(self, store: AppStore) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_app(store))
            group.create_task(self._follow_liveness())
            group.create_task(self._follow_session(store.session))

    async def _follow_liveness(self) -> None:
        while True:
            await self._liveness.renewed.beyond(self._liveness.renewed.count)
            self._tell()

    async def _follow_session(self, session: Session) -> None:
        unsubscribe = session.on_change(lambda _: self._tell())
        try:
            await asyncio.Event().wait()
        finally:
            unsubscribe()

    async def _follow_app(self, store: AppStore) -> None:
        path = store.layout.root
        async for node in follow_data(store.session, path):
            try:
                paused = decode(AppRecord, path, node.data if node else b"").paused
            except CorruptRecord as error:
                log.error("application_unreadable", detail=error.detail)
                continue
            if paused != self.paused:
                log.info("application_paused" if paused else "application_resumed")
            self.paused = paused
            self._tell()

    def _tell(self) -> None:
        self._changed.beat()
        for listener in list(self._listeners):
            listener()
