"""What a worker process tells Prometheus."""

from prometheus_client import Counter, Gauge, Histogram

from meantime.metrics import REGISTRY

JOB_SECONDS = Histogram(
    "meantime_job_seconds",
    "Time that attempts at a job took.",
    ["event_type"],
    buckets=(0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60, 300),
    registry=REGISTRY,
)
PROCESSED = Counter("meantime_job_messages_total", "Messages that were done.", ["event_type"], registry=REGISTRY)
FAILED = Counter("meantime_job_failures_total", "Attempts that failed.", ["event_type"], registry=REGISTRY)
RETRIED = Counter("meantime_job_retries_total", "Messages put on the retry topic.", ["event_type"], registry=REGISTRY)
DEAD = Counter(
    "meantime_job_dead_letters_total", "Messages put on the dead-letter topic.", ["event_type"], registry=REGISTRY
)
QUEUES = Gauge("meantime_worker_queues", "Queues that this worker has.", registry=REGISTRY)
LAG = Gauge("meantime_queue_lag", "Messages that a queue of this worker is behind.", ["queue"], registry=REGISTRY)
