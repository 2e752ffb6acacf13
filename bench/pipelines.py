"""Pipelines against Spark's plain Kafka connector, in one Spark, on the same records.

    python bench/pipelines.py [events] [messages]

Read: an event type with ten timelines on two clusters, by `format("meantime.events")` and natively, against
one plain topic with the same records; the ways take turns, after each has run once. Stream: how many events a second
`meantime.events` takes through micro-batches, and how far behind it is while 20,000 events a second come in.
Write: a frame into a topic in PostgreSQL, twice.
"""

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from meantime import Client
from meantime.pipelines import events, register, session, write_topic
from meantime.stack.session import running

if TYPE_CHECKING:
    from multiprocessing.process import BaseProcess

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

TIMELINES, PARTITIONS, ROUNDS, PER_CALL = 10, 4, 5, 2000
PLAIN, EVENT_TYPE, STREAMED, TOPIC = "bench-plain", "bench-events", "bench-streamed", "bench-topic"
PACE, LASTING = 20_000, 30


def event(number: int) -> bytes:
    return msgspec.json.encode({"n": number, "customer": f"c-{number % 977}", "text": "x" * 150})


def fill(client: Client, kafka: str, count: int) -> None:
    """The same events into the event type, over its timelines, and into the plain topic."""
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(PLAIN, PARTITIONS, 1)])[PLAIN].result(30)
    client.create_event_type(EVENT_TYPE, partitions=PARTITIONS)
    storages = [storage.id for storage in client.storages()]
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20, "compression.type": "none"})
    per_timeline = count // TIMELINES
    for timeline in range(TIMELINES):
        for first in range(timeline * per_timeline, (timeline + 1) * per_timeline, PER_CALL):
            last = min(first + PER_CALL, (timeline + 1) * per_timeline)
            values = [event(number) for number in range(first, last)]
            client.publish_encoded(EVENT_TYPE, b"[%b]" % b",".join(values))
            for number, value in enumerate(values, first):
                producer.produce(PLAIN, value, partition=number % PARTITIONS)
            producer.flush(60)
        if timeline < TIMELINES - 1:
            client.switch(EVENT_TYPE, storages[(timeline + 1) % len(storages)])


def plain(spark: "SparkSession", kafka: str) -> "DataFrame":
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", kafka).option("subscribe", PLAIN)
    return reader.load().selectExpr("cast(value as string) event", "partition", "offset", "timestamp")


def seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def drained(frame: "DataFrame") -> None:
    frame.write.format("noop").mode("overwrite").save()


def compare_reads(spark: "SparkSession", kafka: str, url: str, count: int) -> None:
    ways: dict[str, Callable[[], DataFrame]] = {
        "plain connector, one topic": lambda: plain(spark, kafka),
        "events(), native": lambda: events(spark, EVENT_TYPE, url=url, native=True),
        "format meantime.events": lambda: spark.read.format("meantime.events").option("event_type", EVENT_TYPE).load(),
    }
    took: dict[str, list[float]] = {name: [] for name in ways}
    for name, way in ways.items():
        assert way().count() == count, name
    for _ in range(ROUNDS):
        for name, way in ways.items():
            took[name].append(seconds(lambda way=way: drained(way())))
    middle = {name: statistics.median(times) for name, times in took.items()}
    base = middle["plain connector, one topic"]
    print(f"batch read of {count:,} events, {TIMELINES} timelines on two clusters (median of {ROUNDS}, best in brackets)")
    for name, median in middle.items():
        best = count / min(took[name])
        print(f"  {name:28} {count / median:>10,.0f}/s ({best:,.0f}/s)   ratio {base / median:.2f}")


def stream(spark: "SparkSession", count: int) -> None:
    source = spark.readStream.format("meantime.events").option("event_type", EVENT_TYPE).option("starting", "begin").load()
    with tempfile.TemporaryDirectory() as folder:
        writer = source.writeStream.format("noop").option("checkpointLocation", folder).trigger(availableNow=True)
        took = seconds(lambda: writer.start().awaitTermination())
    print(f"stream of {count:,} events in batches of 200,000: {count / took:,.0f}/s")


def produce(kafka: str, topic: str, count: int, pace: int) -> None:
    """Straight into the topic of the active timeline, as evenly as a clock: only reading is measured here."""
    producer = Producer({"bootstrap.servers": kafka, "linger.ms": 20, "queue.buffering.max.messages": count})
    value, began = event(0), time.perf_counter()
    for number in range(count):
        producer.produce(topic, value, partition=number % PARTITIONS)
        if number % (pace // 100) == 0:
            producer.poll(0)
            time.sleep(max(0.0, began + number / pace - time.perf_counter()))
    assert producer.flush(60) == 0


def keep_up(spark: "SparkSession", client: Client) -> None:
    """How many events a stream is behind, from the moment at which it runs."""
    client.create_event_type(STREAMED, partitions=PARTITIONS)
    kafka = {one.id: one.kafka_configuration.bootstrap_servers for one in client.storages()}
    active = client.timelines(STREAMED)[-1]
    source = spark.readStream.format("meantime.events").option("event_type", STREAMED).option("starting", "begin").load()
    with tempfile.TemporaryDirectory() as folder:
        query = source.writeStream.format("noop").option("checkpointLocation", folder).start()
        arguments = (kafka[active.storage_id], active.topic, PACE * LASTING, PACE)
        producing = multiprocessing.get_context("spawn").Process(target=produce, args=arguments)
        producing.start()
        behind = [lag for lag in samples(client, query, producing) if lag is not None]
        finished = time.perf_counter()
        while reached(query) < PACE * LASTING:
            time.sleep(0.05)
        drained_after = time.perf_counter() - finished
        batches = [one.batchDuration for one in query.recentProgress if one.numInputRows]
        query.stop()
    batch_ms = statistics.median(batches)
    print(f"stream at {PACE:,} events/s for {LASTING} s: at most {max(behind):,} behind ({max(behind) / PACE:.1f} s),")
    print(f"  {behind[-1]:,} at the end, drained {drained_after:.1f} s later; median batch {batch_ms:,.0f} ms")


def samples(client: Client, query: "StreamingQuery", producing: "BaseProcess") -> Iterator[int | None]:
    """Events that are in Kafka and not read yet, twice a second while they are produced."""
    while producing.is_alive():
        time.sleep(0.5)
        if query.exception() is not None:
            raise RuntimeError(str(query.exception()))
        written = passed(one.newest_available_offset for one in client.partitions(STREAMED))
        yield written - reached(query) if written else None


def reached(query: "StreamingQuery") -> int:
    """How many events the last batch that is done has reached, from the first one on."""
    progress = query.lastProgress
    places = json.loads(progress.sources[0].endOffset) if progress and progress.sources else {}
    return passed(places.values())


def passed(cursors: Iterable[str]) -> int:
    """How many events lie before and at these places of one timeline."""
    return sum(int(text.split("-", 2)[2]) + 1 for text in cursors)


def write(spark: "SparkSession", client: Client, count: int) -> None:
    from pyspark.sql import functions as f

    client.create_topic(TOPIC)
    now_ms = client.clock().now_ms
    frame = spark.range(count).select(
        f.concat(f.lit("m-"), f.lpad(f.col("id").cast("string"), 9, "0")).alias("id"),
        (f.lit(now_ms + 3_600_000) + f.col("id") * 10).alias("at_ms"),
        f.to_json(f.struct("id", f.lit("x" * 150).alias("text"))).alias("body"),
    )
    for run in ("first", "second"):
        began = time.perf_counter()
        tally = write_topic(frame, TOPIC)
        took = time.perf_counter() - began
        print(f"{run} write of {count:,} messages: {count / took:,.0f}/s, {tally}")
    assert client.count(TOPIC) == count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("events", type=int, nargs="?", default=1_000_000)
    parser.add_argument("messages", type=int, nargs="?", default=1_000_000)
    asked = parser.parse_args()
    count, messages = asked.events, asked.messages
    with tempfile.TemporaryDirectory() as folder, running(Path(folder) / "data", nodes=1, kafka=2, port=None) as places:
        url = places.nodes[0].url
        with Client(url) as client:
            fill(client, places.kafka[0], count)
            spark = register(session("bench", memory="2g"), {"url": url, "postgres": places.postgres})
            spark.sparkContext.setLogLevel("ERROR")
            try:
                compare_reads(spark, places.kafka[0], url, count)
                stream(spark, count)
                keep_up(spark, client)
                write(spark, client, messages)
            finally:
                spark.stop()


if __name__ == "__main__":
    main()
