"""What dispatchers have reported, as metrics of a node: counters since each of them began, by its name.

Sums over dispatchers would fall when one of them begins anew, which reads as if all had; Prometheus makes them itself.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from meantime.metrics import REGISTRY
from meantime.timers.lateness import BOUNDS_MS
from meantime.timers.reports import DispatcherReport, Reported

MOST_DISPATCHERS = 20


class DispatcherMeters(Collector):
    def __init__(self) -> None:
        self._reports: dict[str, DispatcherReport] = {}

    def measured(self, reports: Sequence[Reported]) -> None:
        """The last reports of the dispatchers that are alive."""
        known = {one.name: one.report for one in reports if isinstance(one.report, DispatcherReport)}
        self._reports = dict(sorted(known.items())[:MOST_DISPATCHERS])

    def collect(self) -> Iterator[Metric]:
        late = HistogramMetricFamily(
            "meantime_timers_lateness_seconds", "From the second of a timer to its callback.", labels=["dispatcher"]
        )
        sent = CounterMetricFamily(
            "meantime_timers_callbacks_total", "Callbacks that were sent.", labels=["dispatcher", "topic"]
        )
        bounds = [*(str(bound / 1000) for bound in BOUNDS_MS), "+Inf"]
        for name, report in self._reports.items():
            if len(report.late_buckets) == len(bounds):
                buckets = list(zip(bounds, map(float, accumulate(report.late_buckets)), strict=True))
                late.add_metric([name], buckets, report.late_total_ms / 1000)
            for topic, count in report.callbacks.items():
                sent.add_metric([name, topic], count)
        yield late
        yield sent


DISPATCHERS = DispatcherMeters()
REGISTRY.register(DISPATCHERS)
