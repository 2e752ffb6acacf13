"""`format("meantime.events")`: an event type over all its timelines and clusters as one frame, in batch and as a stream.

The driver plans exact ranges of offsets; tasks read them from Kafka. The offset of a stream is a cursor for each
partition, so a switch of the storage is just another border between two ranges: no restart, no gap.
"""

from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from pyspark.sql import datasource
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from meantime.kafka.settings import Storage
from meantime.pipelines.event_types.layout import EventTypeLayout, cursors, look_up, storages, texts
from meantime.pipelines.event_types.ranges import Range, advanced, between, tasks
from meantime.pipelines.spark.broker import client_of
from meantime.pipelines.spark.causes import cause_first
from meantime.pipelines.spark.options import BEGIN, END, EventsOptions, events_options
from meantime.sdk.instants import unix_ms
from meantime.streams.cursors import Cursor, parse_partition

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COLUMNS = "event string, partition string, offset bigint, cursor string, timeline int, written_at timestamp"
CLOCKS_DIFFER_BY_MS = 60_000


@cause_first
class EventsSource(datasource.DataSource):
    """The data source that Spark loads. `defaults` is what `register` found on the driver."""

    defaults: ClassVar[Mapping[str, str]] = {}

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._settings = events_options(options, self.defaults)

    @classmethod
    def name(cls) -> str:
        return "meantime.events"

    def schema(self) -> str:
        """Fails for an event type that does not exist, before anything is planned."""
        with client_of(self._settings.broker) as client:
            client.event_type(self._settings.event_type)
        return COLUMNS

    def reader(self, schema: "StructType") -> "EventsBatchReader":
        return EventsBatchReader(self._settings)

    def streamReader(self, schema: "StructType") -> "EventsStreamReader":  # noqa: N802
        return EventsStreamReader(self._settings)


class EventsPartition(datasource.InputPartition):
    """What one task reads; without a storage it reads over HTTP."""

    def __init__(self, storage: Storage | None, ranges: tuple[Range, ...]) -> None:
        self.storage = storage
        self.ranges = ranges


def _plan(settings: EventsOptions, ranges: Sequence[Range], clusters: Mapping[str, Storage]) -> list[EventsPartition]:
    return [
        EventsPartition(clusters[task[0].storage_id] if clusters else None, task)
        for task in tasks(ranges, settings.parallelism)
    ]


def _read(settings: EventsOptions, part: EventsPartition) -> Iterator[Any]:
    if part.storage is None:
        from meantime.pipelines.event_types import http_reader

        return http_reader.read(settings.broker, settings.event_type, part.ranges)
    from meantime.pipelines.event_types import kafka_reader

    return kafka_reader.read(part.storage, part.ranges)


@cause_first
class EventsBatchReader(datasource.DataSourceReader):
    """Spark's filter pushdown is not used: in 4.2 a frame keeps the filters that were pushed for another frame made of it,
    and silently lacks rows. The options `partitions`, `written_from` and `written_until` say what need not be read."""

    def __init__(self, settings: EventsOptions) -> None:
        self._settings = settings

    def partitions(self) -> list[EventsPartition]:
        settings = self._settings
        with client_of(settings.broker) as client:
            layout = look_up(client, settings.event_type)
            clusters = storages(client, settings.kafka, settings.postgres) if settings.via == "kafka" else {}
        return _plan(settings, self._trimmed(self._ranges(layout), clusters), clusters) or [EventsPartition(None, ())]

    def _ranges(self, layout: EventTypeLayout) -> list[Range]:
        settings = self._settings
        start, stop = layout.resolved(settings.starting, BEGIN), layout.resolved(settings.ending, END)
        for name in settings.partitions:
            parse_partition(name, len(stop))
        found = between(layout, start, {name: stop[name] for name in settings.partitions or stop})
        latest_ms = self._latest_ms()
        if latest_ms is None:
            return found
        later = {one.order for one in layout.timelines if one.created_at_ms > latest_ms and one.order > 1}
        return [one for one in found if one.order not in later]

    def _trimmed(self, ranges: list[Range], clusters: Mapping[str, Storage]) -> list[Range]:
        """Over HTTP whole ranges are read: only Kafka can tell where an instant is."""
        earliest, latest_ms = self._settings.written_from, self._latest_ms()
        if (earliest is None and latest_ms is None) or not clusters:
            return ranges
        from meantime.pipelines.event_types.kafka_reader import written_between

        from_ms = None if earliest is None else unix_ms(earliest)
        used = sorted({one.storage_id for one in ranges})
        groups = [(clusters[id], [one for one in ranges if one.storage_id == id]) for id in used]
        return [left for storage, group in groups for left in written_between(storage, group, from_ms, latest_ms)]

    def _latest_ms(self) -> int | None:
        """After a record of this instant none is expected that `written_until` wants: publishers' clocks differ by less."""
        until = self._settings.written_until
        return None if until is None else unix_ms(until) + CLOCKS_DIFFER_BY_MS

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        assert isinstance(partition, EventsPartition)
        return _read(self._settings, partition)


@cause_first
class EventsStreamReader(datasource.DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Offsets are `{partition: cursor}`."""

    def __init__(self, settings: EventsOptions) -> None:
        self._settings = settings
        self._target: dict[str, Cursor] | None = None

    def initialOffset(self) -> dict[str, str]:  # noqa: N802
        return texts(self._layout().resolved(self._settings.starting, END))

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        return ReadMaxRows(self._settings.max_per_batch)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = dict(self._layout().newest)

    def latestOffset(self, start: dict[str, str], limit: ReadLimit) -> dict[str, str]:  # noqa: N802
        layout = self._layout()
        if self._target is not None:
            layout = EventTypeLayout(layout.event_type, layout.timelines, layout.oldest, self._target)
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return texts(advanced(layout, cursors(start), most))

    def reportLatestOffset(self) -> dict[str, str]:  # noqa: N802
        return texts(self._layout().newest)

    def partitions(self, start: dict[str, str], end: dict[str, str]) -> list[EventsPartition]:
        settings = self._settings
        with client_of(settings.broker) as client:
            layout = look_up(client, settings.event_type)
            clusters = storages(client, settings.kafka, settings.postgres) if settings.via == "kafka" else {}
        return _plan(settings, between(layout, cursors(start), cursors(end)), clusters)

    def read(self, partition: datasource.InputPartition) -> Iterator[Any]:
        assert isinstance(partition, EventsPartition)
        return _read(self._settings, partition)

    def _layout(self) -> EventTypeLayout:
        with client_of(self._settings.broker) as client:
            return look_up(client, self._settings.event_type)
