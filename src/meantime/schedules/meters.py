"""Metrics of schedules."""

from prometheus_client import Counter, Gauge, Histogram

from meantime.metrics import REGISTRY

FIRINGS = Counter(
    "meantime_schedules_firings_total",
    "Firings that this node has recorded as leader or for a user, by what became of them.",
    ["state"],
    registry=REGISTRY,
)
LEADING = Gauge("meantime_schedules_leading", "Whether this node fires the schedules of the cluster.", registry=REGISTRY)
AHEAD = Histogram(
    "meantime_schedules_ahead_seconds",
    "How long before they were due firings were set; what is late is in the first bucket.",
    buckets=(0, 1, 5, 15, 30, 45, 60, 90),
    registry=REGISTRY,
)
SCHEDULES = Gauge("meantime_schedules", "Schedules of the cluster, by state.", ["state"], registry=REGISTRY)
MOVED = Gauge(
    "meantime_schedules_moved",
    "Schedules of the cluster whose firings another release of the time zone data has moved.",
    registry=REGISTRY,
)
PASS_FAILURES = Counter(
    "meantime_schedules_postponed_total", "Schedules that could not be planned and are tried again later.", registry=REGISTRY
)


def lost() -> None:
    """The database did not tell."""
    for state in ("active", "paused"):
        SCHEDULES.labels(state).set(float("nan"))
    MOVED.set(float("nan"))
