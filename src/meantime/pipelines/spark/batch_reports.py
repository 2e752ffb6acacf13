"""Reports of a session's streams: each micro-batch as one JSON text.

PySpark's own listener fetches every figure of a report from Java by itself, and after each micro-batch of a join these
questions took a third of a second of processor time. Java gives the whole report at once just as well.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import structlog

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)


def on_micro_batch(spark: "SparkSession", progress: Callable[[str], None]) -> None:
    """Call `progress` with the JSON of every micro-batch's report, from a thread of Spark's."""
    from pyspark import SparkContext
    from pyspark.java_gateway import ensure_callback_server_started

    gateway: Any = SparkContext._gateway
    ensure_callback_server_started(gateway)  # type: ignore[no-untyped-call]
    java = gateway.jvm.org.apache.spark.sql.streaming.PythonStreamingQueryListenerWrapper(_Listener(progress))
    spark.streams._jsqm.addListener(java)


class _Listener:
    """Java calls this."""

    def __init__(self, progress: Callable[[str], None]) -> None:
        self._progress = progress

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802 - Java's names
        log.info("stream_started", name=event.name(), id=event.id().toString())

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        self._progress(event.progress().json())

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to report."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        log.info("stream_ended", id=event.id().toString(), failed=event.exception().isDefined())

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]
