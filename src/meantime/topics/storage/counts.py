"""How many messages become due when, by status.

What is not leased is counted from its index, without reading messages; leases, which are few, are counted apart.
"""

from collections import Counter
from collections.abc import Collection

from meantime.clock import Clock
from meantime.database.arrays import int4s, texts
from meantime.database.queries import load
from meantime.database.statements import Statements
from meantime.errors import Invalid
from meantime.topics.model import Counts, Slot, Topic
from meantime.topics.storage.directory import ConsumerKey
from meantime.topics.storage.messages import FIRST_MS, LAST_MS

MOST_SLOTS = 10_000


class MessageCounts:
    def __init__(self, statements: Statements, clock: Clock) -> None:
        self._statements = statements
        self._clock = clock
        self._sql = {**load("meantime.topics.storage", "messages.sql"), **load("meantime.topics.duties", "upkeep.sql")}

    async def load(self, topic: Topic, from_ms: int, to_ms: int, step_ms: int) -> list[Slot]:
        """Every slot of the range, the empty ones too."""
        if not 1 <= step_ms <= LAST_MS:
            raise Invalid("step_ms must be at least 1", field="step_ms")
        if to_ms <= from_ms:
            raise Invalid("to_ms must lie after from_ms", field="to_ms")
        slots = -((from_ms - to_ms) // step_ms)
        if slots > MOST_SLOTS:
            raise Invalid(f"that would be {slots} slots; at most {MOST_SLOTS} are listed", maximum=MOST_SLOTS)
        _check_instants(from_ms, to_ms)
        waiting, processing, available = await self._slots(topic, from_ms, to_ms, step_ms, self._clock.now_ms())
        return [Slot(from_ms + slot * step_ms, waiting[slot], processing[slot], available[slot]) for slot in range(slots)]

    async def counts(self, topic: Topic, from_ms: int | None = None, to_ms: int | None = None) -> Counts:
        """How many there are in a range, or (None) without a bound."""
        now_ms = self._clock.now_ms()
        from_ms = FIRST_MS if from_ms is None else max(from_ms, FIRST_MS)
        to_ms = LAST_MS if to_ms is None else min(to_ms, LAST_MS)
        if to_ms <= from_ms:
            return Counts(0, 0, 0, 0)
        params = {"topic_id": topic.topic_id, "from_ms": from_ms, "to_ms": to_ms, "now_ms": now_ms}
        dead = (await self._statements.run(self._sql["count_dead"], params))[0][0]
        waiting, processing, available = await self._slots(topic, from_ms, to_ms, LAST_MS, now_ms)
        return Counts(waiting.total(), processing.total(), available.total(), dead)

    async def _slots(
        self, topic: Topic, from_ms: int, to_ms: int, step_ms: int, now_ms: int
    ) -> tuple[Counter[int], Counter[int], Counter[int]]:
        params = {"topic_id": topic.topic_id, "from_ms": from_ms, "to_ms": to_ms, "step_ms": step_ms, "now_ms": now_ms}
        waiting, processing, available = Counter[int](), Counter[int](), Counter[int]()
        for slot, past, count in await self._statements.run(self._sql["open_slots"], params):
            (available if past else waiting)[slot] += count
        for slot, past, count in await self._statements.run(self._sql["leased_slots"], params):
            (available if past else processing)[slot] += count
        return waiting, processing, available

    async def outstanding(self, consumers: Collection[ConsumerKey]) -> dict[ConsumerKey, int]:
        """How many leases each of them holds; some who were not asked for may be there too."""
        params = {
            "topic_ids": int4s(sorted({topic_id for topic_id, _ in consumers})),
            "consumers": texts(sorted({consumer_id for _, consumer_id in consumers})),
            "now_ms": self._clock.now_ms(),
        }
        rows = await self._statements.run(self._sql["outstanding"], params)
        return {(row[0], row[1]): row[2] for row in rows}

    async def due_per_second(self, topic: Topic, seconds: int) -> list[int]:
        """How many become due in each of the next seconds."""
        now_ms = self._clock.now_ms()
        params = {"topic_id": topic.topic_id, "now_ms": now_ms, "until_ms": now_ms + seconds * 1000}
        found = {row[0]: row[1] for row in await self._statements.run(self._sql["due_per_second"], params)}
        return [found.get(second, 0) for second in range(seconds)]


def _check_instants(*instants: int) -> None:
    if any(not FIRST_MS <= instant <= LAST_MS for instant in instants):
        raise Invalid("an instant is out of range")
