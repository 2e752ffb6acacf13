"""How many requests were answered, how long each took, and how many were refused. Every request is counted, so counting is a
few additions: only the event loop counts, and nothing is locked.

Refused requests are also told in the log, once for each kind and minute: a second after a kind first occurs, with how many
there were by then, and from then on once a minute, for as long as there are more. The line has the detail and the flow id
of the last of them.
"""

import asyncio
import time
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import accumulate

import structlog
from prometheus_client import Histogram
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from meantime.metrics import OTHER, REGISTRY

log = structlog.get_logger(__name__)

BOUNDS: tuple[float, ...] = tuple(bound for bound in Histogram.DEFAULT_BUCKETS if bound != float("inf"))

FIRST_AFTER = 1.0
TELL_EVERY = 60.0
MOST_KINDS = 1000
LONGEST_DETAIL = 300

Kind = tuple[str, str, str]
"""Method, route and code."""


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


class RefusalMeter:
    """The requests of one kind; `untold` are those that no line in the log has counted yet."""

    __slots__ = ("count", "detail", "flow_id", "status", "told_at", "untold")

    def __init__(self) -> None:
        self.count = 0
        self.untold = 0
        self.told_at = -TELL_EVERY
        self.status = 0
        self.detail = ""
        self.flow_id = ""


class RefusalMeters(Collector):
    def __init__(self, *, first_after: float = FIRST_AFTER, tell_every: float = TELL_EVERY) -> None:
        self._first_after = first_after
        self._tell_every = tell_every
        self._kinds: dict[Kind, RefusalMeter] = {}

    def add(self, kind: Kind, status: int, detail: str, flow_id: str) -> None:
        if kind not in self._kinds and len(self._kinds) >= MOST_KINDS:
            kind = (OTHER, OTHER, OTHER)
        refused = self._kinds.get(kind)
        if refused is None:
            refused = self._kinds[kind] = RefusalMeter()
        refused.count += 1
        refused.untold += 1
        refused.status, refused.detail, refused.flow_id = status, detail, flow_id
        if refused.untold == 1:
            wait_for = max(self._first_after, refused.told_at + self._tell_every - time.monotonic())
            asyncio.get_running_loop().call_later(wait_for, self._tell, kind, refused)

    def tell_all(self) -> None:
        """Before the end: what would have been told later."""
        for kind, refused in self._kinds.items():
            self._tell(kind, refused)

    def _tell(self, kind: Kind, refused: RefusalMeter) -> None:
        if not refused.untold:
            return
        method, route, code = kind
        tell = log.warning if refused.status >= 500 else log.info
        tell(
            "requests_refused",
            method=method,
            route=route,
            code=code,
            status=refused.status,
            count=refused.untold,
            detail=refused.detail[:LONGEST_DETAIL],
            flow_id=refused.flow_id,
        )
        refused.untold, refused.told_at = 0, time.monotonic()

    def collect(self) -> Iterator[CounterMetricFamily]:
        family = CounterMetricFamily(
            "meantime_http_refusals_total",
            "Requests that were refused, by the code of the problem.",
            labels=["method", "route", "code"],
        )
        for kind, refused in list(self._kinds.items()):
            family.add_metric(kind, refused.count)
        yield family


METERS, REFUSALS = RequestMeters(), RefusalMeters()
REGISTRY.register(METERS)
REGISTRY.register(REFUSALS)
