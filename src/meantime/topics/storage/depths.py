"""How deep the topics are, for metrics: exact for what is small, estimated for what is large.

Counting takes as long as there is to count, so it ends at a limit, which the topics share. Where a topic reaches it, its
number is taken from a sample of the table's pages, as many at most whatever the table's size. A small table is sampled
whole, so its numbers are exact as well.
"""

from collections import Counter

from meantime.clock import Clock
from meantime.database.queries import load
from meantime.database.statements import Statements
from meantime.topics.model import Counts, MessageStage, TopicDepth

COUNTED = 50_000
"""Entries of the index that are counted at most, over all topics, for each status."""
COUNTED_EACH = 100
"""At least so many of each topic."""
SAMPLED_PAGES = 2_000


class Depths:
    def __init__(self, statements: Statements, clock: Clock) -> None:
        self._statements = statements
        self._clock = clock
        self._sql = load("meantime.topics.storage", "depths.sql")
        self._topics = 1

    async def look(self) -> list[TopicDepth]:
        """All topics."""
        most = max(COUNTED_EACH, COUNTED // max(1, self._topics))
        params = {"now_ms": self._clock.now_ms(), "most": most}
        rows = await self._statements.run(self._sql["bounded_depths"], params)
        dead: Counter[int] = Counter(dict(await self._statements.run(self._sql["bounded_dead"], params | {"most": COUNTED})))
        self._topics = len(rows)
        large = dead.total() >= COUNTED or any(count >= most for row in rows for count in row[2:6])
        sampled = await self._sampled(params["now_ms"]) if large else {}
        none = Counts(0, 0, 0, 0)
        found = []
        for topic_id, name, waiting, due, held, expired, oldest_due_ms in rows:
            about = sampled.get(topic_id, none)
            counts = Counts(
                max(waiting, about.waiting) if waiting >= most else waiting,
                max(held, about.processing) if held >= most else held,
                max(due + expired, about.available) if max(due, expired) >= most else due + expired,
                max(dead[topic_id], about.dead) if dead.total() >= COUNTED else dead[topic_id],
            )
            found.append(TopicDepth(topic_id, name, counts, oldest_due_ms))
        return found

    async def _sampled(self, now_ms: int) -> dict[int, Counts]:
        """About how much there is, by topic."""
        pages = (await self._statements.run(self._sql["pages"], {}))[0][0]
        part = min(1.0, SAMPLED_PAGES / max(1, pages))
        params = {"now_ms": now_ms, "percent": part * 100}
        found: dict[int, list[int]] = {}
        for topic_id, stage, leased, past, count in await self._statements.run(self._sql["sampled_depths"], params):
            counts = found.setdefault(topic_id, [0, 0, 0, 0])
            counts[_place(stage, leased, past)] += round(count / part)
        return {topic_id: Counts(*counts) for topic_id, counts in found.items()}


def _place(stage: int, leased: bool, past: bool) -> int:
    """Of a status in `Counts`."""
    if stage == MessageStage.DEAD or (stage == MessageStage.LAST and past):
        return 3
    if past:
        return 2
    return 1 if leased else 0
