"""What the consumers of topics have shown that they can do, in the whole cluster: a node tells what was finished at it."""

from collections.abc import Collection, Mapping

from meantime.database.arrays import float8s, int4s
from meantime.database.queries import load
from meantime.database.statements import Statements

TOGETHER_MS = 60_000
"""Nodes that have told a rate within this much of each other were busy at the same time."""


class RateStore:
    def __init__(self, statements: Statements, node_id: str) -> None:
        self._statements = statements
        self._node_id = node_id
        self._sql = load("meantime.topics.storage", "rates.sql")

    async def tell(self, rates: Mapping[int, float], now_ms: int) -> None:
        """Messages per second by topic, of those in which something was finished at this node."""
        if rates:
            ordered = sorted(rates.items())
            params = {
                "node_id": self._node_id,
                "now_ms": now_ms,
                "topic_ids": int4s([topic_id for topic_id, _ in ordered]),
                "rates": float8s([rate for _, rate in ordered]),
            }
            await self._statements.count(self._sql["tell_rates"], params)

    async def capacities(self, topic_ids: Collection[int]) -> dict[int, float]:
        """Messages per second in the whole cluster; those of which nothing was ever finished are not there."""
        params = {"topic_ids": int4s(sorted(topic_ids)), "together_ms": TOGETHER_MS}
        rows = await self._statements.run(self._sql["capacities"], params) if topic_ids else []
        return {row[0]: float(row[1]) for row in rows}
