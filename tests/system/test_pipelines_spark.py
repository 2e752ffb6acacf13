"""Pipelines as users run them: Spark against a whole stack, commands as processes."""

import json
import runpy
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from matplotlib.image import imread
from pipelines_driver import command, wait_for

from conftest import RunningStack
from meantime import Client, EventType
from meantime.cli.main import run
from meantime.cli.pipeline.spark import error_of
from meantime.errors import Invalid
from meantime.pipelines import events, register, session, write_topic
from meantime.pipelines.archive.archive import ArchiveOptions, Archiver
from meantime.pipelines.archive.journal import JournalEntry
from meantime.pipelines.buffer.buffer import BufferOptions, prepare, run_in, run_out
from meantime.pipelines.buffer.model import Endpoint
from meantime.pipelines.event_types.source import EventsBatchReader
from meantime.pipelines.spark.broker import Broker
from meantime.pipelines.spark.meters import BufferLateness
from meantime.pipelines.spark.options import events_options
from meantime.pipelines.topics.files import messages, planned, read_files
from meantime.pipelines.topics.model import Tally

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.lane("spark"), pytest.mark.takes(seconds=330), pytest.mark.timeout(600)]

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="module")
def stack(cluster: RunningStack) -> RunningStack:
    return cluster


@pytest.fixture(scope="module")
def client(stack: RunningStack) -> Iterator[Client]:
    with Client(stack.urls[0]) as client:
        yield client


@pytest.fixture(scope="module")
def spark(stack: RunningStack) -> "Iterator[SparkSession]":
    spark = register(session("test"), {"url": stack.urls[0], "postgres": stack.places.postgres})
    spark.sparkContext.setLogLevel("OFF")
    yield spark
    spark.stop()


def publish(client: Client, name: str, first: int, count: int) -> None:
    client.publish(name, [{"n": n} for n in range(first, first + count)])


def switched(client: Client, *, switches: int, per_timeline: int = 50) -> str:
    """An event type whose events lie in several timelines on two clusters."""
    name = f"spark-{uuid4().hex[:8]}"
    client.create_event_type(name, partitions=2, schema={"properties": {"n": {"type": "integer"}}})
    storages = [storage.id for storage in client.storages()]
    for number in range(switches + 1):
        publish(client, name, number * per_timeline, per_timeline)
        if number < switches:
            client.switch(name, storages[number % 2])
    return name


def read(spark: "SparkSession", name: str, **options: str) -> "DataFrame":
    return spark.read.format("meantime.events").option("event_type", name).options(**options).load()


def numbers(frame: "DataFrame") -> list[int]:
    return sorted(json.loads(row["event"])["n"] for row in frame.collect())


def test_tasks_take_pyspark_as_it_is_installed_and_not_from_the_zip_of_spark(spark: "SparkSession") -> None:
    import pyspark

    taken = spark.sparkContext.parallelize([0], 1).map(lambda _: __import__("pyspark").__file__).first()
    assert Path(taken).samefile(pyspark.__file__)


def test_all_timelines_are_one_frame_however_they_are_read(
    spark: "SparkSession", client: Client, stack: RunningStack
) -> None:
    name = switched(client, switches=3)
    frame = read(spark, name)
    assert frame.columns == ["event", "partition", "offset", "cursor", "timeline", "written_at"]
    found = [tuple(row) for row in frame.collect()]
    assert sorted(json.loads(row[0])["n"] for row in found) == list(range(200))
    rows = set(found)
    assert {tuple(row) for row in events(spark, name).collect()} == rows
    assert {tuple(row) for row in events(spark, name, url=stack.urls[0], native=True).collect()} == rows
    assert {tuple(row) for row in read(spark, name, via="http").collect()} == rows
    some = read(spark, name, partitions="1", starting='{"1": "001-0002--1"}')
    assert {tuple(row) for row in some.collect()} == {row for row in rows if row[1] == "1" and row[4] > 1}


def test_what_options_say_is_not_needed_is_not_even_read(client: Client, stack: RunningStack) -> None:
    name = switched(client, switches=1)
    between_ms = client.clock().now_ms + 1
    time.sleep(0.01)
    publish(client, name, 100, 50)

    def offsets(**options: str) -> int:
        reader = EventsBatchReader(events_options({"event_type": name, **options}, {"url": stack.urls[0]}))
        return sum(one.count for part in reader.partitions() for one in part.ranges)

    assert offsets() == 150
    by_partition = [offsets(partitions="0"), offsets(partitions="1")]
    assert sum(by_partition) == 150
    assert min(by_partition) > 0
    assert offsets(written_from=datetime.fromtimestamp(between_ms / 1000, UTC).isoformat()) == 50
    assert offsets(written_from="2020-01-01T00:00:00Z") == 150
    assert offsets(written_until="2020-01-01T00:00:00Z") == 0


def test_a_stream_goes_on_over_a_switch_and_a_restart(spark: "SparkSession", client: Client, folder: Path) -> None:
    name = switched(client, switches=1)
    seen: list[int] = []

    def run() -> None:
        source = spark.readStream.format("meantime.events").option("event_type", name).option("starting", "begin")
        stream = source.option("max_per_batch", "60").load().writeStream.option("checkpointLocation", str(folder))
        stream.trigger(availableNow=True).foreachBatch(
            lambda frame, _: seen.extend(numbers(frame))
        ).start().awaitTermination()

    run()
    assert sorted(seen) == list(range(100))
    client.switch(name, client.storages()[0].id)
    publish(client, name, 100, 50)
    run()
    assert sorted(seen) == list(range(150))


def reminders(spark: "SparkSession", count: int, at_ms: int, prefix: str = "m") -> "DataFrame":
    rows = [(f"{prefix}{n}", at_ms, json.dumps({"n": n})) for n in range(count)]
    return spark.createDataFrame(rows, "id string, at_ms bigint, body string")


@pytest.fixture
def topic(client: Client) -> str:
    name = f"spark-{uuid4().hex[:8]}"
    client.create_topic(name)
    return name


def test_a_frame_is_written_once_however_often(spark: "SparkSession", client: Client, topic: str) -> None:
    frame = reminders(spark, 100, client.clock().now_ms + 3_600_000)
    assert write_topic(frame, topic) == Tally(created=100)
    assert write_topic(frame, topic) == Tally(exists=100)
    future = spark.read.format("meantime.topic").option("topic", topic).load()
    (first,) = future.where("id = 'm0'").collect()
    assert (first["status"], first["body"], first["version"], first["attempts"]) == ("waiting", '{"n": 0}', 1, 0)
    later = spark.read.format("meantime.topic").option("topic", topic).option("now_ms", str(first["at_ms"])).load()
    assert {row["status"] for row in later.collect()} == {"available"}


def test_a_bad_row_is_named_and_nothing_is_written(spark: "SparkSession", client: Client, topic: str, folder: Path) -> None:
    now_ms = client.clock().now_ms
    frame = reminders(spark, 5, now_ms).union(reminders(spark, 1, now_ms + 10**12, "far"))
    with pytest.raises(Exception, match="far0") as failure:
        write_topic(frame, topic)
    assert "more than" in error_of(str(failure.value)).detail
    assert client.count(topic) == 0
    assert write_topic(frame, topic, rejects=str(folder / "refused")) == Tally(created=5, rejected=1)
    assert json.loads((folder / "refused").read_text())["row"]["id"] == "far0"


def test_a_refused_row_of_a_file_is_kept_as_it_stood_with_the_reason(
    spark: "SparkSession", client: Client, topic: str, folder: Path
) -> None:
    file, refused = folder / "campaign.csv", folder / "refused.ndjson"
    file.write_text("id,at,name\na,2026-01-01T00:00:00Z,Ada\nb,tomorrow,Bob\nc,2999-01-01T00:00:00Z,Eve\n,2026-01-01,Kim\n")
    rows = messages(read_files(spark, [file]), keep_original=True)
    assert write_topic(rows, topic, rejects=str(refused)) == Tally(created=1, rejected=3)
    first, second, third = map(json.loads, refused.read_text().splitlines())
    assert first["row"] == {"id": "b", "at": "tomorrow", "name": "Bob"}
    assert first["error"] == "the instant cannot be read: at tomorrow"
    assert second["row"] == {"id": "c", "at": "2999-01-01T00:00:00Z", "name": "Eve"}
    assert third["row"] == {"at": "2026-01-01", "name": "Kim"}
    lines = folder / "campaign.ndjson"
    lines.write_text(
        '{"id": "d", "after_ms": 5, "name": "Zoe"}\n{"id": "e", \n{"id": "f", "after_ms": "soon", "name": "Liv"}\n'
    )
    rows = messages(read_files(spark, [lines]), keep_original=True)
    assert write_topic(rows, topic, rejects=str(refused)) == Tally(created=1, rejected=2)
    first, second = map(json.loads, refused.read_text().splitlines())
    assert first["row"] == {"_corrupt_record": '{"id": "e", '}
    assert second["row"] == {"id": "f", "after_ms": "soon", "name": "Liv"}


def test_a_plan_counts_apart_what_has_no_instant_that_can_be_read(spark: "SparkSession", folder: Path) -> None:
    file = folder / "campaign.csv"
    file.write_text("id,at,text\na,1970-01-01T00:00:05Z,x\nb,tomorrow,x\nc,,x\nd,1970-01-01T00:00:00Z,x\n")
    rows = messages(read_files(spark, [file]))
    assert planned(rows, 2000, 1000) == {5000: 1, 2000: 1, None: 2}
    found = {row["id"]: (row["at_ms"], row["unread"], row["body"]) for row in rows.collect()}
    assert found["a"] == (5000, None, '{"text":"x"}')
    assert found["b"] == (None, "the instant cannot be read: at tomorrow", '{"text":"x"}')


def test_a_row_of_csv_that_does_not_fit_the_header_is_refused_as_it_stood(spark: "SparkSession", folder: Path) -> None:
    file, other = folder / "campaign.csv", folder / "other.csv"
    file.write_text('id,after_ms,text\na,5,"one,\ntwo"\nb,5\nc,5,three,four\n')
    rows = messages(read_files(spark, [file]))
    assert planned(rows, 2000, 1000) == {2000: 1, None: 2}
    found = {row["id"]: (row["after_ms"], row["unread"], row["body"]) for row in rows.collect()}
    assert found["a"] == (5, None, '{"text":"one,\\ntwo"}')
    assert found["b"][:2] == (None, "the line cannot be read: b,5")
    assert found["c"][:2] == (None, "the line cannot be read: c,5,three,four")
    other.write_text("id,text,after_ms\nd,five,5\n")
    with pytest.raises(Exception, match="header"):
        messages(read_files(spark, [file, other])).collect()


def test_a_line_that_is_no_json_is_shown_as_it_stood(spark: "SparkSession", folder: Path) -> None:
    file = folder / "campaign.ndjson"
    file.write_text('{"id": "a", "after_ms": 5, "text": "x"}\n{"id": "b", \n')
    found = {(row["after_ms"], row["unread"], row["body"]) for row in messages(read_files(spark, [file])).collect()}
    assert found == {(5, None, '{"text":"x"}'), (None, 'the line cannot be read: {"id": "b", ', "{}")}
    file.write_text('{"id": "b", \n')
    with pytest.raises(Invalid, match="one object a line"):
        messages(read_files(spark, [file]))


def test_wrong_options_and_columns_are_named(spark: "SparkSession", topic: str) -> None:
    frame = reminders(spark, 1, 0)
    for write, named in (
        (lambda: write_topic(frame.drop("body"), topic), "column 'body' is missing"),
        (lambda: write_topic(frame, "nowhere"), "'nowhere' does not exist"),
        (lambda: write_topic(frame, topic, lease="1"), "no option 'lease'"),
        (lambda: read(spark, "nothing").collect(), "'nothing' does not exist"),
        (lambda: read(spark, "nothing", starting="soon").collect(), "option 'starting'"),
    ):
        with pytest.raises(Exception, match=r".") as failure:
            write()
        assert named in str(failure.value).splitlines()[0], "the cause comes first"
        assert "Traceback" not in str(failure.value)
        assert named in error_of(str(failure.value)).detail


def test_a_source_whose_nodes_are_not_there_says_so_first(spark: "SparkSession") -> None:
    for url, named in (("http://127.0.0.1:9", "http://127.0.0.1:9"), ("nodes", "'nodes'")):
        with pytest.raises(Exception, match=r".") as failure:
            read(spark, "orders", url=url).collect()
        assert named in str(failure.value).splitlines()[0]
        assert "Traceback" not in str(failure.value)


def test_an_error_of_the_users_own_code_keeps_its_stack(spark: "SparkSession") -> None:
    def broken(batches: Any) -> Any:
        raise LookupError("mine")

    with pytest.raises(Exception, match=r"in broken") as failure:
        spark.range(1).mapInArrow(broken, "id bigint").collect()
    assert "LookupError: mine" in str(failure.value)


def test_due_messages_are_streamed_once_and_a_replayed_batch_is_the_same(
    spark: "SparkSession", client: Client, topic: str, folder: Path
) -> None:
    write_topic(reminders(spark, 30, client.clock().now_ms), topic)
    batches: list[tuple[int, list[str]]] = []

    def run(*, fail: bool) -> None:
        def sink(frame: "DataFrame", number: int) -> None:
            batches.append((number, sorted(row["id"] for row in frame.collect())))
            if fail:
                raise RuntimeError("the driver dies here")

        source = spark.readStream.format("meantime.topic").option("topic", topic).option("max_per_batch", "20").load()
        query = source.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder)).start()
        wait_for(lambda: not query.isActive if fail else client.count(topic) == 0)
        query.stop()

    run(fail=True)
    assert client.count(topic, status="processing") == 20
    run(fail=False)
    assert batches[0] == batches[1]
    assert sorted(id for _, ids in batches[1:] for id in ids) == sorted(f"m{n}" for n in range(30))


def test_an_archive_holds_each_event_once_although_it_was_interrupted(
    spark: "SparkSession", client: Client, folder: Path
) -> None:
    name = switched(client, switches=2)
    archiving = Archiver(spark, client, name, ArchiveOptions(folder, max_rows=70))
    assert archiving.run_batch() is not None
    last = archiving.journal.last()
    assert last is not None
    # As a crash leaves it: planned, some files moved in, no entry.
    (only,) = archiving.journal.data.glob("date=*/hour=*/b0000000001-*.parquet")
    only.with_name("b0000000002-0000.parquet").write_bytes(only.read_bytes())
    newest = {one.partition: one.newest_available_offset for one in client.partitions(name)}
    archiving.journal.begin(JournalEntry(2, last.end, newest))
    Archiver(spark, client, name, ArchiveOptions(folder)).run(lambda: False)
    kept = spark.read.parquet(str(folder / f"event_type={name}"))
    assert numbers(kept) == list(range(150)) == sorted(row["n"] for row in kept.select("fields.n").collect())
    assert archiving.run(lambda: False) == 0


def test_an_archive_goes_on_over_what_is_no_event_and_what_has_expired(
    spark: "SparkSession", client: Client, stack: RunningStack, folder: Path
) -> None:
    """An adopted topic: keys that were deleted, ends of transactions, and then a retention that was faster."""
    kafka, name = stack.places.kafka[0], f"adopted-{uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, 1)])[name].result(20)

    def produce(*numbers: int) -> None:
        producer = Producer({"bootstrap.servers": kafka, "transactional.id": uuid4().hex})
        producer.init_transactions(30)
        expected = ended() + 2 * len(numbers) + 1
        producer.begin_transaction()
        for number in numbers:
            producer.produce(name, key=str(number), value=json.dumps({"n": number}))
            producer.produce(name, key=str(number), value=None)
        producer.commit_transaction(30)
        # The coordinator promises the end of a transaction before it is written.
        wait_for(lambda: ended() >= expected, 30)

    def ended() -> int:
        with closing(Consumer({"bootstrap.servers": kafka, "group.id": uuid4().hex})) as consumer:
            return int(consumer.get_watermark_offsets(TopicPartition(name, 0), timeout=20)[1])

    produce(0, 1, 2)
    client.create_event_type(EventType(name, category="undefined", adopt_topic=name))
    archiving = Archiver(spark, client, name, ArchiveOptions(folder))
    assert archiving.run(lambda: False) == 3
    last = archiving.journal.last()
    assert last is not None
    assert (last.rows, last.empty, last.expired) == (3, 4, 0)
    produce(3, 4)
    # Planned, and then the storage drops a part of it before it was read.
    newest = {one.partition: one.newest_available_offset for one in client.partitions(name)}
    archiving.journal.begin(JournalEntry(last.number + 1, last.end, newest))
    (dropped,) = admin.delete_records([TopicPartition(name, 0, 9)]).values()
    dropped.result(20)
    produce(5)
    again = Archiver(spark, client, name, ArchiveOptions(folder))
    assert again.run(lambda: False) == 2
    entries = [msgspec.json.decode(file.read_bytes()) for file in sorted(again.journal.folder.glob("[0-9]*.json"))]
    assert [one["expired"] for one in entries] == [0, 2, 0]
    assert numbers(spark.read.parquet(str(folder / f"event_type={name}"))) == [0, 1, 2, 4, 5]
    assert again.run(lambda: False) == 0


def records(kafka: str, topic: str) -> list[Any]:
    settings = {"group.id": uuid4().hex, "enable.partition.eof": True, "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": kafka, **settings})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(20)) is not None:
        if error := message.error():
            assert error.code() == KafkaError._PARTITION_EOF
            break
        found.append(message)
    consumer.close()
    return found


def test_a_buffer_keeps_keys_values_and_headers(
    spark: "SparkSession", client: Client, stack: RunningStack, folder: Path
) -> None:
    kafka = stack.places.kafka[0]
    ends = Endpoint(f"in-{uuid4().hex[:8]}"), Endpoint(f"out-{uuid4().hex[:8]}")
    admin = AdminClient({"bootstrap.servers": kafka})
    for future in admin.create_topics([NewTopic(end.name, 1) for end in ends]).values():
        future.result(20)
    producer = Producer({"bootstrap.servers": kafka})
    for number in range(300):
        producer.produce(ends[0].name, key=str(number), value=f"v{number}", headers=[("h", str(number).encode())])
    producer.produce(ends[0].name, key="gone", value=None)
    assert producer.flush(30) == 0
    options = BufferOptions(Broker(stack.urls[0]), *ends, 1.0, folder, stack.places.postgres, once=True)
    prepare(client, options)
    run_in(spark, options, lambda: False)
    wait_for(lambda: client.count(options.topic, status="available") == 301)
    run_out(options, lambda: False, BufferLateness())
    came_in, came_out = ({one.key(): one for one in records(kafka, end.name)} for end in ends)
    assert len(records(kafka, ends[1].name)) == 301
    for key, before in came_in.items():
        after = came_out[key]
        assert (after.value(), after.headers()) == (before.value(), before.headers())
        assert after.timestamp()[1] >= before.timestamp()[1] + 1000


def test_a_forecast_sees_what_was_scheduled(stack: RunningStack, client: Client, topic: str, folder: Path) -> None:
    for number in range(5):
        client.schedule(topic, {"n": number}, after=600)
    arguments = (topic, "--for", "1h", "--step", "15m", "--capacity", "0.001", "--png", str(folder / "f.png"), "--json")
    done = subprocess.run(command(stack, "forecast", *arguments), capture_output=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    assert sum(found["series"][0]["counts"]) == 5
    assert found["warnings"][0]["name"] == topic
    assert imread(folder / "f.png").shape[:2] == (640, 1280)


def test_the_example_runs(
    spark: "SparkSession", stack: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the session that is there; the example stops it at its end, so only tests without one come after it."""
    monkeypatch.setenv("MEANTIME_DATA", str(stack.folder.path))
    runpy.run_path(str(EXAMPLES / "pipelines_future.py"))
    shown = capsys.readouterr().out
    assert "created=10000" in shown
    assert "exists=10000" in shown
    assert "|       2| false|   50|" in shown


def test_a_bad_row_of_a_table_ends_the_command_with_one_line(
    stack: RunningStack,
    client: Client,
    topic: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("MEANTIME_DATA", str(stack.folder.path))
    monkeypatch.setattr("meantime.logs.configure", lambda *_: None)  # it is for whole processes
    file = folder / "campaign.csv"
    file.write_text("id,at,text\na,2026-01-01T00:00:00Z,x\nb,tomorrow,x\n")
    assert run(["pipeline", "schedule", str(file), "--topic", topic]) == 4
    said = capsys.readouterr().err
    assert "row 1 of task 0 (id 'b'): the instant cannot be read: at tomorrow" in said
    assert "Traceback" not in said
    assert said.startswith(f"schedule: campaign.csv → topic {topic}; Spark starts first")
    assert client.count(topic) == 0
