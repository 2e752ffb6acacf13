"""The archive: event types as Parquet files, `event_type=…/date=…/hour=…`, every event once.

Columns are those of `meantime.events`, and `fields`, the event parsed by its JSON schema where that names properties; the
column `event` is the event as it was, byte for byte. A batch is read by Spark's own Kafka connector between two cursors that
the journal names before it begins; it is a folder that all executors see. The connector fails when Kafka does not have all
of a range any more. So whatever offsets are missing in a batch held no event, and the journal counts them; what has expired
is told, counted and left behind.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import structlog
from msgspec.structs import replace

from meantime.pipelines.archive.hold import ArchiveHold, archive_name, archived_timeline
from meantime.pipelines.archive.journal import Journal, JournalEntry
from meantime.pipelines.archive.json_schema import fields_type
from meantime.pipelines.event_types.layout import Cursors, EventTypeLayout, cursors, look_up, storages, texts
from meantime.pipelines.event_types.native import frame
from meantime.pipelines.event_types.ranges import advanced, between, lags
from meantime.pipelines.spark.meters import StreamProgress, note_progress
from meantime.pipelines.spark.places import Place, address_of, found, move_in, readable, remove_tree
from meantime.sdk.client import Client
from meantime.streams.cursors import Cursor

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ArchiveOptions:
    folder: Place
    max_rows: int = 1_000_000
    kafka: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Settings of Kafka's Java client by storage."""
    hold: bool | None = None
    """Whether clean-up of closed timelines shall wait for this archive; None leaves it as it is."""
    postgres: str | None = None
    """Where credentials for Kafka are looked up that `kafka` does not have."""


class Archiver:
    """Writes one event type to an archive."""

    def __init__(self, spark: "SparkSession", client: Client, event_type: str, options: ArchiveOptions) -> None:
        self._spark = spark
        self._client = client
        self._options = options
        self.event_type = event_type
        self.journal = Journal(options.folder, event_type)
        declared = client.event_type(event_type)
        schema = declared.schema.schema if declared.schema else ""
        self._fields = fields_type(declared.category or "undefined", schema)
        self._hold = ArchiveHold(client, event_type, archive_name(options.folder))

    def run(self, stopping: Callable[[], bool]) -> int:
        """Archive everything that is there by now; returns how many events that were."""
        total = 0
        if self._options.hold is False:
            self._hold.remove()
        while not stopping():
            self._advance_hold()
            rows = self.run_batch()
            if rows is None:
                return total
            total += rows
        return total

    def run_batch(self) -> int | None:
        """One batch, the unfinished one first; None when there is nothing to do."""
        layout = look_up(self._client, self.event_type)
        plan = self.journal.plan() or self._planned(layout)
        if plan is None:
            return None
        self.journal.begin(plan)
        self._clear(plan)
        if gone := self._expired(layout, plan):
            return self._skip(plan, gone)
        expected = self._write(layout, plan)
        if self._expired(look_up(self._client, self.event_type), plan):
            return 0  # while it was being read: the same plan again, without that
        rows = self._publish(plan)
        self.journal.finish(replace(plan, rows=rows, empty=expected - rows))
        note_progress(StreamProgress(f"archive {self.event_type}", plan.number, rows))
        return rows

    def _expired(self, layout: EventTypeLayout, plan: JournalEntry) -> dict[str, Cursor]:
        """Where the batch would begin after what Kafka does not have any more, by partition; empty if it has all."""
        places = cursors(plan.start)
        return {name: oldest for name, oldest in layout.oldest.items() if _count(layout, name, places[name], oldest) > 0}

    def _skip(self, plan: JournalEntry, gone: Mapping[str, Cursor]) -> int:
        """What has expired cannot be archived: the journal says how much that was, and the archive goes on after it."""
        layout = look_up(self._client, self.event_type)
        start = cursors(plan.start)
        expired = sum(_count(layout, name, start[name], oldest) for name, oldest in gone.items())
        log.error("events_expired_before_they_were_archived", event_type=self.event_type, events=expired)
        self.journal.finish(replace(plan, end=texts({**start, **gone}), expired=expired))
        return 0

    def _advance_hold(self) -> None:
        """Where clean-up waits for this archive, let it go on up to the last timeline that is archived."""
        if self._options.hold or self._hold.wanted:
            layout = look_up(self._client, self.event_type)
            self._hold.advance(archived_timeline(layout, self._reached(layout)))

    def _reached(self, layout: EventTypeLayout) -> Cursors:
        last = self.journal.last()
        return cursors(last.end) if last else layout.oldest

    def _planned(self, layout: EventTypeLayout) -> JournalEntry | None:
        last = self.journal.last()
        start = self._reached(layout)
        if not any(lags(layout, start).values()):
            return None
        end = advanced(layout, start, self._options.max_rows)
        return JournalEntry(last.number + 1 if last else 1, texts(start), texts(end))

    def _clear(self, plan: JournalEntry) -> None:
        """Removes what an interrupted attempt at this batch has left."""
        remove_tree(self.journal.staging)
        for file in found(self.journal.data, f"date=*/hour=*/b{plan.number:010d}-*.parquet"):
            file.unlink()

    def _write(self, layout: EventTypeLayout, plan: JournalEntry) -> int:
        borders = (cursors(plan.start), cursors(plan.end))
        clusters = storages(self._client, {}, self._options.postgres)
        events = frame(self._spark, layout, borders, clusters, self._options.kafka)
        writer = _with_hours(events, self._fields).repartition("date", "hour").write.mode("overwrite")
        writer.partitionBy("date", "hour").parquet(address_of(self.journal.staging))
        return sum(one.count for one in between(layout, *borders))

    def _publish(self, plan: JournalEntry) -> int:
        from pyarrow import parquet

        """Move the files in; they are on the disk when this returns, because clean-up trusts the journal."""
        rows = 0
        for number, file in enumerate(found(self.journal.staging, "date=*/hour=*/*.parquet")):
            rows += parquet.read_metadata(readable(file)).num_rows
            home = self.journal.data / file.parent.relative_to(self.journal.staging)
            move_in(file, home / f"b{plan.number:010d}-{number:04d}.parquet", self.journal.archive)
        remove_tree(self.journal.staging)
        return rows


def _count(layout: EventTypeLayout, partition: str, after: Cursor, until: Cursor) -> int:
    return layout.track(partition).distance(after, until)


def _with_hours(events: "DataFrame", fields: str | None) -> "DataFrame":
    from pyspark.sql import functions as f

    if fields:
        events = events.withColumn("fields", f.from_json("event", fields))
    date, hour = f.date_format("written_at", "yyyy-MM-dd"), f.date_format("written_at", "HH")
    return events.withColumn("date", date).withColumn("hour", hour)
