"""Metrics are declared where they are measured; this is the registry, one per process, and what they have in common.

Names follow Prometheus: the unit is the suffix, counters end in `_total`. What users give names to is a label only for the
first `MOST_NAMES` of them; all others together are `other`. A name whose object is gone is no label any more.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector

REGISTRY = CollectorRegistry()
CONTENT_TYPE = "text/plain; version=0.0.4"
MOST_NAMES = 200
"""So many topics, event types, subscriptions or queues have series of their own."""
OTHER = "other"

ProcessCollector(registry=REGISTRY)
PlatformCollector(registry=REGISTRY)
GCCollector(registry=REGISTRY)

BUILD = Gauge("meantime_build_info", "Always 1: which release runs here.", ["version", "python"], registry=REGISTRY)


def tell_build(version: str) -> None:
    BUILD.labels(version, ".".join(map(str, sys.version_info[:3]))).set(1)


def render() -> bytes:
    return generate_latest(REGISTRY)


class NamedCounter(Collector):
    """A counter by names that users give. Only one thread counts, so nothing is locked."""

    def __init__(self, name: str, documentation: str, label: str, most: int = MOST_NAMES) -> None:
        self._name = name
        self._documentation = documentation
        self._label = label
        self._most = most
        self._counts: dict[str, int] = {}

    def add(self, name: str, count: int) -> None:
        counts = self._counts
        if name not in counts and len(counts) >= self._most:
            name = OTHER
        counts[name] = counts.get(name, 0) + count

    def forget(self, name: str) -> None:
        self._counts.pop(name, None)

    @property
    def names(self) -> set[str]:
        return self._counts.keys() - {OTHER}

    @property
    def counts(self) -> Mapping[str, int]:
        return self._counts

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(self._name, self._documentation, labels=[self._label])
        for name, count in list(self._counts.items()):
            family.add_metric([name], count)
        yield family


class NamedGauge(Collector):
    """A gauge by names that users give: the greatest values by themselves, the sum of all others as `other`."""

    def __init__(self, name: str, documentation: str, labels: Sequence[str], most: int = MOST_NAMES) -> None:
        self._name = name
        self._documentation = documentation
        self._labels = labels
        self._most = most
        self._values: Mapping[tuple[str, ...], float] = {}

    def measured(self, values: Mapping[tuple[str, ...], float]) -> None:
        """All that there are now."""
        ordered = sorted(values.items(), key=lambda item: (-item[1], item[0]))
        shown = dict(ordered[: self._most])
        if rest := ordered[self._most :]:
            others = (OTHER,) * len(self._labels)
            shown[others] = shown.get(others, 0) + sum(value for _, value in rest)
        self._values = shown

    def lost(self) -> None:
        self._values = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        family = GaugeMetricFamily(self._name, self._documentation, labels=self._labels)
        for names, value in self._values.items():
            family.add_metric(names, value)
        yield family
