"""Duty: compares what becomes due with what the consumers manage, and says so before it happens.

The rate is what consumers finished per second, averaged over the last minutes while they were busy. A spike is a stretch
ahead in which more becomes due than that rate can carry; the backlog would outgrow a few seconds of work.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from meantime.clock import Clock
from meantime.topics.catalog import Catalogue
from meantime.topics.meters import RATE, SPIKE, SPIKE_EXCESS
from meantime.topics.storage.counts import Counting

AHEAD_FOR = 600
TOLERATED_FOR = 5
"""Seconds of work that may pile up before it counts as a spike."""
_WEIGHT = 0.3


@dataclass(frozen=True, slots=True)
class Spike:
    """Begins in so many seconds; at its height so many messages wait."""

    in_seconds: int
    excess: int


def forecast(due: Sequence[int], rate: float) -> Spike | None:
    """Let the backlog grow by what becomes due and shrink by the rate, second by second."""
    backlog, height, begins = 0.0, 0.0, None
    for second, count in enumerate(due):
        backlog = max(0.0, backlog + count - rate)
        if backlog > TOLERATED_FOR * rate:
            begins = second if begins is None else begins
            height = max(height, backlog)
    return None if begins is None else Spike(begins, int(height))


class Rates:
    """How many messages per second the consumers of each topic finish, smoothed."""

    def __init__(self) -> None:
        self._finished: dict[int, int] = {}
        self._rates: dict[int, float] = {}

    def finished(self, topic_id: int, count: int = 1) -> None:
        self._finished[topic_id] = self._finished.get(topic_id, 0) + count

    def tick(self, seconds: float) -> None:
        """Take in what was finished during the last `seconds`; idle time says nothing about what they could do."""
        for topic_id, count in self._finished.items():
            rate = count / seconds
            before = self._rates.get(topic_id, rate)
            self._rates[topic_id] = max(rate, before + _WEIGHT * (rate - before))
        self._finished = {}

    def of(self, topic_id: int) -> float:
        return self._rates.get(topic_id, 0.0)

    def topics(self) -> list[int]:
        return list(self._rates)


class Spikes:
    def __init__(self, catalogue: Catalogue, counting: Counting, rates: Rates, clock: Clock, every: float) -> None:
        self._catalogue = catalogue
        self._counting = counting
        self._rates = rates
        self._clock = clock
        self._every = every

    async def run_once(self) -> dict[str, Spike]:
        """The spikes ahead, by topic, of those topics whose consumers this node has seen at work."""
        self._rates.tick(self._every)
        found: dict[str, Spike] = {}
        for topic_id in self._rates.topics():
            topic = await self._catalogue.by_id(topic_id)
            if topic is None:
                continue
            rate = self._rates.of(topic_id)
            due = await self._counting.due_per_second(topic, self._clock.now_ms(), AHEAD_FOR)
            spike = forecast(due, rate)
            RATE.labels(topic.name).set(rate)
            SPIKE.labels(topic.name).set(spike.in_seconds if spike else -1)
            SPIKE_EXCESS.labels(topic.name).set(spike.excess if spike else 0)
            if spike:
                found[topic.name] = spike
        return found
