"""Whether the database answers."""

import asyncio
import time
from collections.abc import Awaitable, Callable

import structlog

log = structlog.get_logger(__name__)

ASK_EVERY = 1.0
ANSWER_WITHIN = 2.0


class StorageWatch:
    def __init__(self, database_ok: Callable[[], Awaitable[bool]]) -> None:
        self._database_ok = database_ok
        self._missing_since: float | None = None

    @property
    def missing_for(self) -> float | None:
        """Seconds without an answer; None while it answers."""
        return None if self._missing_since is None else time.monotonic() - self._missing_since

    async def run(self) -> None:
        while True:
            self._note(await self._answers())
            await asyncio.sleep(ASK_EVERY)

    async def _answers(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                return await self._database_ok()
        except Exception as error:
            log.debug("the database was asked in vain", why=repr(error))
            return False

    def _note(self, answers: bool) -> None:
        if answers:
            self._missing_since = None
        elif self._missing_since is None:
            self._missing_since = time.monotonic()
