"""Duty: removes in batches what no caller can see any more: deleted ids after their dedupe window, messages of deleted
topics, registrations of consumers that are long gone. A topic's name is free again when nothing of it is left."""

from collections.abc import Callable

import structlog

from meantime.clock import Clock
from meantime.database.queries import load
from meantime.database.statements import Statements
from meantime.errors import Degraded
from meantime.topics.storage.directory import ConsumerRegistry, DeletedTopic, TopicStore

BATCH = 5_000
MOST_BATCHES = 40
SETTLED_AFTER_MS = 1_000
"""A statement that began before the topic was deleted has ended by then."""
LONG_GONE_MS = 60_000

log = structlog.get_logger(__name__)


class Purge:
    def __init__(
        self,
        statements: Statements,
        topic_store: TopicStore,
        registry: ConsumerRegistry,
        clock: Clock,
        require_healthy: Callable[[], None],
    ) -> None:
        self._statements = statements
        self._topic_store = topic_store
        self._registry = registry
        self._clock = clock
        self._require_healthy = require_healthy
        self._sql = load("meantime.topics.duties", "upkeep.sql")

    async def run_once(self) -> int:
        """How many messages were removed. A node that does not trust its clock removes nothing."""
        try:
            self._require_healthy()
        except Degraded:
            return 0
        removed = await self._in_batches("forget", {"now_ms": self._clock.now_ms()})
        for topic in await self._topic_store.all_deleted():
            removed += await self._clear(topic)
        await self._registry.forget_silent(self._clock.now_ms() - LONG_GONE_MS)
        return removed

    async def _clear(self, topic: DeletedTopic) -> int:
        params = {"topic_id": topic.topic_id}
        removed = sum([await self._in_batches(name, params) for name in ("clear_open", "clear_leased", "clear_rest")])
        if not removed:
            await self._topic_store.drop(topic.topic_id, before_ms=self._clock.now_ms() - SETTLED_AFTER_MS)
        else:
            log.info("deleted_topic_purged", topic_id=topic.topic_id, removed=removed)
        return removed

    async def _in_batches(self, name: str, params: dict[str, int]) -> int:
        removed = 0
        for _ in range(MOST_BATCHES):
            count = await self._statements.count_patiently(self._sql[name], params | {"limit": BATCH})
            removed += count
            if count < BATCH:
                break
        return removed
