"""`events()`: an event type as a frame in one call, and how Spark's own Kafka connector reads it.

The connector makes one read per cluster with exact borders, unioned. No byte passes through Python, but Spark makes a
consumer for each partition of each timeline, which costs more than it saves where there are many. It needs the JVM to reach
every storage; settings of the storage are translated for Kafka's Java client, and others may be given by storage.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import msgspec

from meantime.errors import Invalid
from meantime.kafka.java_settings import java_settings
from meantime.kafka.settings import Storage
from meantime.pipelines.event_types.layout import Cursors, EventTypeLayout, look_up, storages
from meantime.pipelines.event_types.ranges import Range, between
from meantime.pipelines.spark.broker import client_of
from meantime.pipelines.spark.options import BEGIN, END, events_options
from meantime.streams.cursors import Cursor

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

Settings = Mapping[str, Mapping[str, str]]

PATIENCE = {"fetch.max.wait.ms": "20"}
"""Spark asks each partition for its ends first, and then waits for a fetch there that finds nothing: half a second for each
of many short timelines, if it may."""

DIGITS = 18
"""Of an offset in a cursor."""


def events(
    spark: "SparkSession",
    event_type: str,
    *,
    url: str | None = None,
    starting: str | None = None,
    ending: str | None = None,
    native: bool = False,
    kafka: Settings | None = None,
) -> "DataFrame":
    """All events of an event type between two places, with the columns of `meantime.events`.

    `starting` and `ending` are as the options. With `native` Spark's own Kafka connector reads; `kafka` has settings of
    Kafka's Java client by storage.

    >>> events(spark, "orders").groupBy("timeline").count().show()
    """
    given = {"event_type": event_type, "url": url, "starting": starting, "ending": ending}
    options = {name: value for name, value in given.items() if value}
    if kafka and not native:
        raise Invalid("settings of Kafka's Java client need native=True; else they are options", option="kafka")
    if native:
        return _native(spark, options, kafka or {})
    return spark.read.format("meantime.events").options(**options).load()


def _native(spark: "SparkSession", given: Mapping[str, str], kafka: Settings) -> "DataFrame":
    from meantime.pipelines.spark.environment import environment

    options = events_options(given, environment())
    with client_of(options.broker) as client:
        layout = look_up(client, options.event_type)
        clusters = storages(client, {}, options.postgres)
    start, stop = layout.resolved(options.starting, BEGIN), layout.resolved(options.ending, END)
    return frame(spark, layout, (start, stop), clusters, kafka)


def frame(
    spark: "SparkSession",
    layout: EventTypeLayout,
    borders: tuple[Cursors, Cursors],
    clusters: Mapping[str, Storage],
    kafka: Settings,
) -> "DataFrame":
    """What lies between two places."""
    groups: dict[str, list[Range]] = defaultdict(list)
    for one in between(layout, *borders):
        groups[one.storage_id].append(one)
    reads = [_read(spark, clusters[storage_id], ranges, kafka.get(storage_id, {})) for storage_id, ranges in groups.items()]
    return reduce(lambda left, right: left.union(right), reads) if reads else _nothing(spark)


def _read(spark: "SparkSession", storage: Storage, ranges: Sequence[Range], kafka: Mapping[str, str]) -> "DataFrame":
    """The ranges of one cluster. Every timeline has a topic of its own, so the topic identifies the timeline."""
    from pyspark.sql import functions as f

    # Who gives the Java client's own settings for a storage needs no translation of it.
    known = {"bootstrap.servers": storage.bootstrap_servers} if "security.protocol" in kafka else java_settings(storage)
    reader = spark.read.format("kafka")
    for name, value in {**known, **PATIENCE, **kafka}.items():
        reader = reader.option(f"kafka.{name}", value)
    reader = reader.option("kafka.isolation.level", "read_committed").option("failOnDataLoss", "true")
    reader = reader.option("assign", _json({topic: list(places) for topic, places in _by_topic(ranges, "first").items()}))
    reader = reader.option("startingOffsets", _json(_by_topic(ranges, "first")))
    reader = reader.option("endingOffsets", _json(_by_topic(ranges, "end")))
    orders = {one.topic: one.order for one in ranges}
    prefixes = {topic: str(Cursor(order, 0))[:-DIGITS] for topic, order in orders.items()}
    digits = f.lpad(f.col("offset").cast("string"), DIGITS, "0")
    return (
        reader.load()
        .where("value is not null")
        .select(
            f.col("value").cast("string").alias("event"),
            f.col("partition").cast("string").alias("partition"),
            f.col("offset"),
            f.concat(_by(f.col("topic"), prefixes), digits).alias("cursor"),
            _by(f.col("topic"), orders).alias("timeline"),
            f.col("timestamp").alias("written_at"),
        )
    )


def _by_topic(ranges: Sequence[Range], border: str) -> dict[str, dict[int, int]]:
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for one in ranges:
        found[one.topic][one.partition] = getattr(one, border)
    return found


def _by(column: "Column", values: "Mapping[str, str] | Mapping[str, int]") -> "Column":
    """Maps the values of a column."""
    from pyspark.sql import functions as f

    return f.create_map(*(f.lit(one) for pair in values.items() for one in pair))[column]


def _nothing(spark: "SparkSession") -> "DataFrame":
    columns = "event string, partition string, offset bigint, cursor string, timeline int, written_at timestamp"
    return spark.createDataFrame([], columns)


def _json(document: object) -> str:
    return msgspec.json.encode(document).decode()
