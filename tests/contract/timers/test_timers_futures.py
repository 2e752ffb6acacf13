"""The Spark job on a real Kafka: every request comes out once it is due, or is refused, and a restart loses nothing."""

import re
import time
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable
from timers_world import SHARES, Kafka, kafka_with_topics, until

from meantime.errors import BadCursor, StackError
from meantime.pipelines.event_types.ranges import Range
from meantime.pipelines.session import check_connector, session
from meantime.pipelines.timers import kafka_intake
from meantime.pipelines.timers.futures import start_futures
from meantime.pipelines.timers.intake import FuturesOptions, waiting_schema
from meantime.pipelines.timers.request_source import RequestsReader
from meantime.timers.future import encode
from meantime.timers.kafka_topics import partitions_of
from meantime.timers.model import Future, Record, RefusedRequest, TimerLimits
from meantime.timers.rules import read, share_of
from meantime.timers.topics import DUE, OSCILLATOR, REJECTED, REQUEST

pytestmark = [pytest.mark.lane("spark"), pytest.mark.takes(seconds=60), pytest.mark.timeout(400)]

STRETCH_S = 30
EARLY_S = 20
AHEAD = {"ticks_ahead_s": 100_000}
"""These tests do not wait for their ticks."""


@pytest.fixture(scope="module")
def kafka(services):
    with kafka_with_topics(services.kafka[1]) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def spark():
    spark = session("futures-test")
    spark.sparkContext.setLogLevel("ERROR")
    yield spark
    spark.stop()


@pytest.fixture
def mark() -> str:
    return uuid4().hex[:6]


def options(kafka: Kafka, folder, **more) -> FuturesOptions:
    shares, now_ms = partitions_of(kafka.admin, DUE), int(time.time() * 1000)
    given = {"started_ms": now_ms, "batch_every": 0.2, "stretch_s": STRETCH_S, "early_s": EARLY_S, **AHEAD, **more}
    return FuturesOptions(kafka.storage, str(folder / "checkpoint"), shares, **given)


def tick(kafka: Kafka, *seconds: int) -> None:
    for second in seconds:
        kafka.send(OSCILLATOR, second, b"1")
    kafka.flush()


def headers(message) -> dict[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in message.headers()}


def token_of(message) -> str:
    given = headers(message)
    return given["token"] if "token" in given else "cancel " + given.get("cancel", "")


def tokens(messages) -> list[str]:
    return sorted(map(token_of, messages))


def marked(tail, mark: str, count: int, within: float) -> list:
    """The next records of this test; without a checkpoint the job also sends what other tests have left behind."""
    found: list = []
    until(lambda: found.extend(m for m in tail.read(1, 1) if mark in str(headers(m))) or len(found) >= count, within)
    return found


def opening(ahead_s: int) -> int:
    """A second that opens a stretch."""
    second = int(time.time()) + ahead_s
    return second - second % STRETCH_S


def test_a_spark_without_its_connector_to_kafka_is_told_what_to_start_it_with(spark, monkeypatch):
    jars = [Path("connector.jar"), Path("clients.jar")]
    check_connector(spark, jars)
    monkeypatch.setitem(check_connector.__globals__, "CONNECTOR", "org.nobody.Has")
    with pytest.raises(StackError, match=re.escape("spark-submit --jars connector.jar,clients.jar")):
        check_connector(spark, jars)


def test_a_batch_is_bounded_in_bytes_however_few_they_are(kafka, folder, mark):
    """Measured by samples: 40 requests of 100 kB fill a megabyte and more, 40 of 100 bytes do not."""
    counted = {"max_requests": 1000, "max_bytes": 1_000_000, "limits": TimerLimits(max_callback_bytes=200_000)}
    reader = RequestsReader(options(kafka, folder, **counted), 2)
    start = reader.reportLatestOffset()
    for number in range(40):
        kafka.set(opening(9000), "calls", f"{mark}-{number}", callback=bytes(100_000))
    kafka.flush()
    assert 2 <= taken(start, reader.latestOffset(start, ReadAllAvailable())) <= 12
    start = reader.reportLatestOffset()
    for number in range(40):
        kafka.set(opening(9000), "calls", f"{mark}-small-{number}", callback=bytes(100))
    kafka.flush()
    assert taken(start, reader.latestOffset(start, ReadAllAvailable())) >= 40


def taken(start, end) -> int:
    return sum(end[REQUEST].values()) - sum(start[REQUEST].values())


def test_a_process_reads_one_piece_after_the_other_and_gets_over_one_that_is_gone(kafka, folder, mark):
    chosen = options(kafka, folder)
    start = kafka_intake.newest(kafka.storage)
    for number in range(100):
        kafka.set(opening(9000), "calls", f"{mark}-{number}")
    kafka.flush()
    # They have one key, so they are in one partition.
    partition = next(number for number, end in kafka_intake.newest(kafka.storage).items() if end > start[number])
    first = start[partition]
    pieces = [Range(REQUEST, REQUEST, 0, partition, first + begin, first + begin + 50) for begin in (0, 50)]
    assert [requests_in(kafka_intake.packs([piece], chosen)) for piece in pieces] == [50, 50]
    with pytest.raises(BadCursor, match="no longer available"):
        list(kafka_intake.packs([Range(REQUEST, REQUEST, 0, partition, 1 << 40, (1 << 40) + 5)], chosen))
    assert requests_in(kafka_intake.packs([pieces[0]], chosen)) == 50


def requests_in(batches) -> int:
    packs = [pack for batch in batches for pack in batch.column("requests").to_pylist()]
    return sum(pa.ipc.read_record_batch(pa.py_buffer(pack), waiting_schema()).num_rows for pack in packs)


def test_requests_meet_their_tick_whichever_comes_first(kafka, spark, folder, mark):
    tail = kafka.tail(DUE)
    second = opening(300)
    query = start_futures(spark, options(kafka, folder))
    try:
        for number in range(20):
            kafka.set(second + number % 5, "calls", f"{mark}-{number:02}")
        kafka.set(second + STRETCH_S, "calls", f"{mark}-not-yet")
        kafka.cancel(second, f"{mark}-05")
        kafka.set(int(time.time()) - 10, "calls", f"{mark}-past")
        kafka.flush()
        tick(kafka, *range(int(time.time()), int(time.time()) + 120))
        past = marked(tail, mark, 1, within=150)
        tick(kafka, second - EARLY_S)
        due = marked(tail, mark, 21, within=60)
        kafka.set(second + 3, "calls", f"{mark}-late")
        kafka.flush()
        late = marked(tail, mark, 1, within=60)
    finally:
        query.stop()
        tail.close()
    assert (tokens(past), tokens(late)) == ([f"{mark}-past"], [f"{mark}-late"])
    assert tokens(due) == sorted([f"cancel {mark}-05", *(f"{mark}-{number:02}" for number in range(20))])
    for message in due:
        token = token_of(message).removeprefix("cancel ")
        assert message.partition() == share_of(token, SHARES)
        assert second <= int(message.key()) < second + 5
        assert abs(int(headers(message)["requested"]) - time.time() * 1000) < 300_000


def take_in(kafka: Kafka, spark, chosen: FuturesOptions, second: int, token: str) -> str:
    """Let a query take a request in and stop it: the sign for that is another timer, which comes out."""
    tail, sign = kafka.tail(DUE), f"{token}-sign"
    query = start_futures(spark, chosen)
    kafka.set(second, "calls", token)
    kafka.set(second - 3 * STRETCH_S, "calls", sign)
    kafka.flush()
    tick(kafka, second - 3 * STRETCH_S - EARLY_S)
    assert tokens(marked(tail, sign, 1, within=150)) == [sign]
    query.stop()
    tail.close()
    return sign


def test_a_restart_goes_on_from_the_checkpoint_and_a_doubled_tick_hurts_nobody(kafka, spark, folder, mark):
    tail, second, chosen = kafka.tail(DUE), opening(900), options(kafka, folder)
    take_in(kafka, spark, chosen, second, f"{mark}-before")
    kafka.set(second, "calls", f"{mark}-meanwhile")
    tick(kafka, second - EARLY_S, second - EARLY_S)
    query = start_futures(spark, chosen)
    try:
        wanted = {f"{mark}-before", f"{mark}-meanwhile"}
        found: set[str] = set()
        until(lambda: found.update(tokens(marked(tail, mark, 1, within=90))) or found >= wanted, within=90)
    finally:
        query.stop()
        tail.close()


def test_timers_outlive_ticks_that_kafka_has_deleted_unread(kafka, spark, folder, mark):
    """As after an outage that is longer than the retention of the ticks; what is no tick is left aside."""
    second, chosen = opening(1500), options(kafka, folder)
    sign, tail = take_in(kafka, spark, chosen, second, f"{mark}-waits"), kafka.tail(DUE)
    everything = TopicPartition(OSCILLATOR, 0, OFFSET_END)
    kafka.admin.delete_records([everything])[everything].result()
    for garbage in (b"99999999999", b"[" * 20_000, b"", None, b"9" * 5000, b"-5"):
        kafka.producer.produce(OSCILLATOR, b'{"a":' * 20_000, garbage)
    tick(kafka, second + 10 * STRETCH_S)
    query = start_futures(spark, chosen)
    try:
        found = tokens(marked(tail, mark, 1, within=90))
        # A query that is stopped before its micro-batch is committed does it again.
        found += tokens(marked(tail, mark, 1, within=90)) if found == [sign] else []
        assert found[-1:] == [f"{mark}-waits"]
    finally:
        query.stop()
        tail.close()


def test_what_cannot_be_a_timer_is_refused_for_the_same_reason_as_everywhere(services, spark, folder, mark):
    limits = TimerLimits(horizon_s=5000, max_callback_bytes=100)
    second, value = str(int(time.time()) + 60).encode(), encode(Future("calls", "", b"x"))
    bad = [
        (b"soon", value, {"token": f"{mark}-1"}),
        (b"", value, {"token": f"{mark}-2"}),
        (second, value, {"token": "no spaces please"}),
        (second, value, {"cancel": f"{mark}-4"}),
        (str(int(second) + 100_000).encode(), value, {"token": f"{mark}-5"}),
        (second, bytes(limits.max_request_bytes + 1), {"token": f"{mark}-6"}),
        (second, None, {"cancel": ""}),
        (second + b"\n", value, {"token": f"{mark}-8"}),
        (second, value, {"token": f"{mark}-9\n"}),
        (second, value, {"token": f"{mark}-10", "other": "1", "cancel": f"{mark}-11"}),
    ]
    # The other tests have run ahead of the clock on their cluster.
    with kafka_with_topics(services.kafka[0]) as kafka:
        tail = kafka.tail(REJECTED)
        for key, content, given in bad:
            kafka.producer.produce(REQUEST, content, key, headers=[*given.items(), ("mark", mark)])
        query = start_futures(spark, options(kafka, folder, limits=limits))
        try:
            tick(kafka, *range(int(time.time()), int(time.time()) + 120))
            refused = marked(tail, mark, len(bad), within=150)
        finally:
            query.stop()
            tail.close()
    assert len(refused) == len(bad)
    for message in refused:
        given = tuple((name, content) for name, content in message.headers() if name != "reason")
        verdict = read(Record(0, 0, int(time.time() * 1000), message.key(), message.value(), given), limits)
        assert isinstance(verdict, RefusedRequest)
        assert (verdict.reason, verdict.opaque) == (headers(message)["reason"], False)
