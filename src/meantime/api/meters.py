"""How many requests were answered, and how long each took. Every request is counted, so counting is a few additions: only
the event loop counts, and nothing is locked."""

from bisect import bisect_left
from collections.abc import Iterable
from itertools import accumulate

from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from meantime.metrics import REGISTRY

BOUNDS: tuple[float, ...] = tuple(bound for bound in Histogram.DEFAULT_BUCKETS if bound != float("inf"))


class RequestMeter:
    """The requests of one method and route that were answered with one status."""

    __slots__ = ("answered", "buckets", "seconds")

    def __init__(self) -> None:
        self.answered = 0
        self.seconds = 0.0
        self.buckets = [0] * (len(BOUNDS) + 1)

    def count(self, seconds: float) -> None:
        self.answered += 1
        self.seconds += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1


class RequestMeters(Collector):
    def __init__(self) -> None:
        self._meters: dict[tuple[str, str, int], RequestMeter] = {}

    def of(self, method: str, route: str, status: int) -> RequestMeter:
        key = method, route, status
        meter = self._meters.get(key)
        if meter is None:
            meter = self._meters[key] = RequestMeter()
        return meter

    def collect(self) -> Iterable[CounterMetricFamily | HistogramMetricFamily]:
        requests = CounterMetricFamily(
            "meantime_http_requests_total", "Answered requests.", labels=["method", "route", "status"]
        )
        seconds = HistogramMetricFamily(
            "meantime_http_request_seconds", "Time until the answer began.", labels=["method", "route"]
        )
        routes: dict[tuple[str, str], list[RequestMeter]] = {}
        for (method, route, status), meter in self._meters.items():
            requests.add_metric([method, route, str(status)], meter.answered)
            routes.setdefault((method, route), []).append(meter)
        names = [*map(str, BOUNDS), "+Inf"]
        for (method, route), meters in routes.items():
            counts = accumulate(map(sum, zip(*(meter.buckets for meter in meters), strict=True)))
            buckets = list(zip(names, map(float, counts), strict=True))
            seconds.add_metric([method, route], buckets, sum(meter.seconds for meter in meters))
        return [requests, seconds]


METERS = RequestMeters()
REGISTRY.register(METERS)
