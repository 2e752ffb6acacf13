"""`timer-request` as a stream of packs.

Spark's own Kafka source makes a row of every request, and a row costs more than all that happens to the request otherwise.
Here tasks read ranges of requests and hand over packs of them, so Spark sees a row for each tick that is met. Offsets have
the form of Spark's Kafka source.
"""

from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import datasource
from pyspark.sql.streaming.datasource import ReadLimit

from meantime.pipelines.event_types.ranges import Range, shares, tasks
from meantime.pipelines.timers import kafka_intake
from meantime.pipelines.timers.intake import FuturesOptions
from meantime.pipelines.timers.packing import PACKS
from meantime.timers.topics import REQUEST

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Offsets = dict[str, dict[str, int]]
"""As in `{"timer-request": {"0": 17}}`: the next request of each partition."""
NAME = "meantime.timer-requests"


def read_packs(spark: "SparkSession", options: FuturesOptions) -> "DataFrame":
    """A stream with the columns of `PACKS`."""
    spark.dataSource.register(RequestsSource)
    reader = spark.readStream.format(NAME).option("futures", msgspec.json.encode(options).decode())
    return reader.option("parallelism", spark.sparkContext.defaultParallelism).load()


class RequestsSource(datasource.DataSource):
    """Spark's way in."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._futures = msgspec.json.decode(options["futures"], type=FuturesOptions)
        self._parallelism = int(options["parallelism"])

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return PACKS

    def streamReader(self, schema: "StructType") -> "RequestsReader":  # noqa: N802
        return RequestsReader(self._futures, self._parallelism)


class RequestRanges(datasource.InputPartition):
    """What one task reads."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        self.ranges = ranges


class RequestsReader(datasource.DataSourceStreamReader):
    def __init__(self, options: FuturesOptions, parallelism: int) -> None:
        self._options = options
        self._parallelism = parallelism

    def initialOffset(self) -> Offsets:  # noqa: N802
        return _offsets(kafka_intake.oldest(self._options.storage))

    def latestOffset(self, start: Offsets, limit: ReadLimit) -> Offsets:  # noqa: N802
        first, newest = _places(start), kafka_intake.newest(self._options.storage)
        return _offsets(advanced(first, newest, self._most(waiting(first, newest), first)))

    def _most(self, counts: Mapping[int, int], first: Mapping[int, int]) -> int:
        """How many requests a batch takes. If they could be too large together, the next ones are looked at."""
        options = self._options
        taken = min(sum(counts.values()), options.max_requests)
        if taken * options.limits.max_request_bytes <= options.max_bytes:
            return options.max_requests
        longest = max(counts, key=lambda partition: counts[partition])
        begin = first.get(longest, 0)
        sampled = Range(REQUEST, REQUEST, 0, longest, begin, begin + min(counts[longest], options.max_requests))
        weight = kafka_intake.weight(options.storage, sampled) or options.limits.max_request_bytes
        return max(1, min(options.max_requests, options.max_bytes // weight))

    def reportLatestOffset(self) -> Offsets:  # noqa: N802
        return _offsets(kafka_intake.newest(self._options.storage))

    def partitions(self, start: Offsets, end: Offsets) -> list[RequestRanges]:
        """Requests that are gone are older than the horizon, so nobody waits for them."""
        first, until = _places(start), _places(end)
        there = kafka_intake.oldest(self._options.storage)
        begins = {partition: max(first.get(partition, 0), there.get(partition, 0)) for partition in until}
        ranges = [Range(REQUEST, REQUEST, 0, partition, begins[partition], last) for partition, last in until.items()]
        pieces = tasks([one for one in ranges if one.first < one.end], self._parallelism)
        return [RequestRanges(task) for task in pieces or [()]]

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        assert isinstance(partition, RequestRanges)
        return kafka_intake.packs(partition.ranges, self._options)


def advanced(start: Mapping[int, int], ends: Mapping[int, int], most: int) -> dict[int, int]:
    """Where a batch of at most so many requests ends; every partition gets its share of them."""
    counts = waiting(start, ends)
    if sum(counts.values()) > most:
        given = shares({str(partition): count for partition, count in counts.items()}, most)
        counts = {partition: given[str(partition)] for partition in counts}
    return {partition: start.get(partition, 0) + count for partition, count in counts.items()}


def waiting(start: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    return {partition: max(0, end - start.get(partition, 0)) for partition, end in ends.items()}


def _offsets(places: Mapping[int, int]) -> Offsets:
    return {REQUEST: {str(partition): offset for partition, offset in places.items()}}


def _places(offsets: Mapping[str, Mapping[str, int]]) -> dict[int, int]:
    return {int(partition): offset for partition, offset in offsets[REQUEST].items()}
