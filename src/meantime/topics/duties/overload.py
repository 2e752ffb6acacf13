"""Duty: warns before more becomes due than the consumers can process.

The rate is what consumers finished per second, averaged over the last minutes while they were busy. Each node measures what
was finished at it and tells the others (`storage.rates`); what all consumers together can do is the sum. An overload is
a time ahead in which more becomes due than that can process, so that the backlog outgrows a few seconds of work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meantime.clock import Clock
from meantime.metrics import MOST_NAMES
from meantime.topics.catalog import TopicCatalog
from meantime.topics.meters import RATE, SPIKE, SPIKE_EXCESS
from meantime.topics.storage.counts import MessageCounts
from meantime.topics.storage.rates import RateStore

AHEAD_FOR = 600
TOLERATED_FOR = 5
"""Seconds of work that may pile up before it counts as an overload."""
_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class PredictedOverload:
    """Begins in so many seconds; at its height so many messages wait."""

    in_seconds: int
    excess: int


def forecast(due: Sequence[int], rate: float) -> PredictedOverload | None:
    """Let the backlog grow by what becomes due and shrink by the rate, second by second."""
    backlog, height, begins = 0.0, 0.0, None
    for second, count in enumerate(due):
        backlog = max(0.0, backlog + count - rate)
        if backlog > TOLERATED_FOR * rate:
            begins = second if begins is None else begins
            height = max(height, backlog)
    return None if begins is None else PredictedOverload(begins, int(height))


class Rates:
    """How many messages per second the consumers of each topic finish, smoothed."""

    def __init__(self) -> None:
        self._finished: dict[int, int] = {}
        self._rates: dict[int, float] = {}

    def finished(self, topic_id: int, count: int = 1) -> None:
        self._finished[topic_id] = self._finished.get(topic_id, 0) + count

    def tick(self, seconds: float) -> dict[int, float]:
        """Take in what was finished during the last `seconds`; the rates of the topics in which anything was. Idle time says
        nothing about what consumers could do."""
        busy, self._finished = self._finished, {}
        for topic_id, count in busy.items():
            rate = count / seconds
            before = self._rates.get(topic_id, rate)
            self._rates[topic_id] = max(rate, before + _WEIGHT * (rate - before))
        return {topic_id: self._rates[topic_id] for topic_id in busy}

    def of(self, topic_id: int) -> float:
        return self._rates.get(topic_id, 0.0)

    def topics(self) -> list[int]:
        return list(self._rates)


class OverloadForecast:
    def __init__(
        self, catalog: TopicCatalog, counts: MessageCounts, rates: Rates, store: RateStore, clock: Clock, every: float
    ) -> None:
        self._catalog = catalog
        self._counts = counts
        self._rates = rates
        self._store = store
        self._clock = clock
        self._every = every
        self._told: set[str] = set()
        self.ahead: dict[str, PredictedOverload] = {}
        """What was found last."""

    async def capacity(self, topic_id: int) -> float | None:
        """Messages per second that the consumers of a topic have shown that they can finish; None before they have."""
        found = await self._store.capacities([topic_id])
        return found.get(topic_id)

    async def run_once(self) -> dict[str, PredictedOverload]:
        """The overloads ahead, by topic, of those topics whose consumers finish messages at this node."""
        await self._store.tell(self._rates.tick(self._every), self._clock.now_ms())
        capacities = await self._store.capacities(self._rates.topics())
        found: dict[str, PredictedOverload] = {}
        told: set[str] = set()
        for topic_id in self._rates.topics():
            topic = await self._catalog.by_id(topic_id)
            if topic is None:
                continue
            rate = self._rates.of(topic_id)
            due = await self._counts.due_per_second(topic, AHEAD_FOR)
            overload = forecast(due, max(rate, capacities.get(topic_id, 0.0)))
            if len(told) < MOST_NAMES:
                _tell(topic.name, rate, overload)
                told.add(topic.name)
            if overload:
                found[topic.name] = overload
        for name in self._told - told:
            for gauge in (RATE, SPIKE, SPIKE_EXCESS):
                gauge.remove(name)
        self._told = told
        self.ahead = found
        return found


def _tell(topic: str, rate: float, overload: PredictedOverload | None) -> None:
    RATE.labels(topic).set(rate)
    SPIKE.labels(topic).set(overload.in_seconds if overload else -1)
    SPIKE_EXCESS.labels(topic).set(overload.excess if overload else 0)
