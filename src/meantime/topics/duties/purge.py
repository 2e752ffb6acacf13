"""Duty: removes, in batches, what nobody can see any more: remembered ids whose time is over, messages of deleted topics,
registrations of consumers that are long gone. A topic's name is free again when nothing of it is left."""

import structlog

from meantime.clock import Clock
from meantime.database.queries import load
from meantime.database.statements import Statements
from meantime.topics.health import Health
from meantime.topics.storage.directory import Condemned, Directory, Register

BATCH = 5_000
MOST_BATCHES = 40
SETTLED_AFTER_MS = 1_000
"""A statement that began before the topic was deleted has ended by then."""
LONG_GONE_MS = 60_000

log = structlog.get_logger(__name__)


class Purge:
    def __init__(
        self, statements: Statements, directory: Directory, register: Register, clock: Clock, health: Health
    ) -> None:
        self._statements = statements
        self._directory = directory
        self._register = register
        self._clock = clock
        self._health = health
        self._sql = load("meantime.topics.duties", "upkeep.sql")

    async def run_once(self) -> int:
        """How many messages were removed. A node that cannot trust its clock removes nothing."""
        if not self._health.healthy:
            return 0
        removed = await self._in_batches("forget", {"now_ms": self._clock.now_ms()})
        for topic in await self._directory.condemned():
            removed += await self._clear(topic)
        await self._register.forget_silent(self._clock.now_ms() - LONG_GONE_MS)
        return removed

    async def _clear(self, topic: Condemned) -> int:
        params = {"topic_id": topic.topic_id}
        removed = sum([await self._in_batches(name, params) for name in ("clear_open", "clear_leased", "clear_rest")])
        if not removed:
            await self._directory.drop(topic.topic_id, before_ms=self._clock.now_ms() - SETTLED_AFTER_MS)
        else:
            log.info("topic_being_removed", topic_id=topic.topic_id, removed=removed)
        return removed

    async def _in_batches(self, name: str, params: dict[str, int]) -> int:
        removed = 0
        for _ in range(MOST_BATCHES):
            count = await self._statements.count(self._sql[name], params | {"limit": BATCH})
            removed += count
            if count < BATCH:
                break
        return removed
