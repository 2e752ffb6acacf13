"""Metrics of pipelines: progress of streams as metrics and log lines, lateness as percentiles."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import structlog
from prometheus_client import Counter, Gauge, Histogram

from meantime.metrics import REGISTRY
from meantime.pipelines.spark.batch_reports import on_micro_batch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = Counter("meantime_pipeline_rows_total", "Rows that a pipeline has read.", ["pipeline"], registry=REGISTRY)
RATE = Gauge("meantime_pipeline_rows_per_second", "Rows per second of the last batch.", ["pipeline"], registry=REGISTRY)
BATCH = Gauge("meantime_pipeline_batch_seconds", "Duration of the last batch.", ["pipeline"], registry=REGISTRY)
REFUSED = Counter(
    "meantime_pipeline_refused_total", "What a buffer could not pass on, and has kept.", ["pipeline"], registry=REGISTRY
)
LATE = Histogram(
    "meantime_pipeline_lateness_seconds",
    "From the instant of a message to its record in the target of a buffer.",
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5, 30, 300),
    registry=REGISTRY,
)
KEPT = 200_000

log = structlog.get_logger(__name__)


class StreamProgress(msgspec.Struct, frozen=True, rename="camel"):
    """The part of Spark's report that is used."""

    name: str | None = None
    batch_id: int = 0
    num_input_rows: int = 0
    processed_rows_per_second: float | None = None
    batch_duration: int = 0


@dataclass
class BufferLateness:
    """Of the last messages that went out, in milliseconds."""

    count: int = 0
    _last: list[float] = field(default_factory=list)

    def note(self, late_ms: Iterable[float]) -> None:
        for one in late_ms:
            LATE.observe(max(one, 0) / 1000)
            self._last.append(one)
            self.count += 1
        del self._last[:-KEPT]

    def report(self) -> dict[str, float | int]:
        ordered = sorted(self._last)
        if not ordered:
            return {"messages": 0}
        return {
            "messages": self.count,
            "early": sum(one < 0 for one in ordered),
            "p50_ms": round(ordered[len(ordered) // 2], 1),
            "p99_ms": round(ordered[len(ordered) * 99 // 100], 1),
            "max_ms": round(ordered[-1], 1),
        }


def listen(spark: "SparkSession") -> None:
    """Report the progress of every stream of a session as metrics and log lines."""
    on_micro_batch(spark, lambda progress: note_progress(msgspec.json.decode(progress, type=StreamProgress)))


def note_progress(progress: StreamProgress) -> None:
    name = progress.name or "stream"
    ROWS.labels(name).inc(progress.num_input_rows)
    RATE.labels(name).set(progress.processed_rows_per_second or 0.0)
    BATCH.labels(name).set(progress.batch_duration / 1000)
    if progress.num_input_rows:
        rows, took_ms = progress.num_input_rows, progress.batch_duration
        log.info("batch_done", pipeline=name, batch=progress.batch_id, rows=rows, took_ms=took_ms)
