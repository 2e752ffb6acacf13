"""The futures query as a process: started, reported on, started again when Kafka was away, stopped on a signal."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import structlog

from meantime.errors import StorageUnavailable
from meantime.pipelines.session import session
from meantime.pipelines.spark.batch_reports import on_micro_batch
from meantime.pipelines.timers.futures import start_futures
from meantime.pipelines.timers.intake import FuturesOptions
from meantime.pipelines.timers.packing import SETTINGS as PACKING
from meantime.pipelines.timers.reporting import FuturesListener
from meantime.runtime import step_back
from meantime.supervision import kept_running
from meantime.timers.ledger.store import LedgerStore
from meantime.timers.reports import FuturesReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = structlog.get_logger(__name__)

AGAIN_AFTER = 1.0
CHECKPOINT_FILES = "spark.sql.streaming.checkpointFileManagerClass"
QUICK_COMPILER = "-XX:TieredStopAtLevel=1"
"""Requests pass through Java by the thousand, so there is little for it to be fast at. Compiling thoroughly what plans a
micro-batch took as long as all tasks together."""
SMALL_HEAP = ("-Xms64m", "-XX:+UseSerialGC", "-XX:MinHeapFreeRatio=20", "-XX:MaxHeapFreeRatio=40", "-XX:-UsePerfData")
"""Java gives back what a burst has taken, and does not begin with a sixty-fourth of the machine's memory."""
PLAIN_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
"""Of the two ways that Spark has to write checkpoints, on a local disk the usual one starts a program for each file."""

KEPT_BYTES = str(512 * 1024 * 1024)
KEEPING = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_TRIM_THRESHOLD_": KEPT_BYTES,
    "MALLOC_MMAP_THRESHOLD_": KEPT_BYTES,
    "MALLOC_TOP_PAD_": str(64 * 1024 * 1024),
}
"""Tasks keep the memory that they have had: to give a hundred megabytes back after each micro-batch and to get them again,
page by page, took a quarter of the time that a task needs."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Where Spark runs. `memory` is the driver's heap; it is as nice to others on its machine as `nice` says."""

    master: str | None = None
    memory: str = "1g"
    partitions: int = 2
    nice: int = 10
    bundle: str | None = None


async def run_futures(
    options: FuturesOptions, engine: Engine, store: LedgerStore, name: str, now_ms: Callable[[], int]
) -> None:
    """For ever. A query that fails is started again from its checkpoint, in the same Spark."""
    spark = await asyncio.to_thread(_start_spark, engine, options.checkpoint)
    reports: asyncio.Queue[FuturesReport] = asyncio.Queue()
    _listen(spark, options, await _last_through(store), reports)
    try:
        async with kept_running(partial(_write_reports, reports, store, name, now_ms), "futures reports"):
            while True:
                await _run_query(spark, options)
                await asyncio.sleep(AGAIN_AFTER)
    finally:
        await asyncio.to_thread(spark.stop)


def _start_spark(engine: Engine, checkpoint: str) -> "SparkSession":
    """What is near has been taken by those who fire, so Spark gets out of their way. On Linux a thread is nice for itself
    and for what it starts, so this is said in the one that starts Spark."""
    step_back(engine.nice)
    settings = {"spark.sql.shuffle.partitions": str(engine.partitions), **PACKING}
    settings |= {f"spark.executorEnv.{name}": value for name, value in KEEPING.items()}
    if urlsplit(checkpoint).scheme in ("", "file"):
        settings[CHECKPOINT_FILES] = PLAIN_FILES
    log.info("spark_starting", master=engine.master or "this machine")
    return session(
        "futures",
        master=engine.master,
        memory=engine.memory,
        jvm=(QUICK_COMPILER, *SMALL_HEAP),
        settings=settings,
        uses=(checkpoint,),
        bundle=engine.bundle,
    )


async def _last_through(store: LedgerStore) -> Mapping[int, int]:
    """How far requests had come through the job when it told so last."""
    try:
        told = [said.report for said in await store.reports(FuturesReport, 0)]
    except StorageUnavailable:
        return {}
    return told[0].through if told and isinstance(told[0], FuturesReport) else {}


def _listen(
    spark: "SparkSession", options: FuturesOptions, through: Mapping[int, int], reports: "asyncio.Queue[FuturesReport]"
) -> None:
    loop = asyncio.get_running_loop()
    on_micro_batch(spark, FuturesListener(options, through, lambda report: _hand_over(loop, reports, report)).on_batch)


def _hand_over(loop: asyncio.AbstractEventLoop, reports: "asyncio.Queue[FuturesReport]", report: FuturesReport) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(reports.put_nowait, report)


async def _run_query(spark: "SparkSession", options: FuturesOptions) -> None:
    from pyspark.errors import StreamingQueryException

    query = await asyncio.to_thread(start_futures, spark, options)
    log.info("query_started", checkpoint=options.checkpoint)
    try:
        while not await asyncio.to_thread(query.awaitTermination, 1):
            pass
    except StreamingQueryException as error:
        log.warning("query_failed", error=str(error).split("\n", maxsplit=1)[0])
    finally:
        await asyncio.to_thread(query.stop)


async def _write_reports(
    reports: "asyncio.Queue[FuturesReport]", store: LedgerStore, name: str, now_ms: Callable[[], int]
) -> None:
    while True:
        report = await reports.get()
        log.debug("batch", batch_ms=report.batch_ms, rows=report.input_rows, state_rows=report.state_rows, lag=report.lag)
        try:
            await store.report(name, now_ms(), report)
        except StorageUnavailable:
            log.debug("report_not_written")
