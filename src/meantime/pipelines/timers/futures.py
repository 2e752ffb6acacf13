"""The Spark job of timers: `oscillator` joined with `timer-request` in one Spark query.

    timer-request ──► judged, packed by the tick that lets them go ──┐
                                       join on (tick, shard) ────────┼──► unpacked ──► timer-due
    oscillator ─────► a tick of every few seconds, once per shard ───┘                 timer-rejected

The invariant: every request leaves this query at least once. The tick that it meets lies ahead of the clock when the request
is taken in, so it has yet to come or is remembered: ticks are kept for `remember_ticks_s` after the newest one, which runs
ahead of the clock by the lead. No tick is missing, whatever Kafka has forgotten of them (`tick_source`). (A machine whose
clock falls behind by a minute while the query runs would break this.)
The watermark is on the ticks alone: were it on requests too, state would not be freed once requests pause.

A stretch is handed out `early_s` before it begins, for a batch that takes in a burst holds the next tick up. Seconds are
joined by the stretch, because with each batch Spark looks through the keys that are pending, not through the timers: a day
has few thousand of them, whatever waits in it; and because requests that meet the same tick share a row (`packing`), which
is what makes taking them in cheap. What is past or refused meets the next tick. A batch is bounded in requests and in
bytes, so that a burst cannot keep ticks waiting. What comes out twice after a crash is dropped by the dispatcher.
"""

from typing import TYPE_CHECKING

from meantime.kafka.java_settings import connector_options
from meantime.pipelines.timers.intake import FuturesOptions
from meantime.pipelines.timers.packing import unpacked

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LAYOUT = "ticks"
"""What the join keeps, by name. Spark cannot read what another version has kept, so each has a checkpoint of its own: the
first start reads all requests again, and what has fired does not fire again."""


def start_futures(spark: "SparkSession", options: FuturesOptions) -> "StreamingQuery":
    """Start the query, or resume it from its checkpoint. Without one all requests are read again from the beginning."""
    from meantime.pipelines.timers.request_source import read_packs

    outgoing = unpacked(joined(read_packs(spark, options), read_ticks(spark, options)), options.shares)
    writer = outgoing.writeStream.queryName("futures").format("kafka").outputMode("append")
    writer = writer.options(**connector_options(options.storage))
    writer = writer.option("checkpointLocation", f"{options.checkpoint.rstrip('/')}/{LAYOUT}")
    writer = writer.option("kafka.compression.type", "lz4").option("kafka.linger.ms", "5")
    return writer.trigger(processingTime=f"{options.batch_every} seconds").start()


def read_ticks(spark: "SparkSession", options: FuturesOptions) -> "DataFrame":
    from pyspark.sql import functions as f

    from meantime.pipelines.timers.tick_source import read_seconds

    shards = f.explode(f.sequence(f.lit(0), f.lit(options.shards - 1))).alias("tick_shard")
    opening = read_seconds(spark, options).select(f.timestamp_seconds("second").alias("tick"))
    return opening.withWatermark("tick", f"{options.remember_ticks_s} seconds").select("tick", shards)


def joined(packs: "DataFrame", ticks: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    waiting = packs.withColumn("meets", f.timestamp_seconds("meets"))
    return waiting.join(ticks, (f.col("meets") == f.col("tick")) & (f.col("shard") == f.col("tick_shard")))
