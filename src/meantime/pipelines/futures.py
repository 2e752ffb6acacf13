"""The slow hand: `oscillator` joined with `timer-request` in one Spark query.

    timer-request ──► the tick that hands its stretch out, or the next if that is past or it is refused, packed ──┐
                                                      join on (tick, shard) ──────────────────────────────────────┼─► due
    oscillator ─────► a tick of every few seconds, once per shard ───────────────────────────────────────────────┘  rejected

The invariant: every request leaves this query at least once. The tick that it meets lies ahead of the clock when the request
is taken in, so it has yet to come or is remembered: ticks are kept for `remember_ticks_s` after the newest one, which runs
ahead of the clock by the lead. (A machine whose clock falls behind by a minute while the query runs would break this.)
The watermark is on the ticks alone: were it on requests too, state would not be freed once requests pause.

A stretch is handed out `early_s` before it begins, for a batch that takes in a burst holds the next tick up. Seconds are
joined by the stretch, because with each batch Spark looks through the keys that are pending, not through the timers: a day
has few thousand of them, whatever waits in it; and because requests that meet the same tick share a row (`packing`), which
is what makes taking them in cheap. A batch takes a bounded number of requests, so that a burst of them cannot keep ticks
waiting. What comes out twice after a crash is dropped by the dispatcher.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from meantime.pipelines.packing import packed
from meantime.timers import rules
from meantime.timers.model import Limits
from meantime.timers.topics import DUE, OSCILLATOR, REJECTED, REQUEST

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamReader

TOKEN = r"\A[0-9A-Za-z._:@-]{1,128}\z"
SECOND = r"\A[0-9]{1,12}\z"
NOW = "cast(java_method('java.lang.System', 'currentTimeMillis') as bigint) div 1000"
"""The present second. Spark writes its own into each batch's program as a number, and so compiles every batch anew."""

FETCHING = {"max.poll.records": "4000", "max.partition.fetch.bytes": str(4 * 1024 * 1024)}
"""Requests are small, and Kafka's client has much to do each time that it is asked for some."""

LAYOUT = "packs"
"""What the join keeps, by name. Spark cannot read what another version has kept, so each has a checkpoint of its own: the
first start reads all requests again, and what has fired does not fire again."""


@dataclass(frozen=True, slots=True)
class FuturesOptions:
    kafka: str
    checkpoint: str
    shares: int
    """Partitions of `timer-due`."""
    limits: Limits = field(default_factory=Limits)
    shards: int = 4
    batch_every: float = 2.5
    max_requests: int = 250_000
    """Most requests in one micro-batch."""
    tick_every_s: int = 5
    """Of the oscillator's ticks one in so many is joined; a request that is late waits for the next of them."""
    stretch_s: int = 30
    """Seconds that are handed out at once, a multiple of `tick_every_s`."""
    early_s: int = 20
    """How long before its first second a stretch is handed out, a multiple as well."""
    remember_ticks_s: int = 65
    """More than the lead, by as much as clocks may differ."""
    started_ms: int = 0
    """Where ticks are read from when there is no checkpoint."""
    behind_s: int = 0
    """How far the clock of this machine is behind the oscillator's."""


def start_futures(spark: "SparkSession", options: FuturesOptions) -> "StreamingQuery":
    """Start the query, or resume it from its checkpoint. Without one all requests are read again from the beginning."""
    outgoing = joined(read_requests(spark, options), read_ticks(spark, options), options)
    writer = outgoing.writeStream.queryName("futures").format("kafka").outputMode("append")
    writer = writer.option("kafka.bootstrap.servers", options.kafka)
    writer = writer.option("checkpointLocation", f"{options.checkpoint.rstrip('/')}/{LAYOUT}")
    writer = writer.option("kafka.compression.type", "lz4").option("kafka.linger.ms", "5")
    return writer.trigger(processingTime=f"{options.batch_every} seconds").start()


def read_requests(spark: "SparkSession", options: FuturesOptions) -> "DataFrame":
    """One row a request: what it asks for, and why it is refused if it is."""
    from pyspark.sql import functions as f

    source = _source(spark, options, REQUEST).option("startingOffsets", "earliest").option("includeHeaders", "true")
    for name, value in FETCHING.items():
        source = source.option(f"kafka.{name}", value)
    raw = source.option("maxOffsetsPerTrigger", options.max_requests).load()
    cancel, given = _header("cancel"), _header("token")
    place = f.concat_ws("-", "partition", "offset")
    text = f.col("key").cast("string")
    parsed = raw.select(
        "key",
        "value",
        "headers",
        f.when(text.rlike(SECOND), text.cast("bigint")).alias("second"),
        f.when(cancel.isNotNull(), cancel.value)
        .otherwise(f.when(given.isNotNull(), given.value).otherwise(place.cast("binary")))
        .cast("string")
        .alias("token"),
        cancel.isNotNull().alias("cancels"),
        f.unix_millis("timestamp").alias("requested_ms"),
    )
    judged = parsed.withColumn("reason", _reason(options.limits))
    # What is not refused needs its headers no more, and is kept without them. Columns with an inner life are dear to pack.
    return judged.withColumn("headers", f.when(f.col("reason").isNotNull(), f.to_json("headers")))


def _header(name: str) -> "Column":
    """The last header of that name, as a struct; null without one. Most requests have one header, and looking for it among
    several is dear."""
    from pyspark.sql import functions as f

    only = f.get("headers", f.lit(0))
    among = f.try_element_at(f.filter("headers", lambda header: header.key == name), f.lit(-1))
    return f.when(f.size("headers") == 1, f.when(only.key == name, only)).otherwise(among)


def _reason(limits: Limits) -> "Column":
    """The same verdict in the same order as `rules.read`, as far as it goes without opening the message."""
    from pyspark.sql import functions as f

    size = f.coalesce(f.octet_length("value"), f.lit(0))
    faults = (
        (f.col("second").isNull(), rules.NO_SECOND),
        (~f.coalesce(f.col("token").rlike(TOKEN), f.lit(False)), rules.BAD_TOKEN),
        (f.col("cancels") & (size > 0), rules.BAD_CANCEL),
        (f.col("second") > f.floor(f.col("requested_ms") / 1000) + limits.horizon_s, rules.TOO_FAR),
        (size > limits.max_request_bytes, rules.TOO_LARGE),
    )
    verdict = f.when(*_fault(*faults[0]))
    for fault in faults[1:]:
        verdict = verdict.when(*_fault(*fault))
    return verdict


def _fault(condition: "Column", reason: str) -> tuple["Column", "Column"]:
    from pyspark.sql import functions as f

    return condition, f.lit(reason)


def read_ticks(spark: "SparkSession", options: FuturesOptions) -> "DataFrame":
    from pyspark.sql import functions as f

    source = _source(spark, options, OSCILLATOR).option("startingTimestamp", options.started_ms - 600_000)
    raw = source.option("startingOffsetsByTimestampStrategy", "latest").load()
    second = f.col("key").cast("string").try_cast("bigint")
    shards = f.explode(f.sequence(f.lit(0), f.lit(options.shards - 1))).alias("tick_shard")
    opening = raw.where(second % options.tick_every_s == 0).select(f.timestamp_seconds(second).alias("tick"))
    return opening.withWatermark("tick", f"{options.remember_ticks_s} seconds").select("tick", shards)


def joined(requests: "DataFrame", ticks: "DataFrame", options: FuturesOptions) -> "DataFrame":
    from pyspark.sql import functions as f

    upcoming = f.col("now") - f.col("now") % options.tick_every_s + options.tick_every_s
    handed_out = f.greatest(f.col("second") - f.col("second") % options.stretch_s - options.early_s, upcoming)
    waiting = requests.withColumn("now", f.expr(NOW) + options.behind_s).select(
        f.when(f.col("reason").isNull(), handed_out).otherwise(upcoming).alias("meets"),
        *("key", "value", "headers", "token", "cancels", "requested_ms", "reason"),
    )
    packs = packed(waiting, options.shards).withColumn("meets", f.timestamp_seconds("meets"))
    met = packs.join(ticks, (f.col("meets") == f.col("tick")) & (f.col("shard") == f.col("tick_shard")))
    refused = f.col("reason").isNotNull()
    return met.select(f.inline("requests")).select(
        f.when(refused, f.lit(REJECTED)).otherwise(f.lit(DUE)).alias("topic"),
        f.when(refused, f.lit(0)).otherwise(_share(options)).alias("partition"),
        "key",
        "value",
        f.when(refused, _refused_headers()).otherwise(_due_headers()).alias("headers"),
    )


HEADERS = "array<struct<key:string,value:binary>>"


def _refused_headers() -> "Column":
    """The record's own, and why."""
    from pyspark.sql import functions as f

    reason = _made_header("reason", f.col("reason").cast("binary"))
    return f.concat(f.coalesce(f.from_json("headers", HEADERS), f.array().cast(HEADERS)), f.array(reason))


def _due_headers() -> "Column":
    """Which timer it is, whether it is set or cancelled, and when Kafka got the request."""
    from pyspark.sql import functions as f

    name = f.when(f.col("cancels"), f.lit("cancel")).otherwise(f.lit("token"))
    token = _made_header(name, f.col("token").cast("binary"))
    requested = _made_header("requested", f.col("requested_ms").cast("string").cast("binary"))
    return f.array(token, requested)


def _made_header(name: "str | Column", value: "Column") -> "Column":
    from pyspark.sql import functions as f

    key = f.lit(name) if isinstance(name, str) else name
    return f.struct(key.alias("key"), value.alias("value"))


def _share(options: FuturesOptions) -> "Column":
    """As `rules.share_of`."""
    from pyspark.sql import functions as f

    return f.pmod(f.crc32(f.col("token").cast("binary")), f.lit(options.shares)).cast("int")


def _source(spark: "SparkSession", options: FuturesOptions, topic: str) -> "DataStreamReader":
    source = spark.readStream.format("kafka").option("kafka.bootstrap.servers", options.kafka).option("subscribe", topic)
    # Requests may be written in transactions; what was given up must not fire. Old records may be gone by retention.
    return source.option("kafka.isolation.level", "read_committed").option("failOnDataLoss", "false")
