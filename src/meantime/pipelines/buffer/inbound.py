"""The inbound half of a time buffer: a Spark stream from a Kafka topic or an event type into the buffer's topic.

A record is due at its timestamp plus the delay, and its id is its place in the source. However often a batch is
written, it is one message; the topic remembers ids of messages that went out (`dedupe`), so that a batch that is
replayed late brings nothing back.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from meantime.kafka.java_settings import connector_options
from meantime.kafka.settings import Storage
from meantime.pipelines.buffer.model import Endpoint
from meantime.pipelines.spark.broker import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

GROUP = "meantime-buffer"


@dataclass(frozen=True, slots=True)
class Inbound:
    broker: Broker
    storage: Storage
    source: Endpoint
    topic: str
    delay_ms: int
    checkpoint: str
    starting: str = "begin"
    max_per_batch: int = 100_000
    batch_every: float = 0.5
    postgres: str | None = None


def start_inbound(spark: "SparkSession", inbound: Inbound, *, once: bool) -> "StreamingQuery":
    frame = _of_event_type(spark, inbound) if inbound.source.is_event_type else _of_kafka(spark, inbound)
    writer = _messages(frame, inbound.delay_ms).writeStream.queryName(inbound.topic).format("meantime.topic")
    options = {
        "url": inbound.broker.url,
        "key": inbound.broker.key,
        "topic": inbound.topic,
        "producer_group": GROUP,
        "postgres": inbound.postgres,
        "checkpointLocation": inbound.checkpoint,
    }
    writer = writer.options(**{name: value for name, value in options.items() if value})
    trigger = {"availableNow": True} if once else {"processingTime": f"{inbound.batch_every} seconds"}
    return writer.trigger(**trigger).start()


def _of_kafka(spark: "SparkSession", inbound: Inbound) -> "DataFrame":
    from pyspark.sql import functions as f

    source = spark.readStream.format("kafka").options(**connector_options(inbound.storage))
    source = source.option("subscribe", inbound.source.name).option("includeHeaders", "true")
    source = source.option("startingOffsets", "earliest" if inbound.starting == "begin" else "latest")
    source = source.option("kafka.isolation.level", "read_committed").option("maxOffsetsPerTrigger", inbound.max_per_batch)
    headers = f.transform("headers", lambda one: f.struct(one.key.alias("key"), f.base64(one.value).alias("value")))
    return source.load().select(
        f.concat_ws("-", "partition", "offset").alias("id"),
        f.unix_millis("timestamp").alias("written_ms"),
        f.struct(f.base64("key").alias("key"), f.base64("value").alias("value"), headers.alias("headers")).alias("record"),
    )


def _of_event_type(spark: "SparkSession", inbound: Inbound) -> "DataFrame":
    from pyspark.sql import functions as f

    source = spark.readStream.format("meantime.events").option("url", inbound.broker.url)
    source = source.option("event_type", inbound.source.name).option("starting", inbound.starting)
    known = {"key": inbound.broker.key, "postgres": inbound.postgres}
    source = source.options(**{name: value for name, value in known.items() if value})
    return (
        source.option("max_per_batch", str(inbound.max_per_batch))
        .load()
        .select(
            f.concat_ws(":", "partition", "cursor").alias("id"),
            f.unix_millis("written_at").alias("written_ms"),
            f.struct(f.base64(f.col("event").cast("binary")).alias("value")).alias("record"),
        )
    )


def _messages(frame: "DataFrame", delay_ms: int) -> "DataFrame":
    from pyspark.sql import functions as f

    return frame.select("id", (f.col("written_ms") + f.lit(delay_ms)).alias("at_ms"), f.to_json("record").alias("body"))
