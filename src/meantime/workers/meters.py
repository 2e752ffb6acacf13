"""The metrics of a worker process.

Attempts and messages are counted in plain numbers and turned into metrics when Prometheus asks: a trivial job takes a few
microseconds, and a counter of the library as much again.
"""

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

import structlog
from prometheus_client import Counter, Gauge
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from meantime.errors import MeantimeError
from meantime.metrics import REGISTRY
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.model import Cursor
from meantime.workers.balancing.claims import QueueClaim

log = structlog.get_logger(__name__)

LAG_EVERY = 5.0

BOUNDS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0)


class JobTally:
    """The attempts at one event type's job, and the messages that are done."""

    __slots__ = ("counts", "done", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.seconds = 0.0
        self.done = 0

    def took(self, seconds: float) -> None:
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.seconds += seconds


class JobTallies(Collector):
    def __init__(self) -> None:
        self._by_event_type: dict[str, JobTally] = {}

    def of(self, event_type: str) -> JobTally:
        return self._by_event_type.setdefault(event_type, JobTally())

    def collect(self) -> Iterator[Metric]:
        times = HistogramMetricFamily("meantime_job_seconds", "Time that attempts at a job took.", labels=["event_type"])
        done = CounterMetricFamily("meantime_job_messages", "Messages that were done.", labels=["event_type"])
        for event_type, tally in list(self._by_event_type.items()):
            bounds = [*map(str, BOUNDS), "+Inf"]
            buckets = list(zip(bounds, accumulate(tally.counts), strict=True))
            times.add_metric([event_type], buckets, tally.seconds)
            done.add_metric([event_type], tally.done)
        yield times
        yield done


TALLIES = JobTallies()
REGISTRY.register(TALLIES)

FAILED = Counter("meantime_job_failures_total", "Attempts that failed.", ["event_type"], registry=REGISTRY)
RETRIED = Counter("meantime_job_retries_total", "Messages put on the retry topic.", ["event_type"], registry=REGISTRY)
DEAD = Counter(
    "meantime_job_dead_letters_total", "Messages put on the dead-letter topic.", ["event_type"], registry=REGISTRY
)
QUEUES = Gauge("meantime_worker_queues", "Queues that this worker has.", registry=REGISTRY)
LAG = Gauge(
    "meantime_queue_lag",
    "Messages that a queue of this worker is behind.",
    ["app", "event_type", "partition"],
    registry=REGISTRY,
)


async def follow_lag(client: AsyncClient, app: str, claims: Callable[[], Sequence[QueueClaim]]) -> None:
    """Measure again and again how far the queues of this worker are behind."""
    while True:
        try:
            await _measure_lag(client, app, claims())
        except MeantimeError as error:
            log.debug("lag_unknown", detail=error.detail)
        await asyncio.sleep(LAG_EVERY)


async def _measure_lag(client: AsyncClient, app: str, claims: Sequence[QueueClaim]) -> None:
    by_event_type: dict[str, list[QueueClaim]] = defaultdict(list)
    for claim in claims:
        by_event_type[claim.source.event_type].append(claim)
    LAG.clear()
    for event_type, group in by_event_type.items():
        cursors = [Cursor(claim.source.partition, claim.record.cursor or "BEGIN") for claim in group]
        behind = {place.partition: place.unconsumed_events for place in await client.lag(event_type, cursors)}
        for claim in group:
            LAG.labels(app, event_type, claim.source.partition).set(behind.get(claim.source.partition) or 0)
