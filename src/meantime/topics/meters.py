"""The metrics of topics.

Depths and names come from a look at the database, which is made when the metrics are asked for; counters are kept by the
topic's id and shown once its name is known. A topic that is gone is not shown any more.
"""

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate

import msgspec
from prometheus_client import Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from meantime.metrics import MOST_NAMES, OTHER, REGISTRY
from meantime.topics.model import Counts, TopicDepth


class BulkHistogram(Collector):
    """A histogram for what comes in batches: the library's own takes three locks for every single value."""

    def __init__(self, name: str, documentation: str, bounds: tuple[float, ...]) -> None:
        self._name = name
        self._documentation = documentation
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, values: Iterable[float]) -> None:
        for value in values:
            self._counts[bisect_left(self._bounds, value)] += 1
            self._sum += value

    @property
    def bounds_ms(self) -> list[int]:
        return [round(bound * 1000) for bound in self._bounds]

    @property
    def counts(self) -> tuple[int, ...]:
        """How many were not above each bound, but above the one before it; the last are above all."""
        return tuple(self._counts)

    def collect(self) -> Iterator[HistogramMetricFamily]:
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        buckets = list(zip(names, map(float, accumulate(self._counts)), strict=True))
        yield HistogramMetricFamily(self._name, self._documentation, buckets=buckets, sum_value=self._sum)


class TopicTally:
    """What was done with the messages of one topic by this node."""

    __slots__ = ("created", "dead", "deleted", "pulled", "pushed")

    def __init__(self) -> None:
        self.created = self.deleted = self.dead = self.pulled = self.pushed = 0

    def lease(self, count: int, *, pulled: bool) -> None:
        if pulled:
            self.pulled += count
        else:
            self.pushed += count

    def add(self, other: "TopicTally") -> None:
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class TopicMeters(Collector):
    """Of depths, the topics with most to do are shown by name, at each look anew. Of counters, the first that count
    something, for as long as they live: a counter must not change its name. All others are `other`."""

    def __init__(self, most: int = MOST_NAMES) -> None:
        self._most = most
        self._tallies: dict[int, TopicTally] = {}
        self._labels: dict[int, str] = {}
        self._gone_others = TopicTally()
        self._unknown: set[int] = set()
        self._depths: Sequence[TopicDepth] = ()
        self._now_ms = 0

    def of(self, topic_id: int) -> TopicTally:
        tally = self._tallies.get(topic_id)
        if tally is None:
            tally = self._tallies[topic_id] = TopicTally()
        return tally

    def tallies(self) -> dict[int, TopicTally]:
        """Those of all topics with which this node has done anything."""
        return self._tallies

    def measured(self, depths: Sequence[TopicDepth], now_ms: int) -> None:
        """All topics that there are, as they were at `now_ms`."""
        names = {depth.topic_id: depth.name for depth in depths}
        self._forget(names.keys())
        own = sum(label != OTHER for label in self._labels.values())
        for topic_id in self._tallies:
            if topic_id in names and topic_id not in self._labels:
                self._labels[topic_id] = names[topic_id] if own < self._most else OTHER
                own += 1
        self._depths = sorted(depths, key=lambda one: (-one.counts.available, -_total(one.counts), one.name))
        self._now_ms = now_ms

    def lost(self) -> None:
        """How deep topics are is not known any more."""
        self._depths = ()

    def _forget(self, present: Collection[int]) -> None:
        """Topics that are gone; those that were never seen may be too new to be seen once."""
        unknown = self._tallies.keys() - present
        for topic_id in unknown & (self._unknown | self._labels.keys()):
            tally = self._tallies.pop(topic_id)
            if self._labels.pop(topic_id, None) == OTHER:
                self._gone_others.add(tally)
        self._unknown = unknown

    def collect(self) -> Iterator[Metric]:
        yield from self._collect_depths()
        yield from self._collect_tallies()

    def _collect_depths(self) -> Iterator[Metric]:
        messages: dict[str, list[int]] = {}
        oldest: dict[str, int] = {}
        for rank, depth in enumerate(self._depths):
            label = depth.name if rank < self._most else OTHER
            counts = messages.setdefault(label, [0] * len(Counts.__struct_fields__))
            for place, count in enumerate(msgspec.structs.astuple(depth.counts)):
                counts[place] += count
            age_ms = 0 if depth.oldest_due_ms is None else self._now_ms - depth.oldest_due_ms
            oldest[label] = max(age_ms, oldest.get(label, 0))
        depths = GaugeMetricFamily(
            "meantime_topics_messages",
            "Messages of a topic by status, in the whole cluster; large numbers are estimates.",
            labels=["topic", "status"],
        )
        for label, counts in messages.items():
            for status, count in zip(Counts.__struct_fields__, counts, strict=True):
                depths.add_metric([label, status], count)
        yield depths
        ages = GaugeMetricFamily(
            "meantime_topics_oldest_due_age_seconds",
            "For how long the message that is due for longest has been waiting for a consumer; 0 when none is due.",
            labels=["topic"],
        )
        for label, age_ms in oldest.items():
            ages.add_metric([label], age_ms / 1000)
        yield ages

    def _collect_tallies(self) -> Iterator[Metric]:
        tallies: dict[str, TopicTally] = {}
        if OTHER in self._labels.values():
            tallies.setdefault(OTHER, TopicTally()).add(self._gone_others)
        for topic_id, label in self._labels.items():
            if (tally := self._tallies.get(topic_id)) is not None:
                tallies.setdefault(label, TopicTally()).add(tally)
        for name, documentation in (
            ("created", "Messages created."),
            ("deleted", "Messages deleted by their holders."),
            ("dead", "Messages whose last attempt was over, here or moved to a dead-letter topic."),
        ):
            family = CounterMetricFamily(f"meantime_topics_{name}_total", documentation, labels=["topic"])
            for label, tally in tallies.items():
                family.add_metric([label], getattr(tally, name))
            yield family
        leased = CounterMetricFamily("meantime_topics_leased_total", "Messages leased.", labels=["topic", "mode"])
        for label, tally in tallies.items():
            leased.add_metric([label, "pull"], tally.pulled)
            leased.add_metric([label, "push"], tally.pushed)
        yield leased


def _total(counts: Counts) -> int:
    return counts.waiting + counts.processing + counts.available + counts.dead


METERS = TopicMeters()
REGISTRY.register(METERS)
LATENESS = BulkHistogram(
    "meantime_topics_lateness_seconds",
    "From the instant of a message to its lease.",
    (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 300),
)
REGISTRY.register(LATENESS)
STREAMS = Gauge("meantime_topics_streams_open", "Open push streams.", registry=REGISTRY)
DUTY_FAILURES = Counter("meantime_topics_duty_failures_total", "Duties that failed.", ["duty"], registry=REGISTRY)
RATE = Gauge("meantime_topics_lease_rate", "Messages per second that the consumers finish.", ["topic"], registry=REGISTRY)
SPIKE = Gauge(
    "meantime_topics_spike_in_seconds",
    "Seconds until more becomes due than the consumers can take; -1 when nothing of that kind is ahead.",
    ["topic"],
    registry=REGISTRY,
)
SPIKE_EXCESS = Gauge(
    "meantime_topics_spike_excess", "Messages above the consumers' rate in the coming spike.", ["topic"], registry=REGISTRY
)
