"""The metrics of topics."""

from prometheus_client import Counter, Gauge, Histogram

from meantime.metrics import REGISTRY

LATENESS = Histogram(
    "meantime_topics_lateness_seconds",
    "From the instant of a message to its lease.",
    buckets=(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 300),
    registry=REGISTRY,
)
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
