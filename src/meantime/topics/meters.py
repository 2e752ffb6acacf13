"""The metrics of topics."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import Counter, Gauge
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector

from meantime.metrics import REGISTRY


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

    def collect(self) -> Iterator[HistogramMetricFamily]:
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        buckets = list(zip(names, map(float, accumulate(self._counts)), strict=True))
        yield HistogramMetricFamily(self._name, self._documentation, buckets=buckets, sum_value=self._sum)


LATENESS = BulkHistogram(
    "meantime_topics_lateness_seconds",
    "From the instant of a message to its lease.",
    (0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 300),
)
REGISTRY.register(LATENESS)
LEASED = Counter("meantime_topics_leased_total", "Messages leased.", ["mode"], registry=REGISTRY)
CREATED = Counter("meantime_topics_created_total", "Messages created.", registry=REGISTRY)
DELETED = Counter("meantime_topics_deleted_total", "Messages deleted by their holders.", registry=REGISTRY)
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
