"""Ticks as a stream: every second up to the newest one in `oscillator`, whatever else is left of that topic.

The join forgets what waits for a tick that lies behind: a tick that is missing loses its timers. Kafka may have deleted
ticks while this job was away, and an oscillator that was away for longer than Kafka keeps ticks finds none to go on from. So
only the newest tick is taken from Kafka. It says that all before it have been, and they are counted here, from where the
checkpoint says that the job had come to. Anybody may write into a topic: a tick too far ahead of the clock is none.

A micro-batch takes half a second of a processor, whether anything waits for its ticks or not. Timers that are far wait for
the tick that opens their stretch, and only requests that have just come may wait for another one. So while requests come, a
batch runs for every tick that is joined; when none has come for a while, for the opening of a stretch.
"""

import time
from collections.abc import Iterator, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec
import structlog
from pyspark.sql import datasource
from pyspark.sql.streaming.datasource import ReadLimit

from meantime.errors import StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.pipelines.timers import kafka_intake
from meantime.pipelines.timers.intake import FuturesOptions
from meantime.timers.oscillator_topic import TickConsumer
from meantime.timers.topics import OSCILLATOR

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

log = structlog.get_logger(__name__)

Offsets = dict[str, int]
"""As in `{"oscillator": 1700000000}`: the last second that has been read."""
NAME = "meantime.ticks"
MOST_S = 100_000
"""Seconds in one micro-batch, so that even a year is caught up in small steps."""
BEFORE_START_S = 60
QUIET_AFTER = 60.0
"""Seconds without a request after which nothing waits for ticks that open no stretch."""


def read_seconds(spark: "SparkSession", options: FuturesOptions) -> "DataFrame":
    """A stream of the seconds that are joined, as the column `second`."""
    spark.dataSource.register(TicksSource)
    return spark.readStream.format(NAME).option("futures", msgspec.json.encode(options).decode()).load()


class TicksSource(datasource.DataSource):
    """Spark's way in."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._futures = msgspec.json.decode(options["futures"], type=FuturesOptions)

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return "second bigint"

    def streamReader(self, schema: "StructType") -> "TicksReader":  # noqa: N802
        return TicksReader(self._futures)


class Seconds(datasource.InputPartition):
    """What one task counts: from the first up to, and without, the end."""

    def __init__(self, first: int, end: int) -> None:
        self.first = first
        self.end = end


class TicksReader(datasource.DataSourceStreamReader):
    def __init__(self, options: FuturesOptions) -> None:
        self._options = options
        self._requests = RequestActivity()

    def initialOffset(self) -> Offsets:  # noqa: N802
        """Whatever is taken in without a checkpoint meets a tick that is yet to come."""
        return {OSCILLATOR: self._options.started_ms // 1000 - BEFORE_START_S}

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        every = self._options.stretch_s if self._quiet() else self._options.tick_every_s
        return {OSCILLATOR: advanced(start[OSCILLATOR], self._newest(), every, self._options.early_s)}

    def reportLatestOffset(self) -> Offsets | None:  # noqa: N802
        newest = self._newest()
        return None if newest is None else {OSCILLATOR: newest}

    def partitions(self, start: Offsets, end: Offsets) -> list[Seconds]:
        return [Seconds(start[OSCILLATOR] + 1, end[OSCILLATOR] + 1)]

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        assert isinstance(partition, Seconds)
        every = self._options.tick_every_s
        first = partition.first + -partition.first % every
        return ((second,) for second in range(first, partition.end, every))

    def _quiet(self) -> bool:
        try:
            end = sum(kafka_intake.newest(self._options.storage).values())
        except StorageUnavailable:
            return False
        return self._requests.quiet(end, time.monotonic())

    def _newest(self) -> int | None:
        """None while Kafka does not say: the next batch asks again."""
        latest = int(time.time()) + self._options.behind_s + self._options.ticks_ahead_s
        try:
            return _ticks(self._options.storage).newest(latest)
        except StorageUnavailable as error:
            log.warning("ticks_not_read", error=error.detail)
            return None


class RequestActivity:
    """Whether requests have come lately, by where `timer-request` ends. Pure."""

    def __init__(self) -> None:
        self._end = -1
        self._moved_at = 0.0

    def quiet(self, end: int, now: float) -> bool:
        if end != self._end:
            self._end, self._moved_at = end, now
        return now - self._moved_at > QUIET_AFTER


def advanced(start: int, newest: int | None, every: int, early: int = 0) -> int:
    """Where a batch ends: with a second that is joined, since for the others no batch has to run. With `every` for a stretch
    and how `early` that is opened, that is the last second that opens one. Time does not go back."""
    return start if newest is None else min(max(start, newest - (newest + early) % every), start + MOST_S)


@cache
def _ticks(storage: Storage) -> TickConsumer:
    """One for all batches. It cannot be sent to a task, so it belongs to no object that is."""
    return TickConsumer(storage)
