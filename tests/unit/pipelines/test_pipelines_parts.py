"""The parts of pipelines that need no service."""

import inspect
import os
import pkgutil
import subprocess
import sys
from base64 import b64decode
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest
from matplotlib.colors import to_rgb
from matplotlib.image import imread
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType

import meantime.pipelines
from meantime.cli.exit_codes import NOT_RUNNING
from meantime.cli.main import run
from meantime.cli.pipeline.spark import error_of
from meantime.errors import Invalid, NotFound
from meantime.pipelines.archive.compaction import compact, is_over
from meantime.pipelines.archive.journal import Journal, JournalEntry
from meantime.pipelines.archive.json_schema import fields_type, spark_type
from meantime.pipelines.buffer.event_type_target import PublishIntent, chunks, mark, went_out
from meantime.pipelines.buffer.model import BufferedRecord, Header, decode_record
from meantime.pipelines.forecast.chart import COLOURS, SIZE, TOO_MUCH, bar_chart, grouped
from meantime.pipelines.forecast.forecast import Forecast, Series, past_of, rates, warnings, with_planned
from meantime.pipelines.spark.causes import HIDE_STACK, cause_first
from meantime.pipelines.spark.meters import BufferLateness
from meantime.pipelines.topics.model import Reject
from meantime.pipelines.topics.rows import RowContext, check_columns, checked_rows
from meantime.sdk.messages import Slot
from meantime.topics.model import NewMessage, Settings, Topic

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NOW = 1_700_000_000_000
CONTEXT = RowContext(Topic(1, "t", 1, Settings(max_future_ms=1000, max_body_bytes=20)), "g", NOW, "job", 3)


def check_rows(**columns: list[object]) -> list[NewMessage | Reject]:
    return list(checked_rows([pa.RecordBatch.from_pydict(columns)], CONTEXT))


def test_a_row_becomes_a_message() -> None:
    (message,) = check_rows(id=["a"], at_ms=[NOW + 5], body=['{"n": 1}'])
    assert isinstance(message, NewMessage)
    assert (message.id, message.at_ms, message.body, message.is_json) == ("a", NOW + 5, b'{"n": 1}', True)


def test_text_is_a_json_string_and_bytes_stay_bytes() -> None:
    text, raw = check_rows(id=["a"], at_ms=[NOW], body=["hello"]) + check_rows(id=["a"], at_ms=[NOW], body=[b"\xff"])
    assert isinstance(text, NewMessage)
    assert isinstance(raw, NewMessage)
    assert (text.body, raw.body, raw.is_json) == (b'"hello"', b"\xff", False)


def test_without_ids_a_row_is_named_after_its_place_in_the_job() -> None:
    first, second = check_rows(after_ms=[1, 2], body=["1", "2"])
    assert isinstance(first, NewMessage)
    assert isinstance(second, NewMessage)
    assert (first.id, second.id, second.at_ms) == ("job-3-0", "job-3-1", NOW + 2)


def test_a_row_that_could_not_be_read_is_refused_for_that_reason() -> None:
    (refused,) = check_rows(id=["a"], at_ms=[None], body=["1"], unread=["the instant cannot be read: at tomorrow"])
    assert isinstance(refused, Reject)
    assert (refused.place, refused.error) == ("row 0 of task 3 (id 'a')", "the instant cannot be read: at tomorrow")


def test_a_refused_row_is_kept_as_it_stood_in_its_file() -> None:
    original = '{"id":"a","at":"2999-01-01T00:00:00Z","name":"Ada"}'
    (refused,) = check_rows(id=["a"], at_ms=[NOW + 10**12], body=['{"name":"Ada"}'], original=[original])
    assert isinstance(refused, Reject)
    assert refused.row == {"id": "a", "at": "2999-01-01T00:00:00Z", "name": "Ada"}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"id": ["a b"], "at_ms": [NOW], "body": ["1"]}, "an id is 1 to 128"),
        ({"id": [None], "at_ms": [NOW], "body": ["1"]}, "'id' is null"),
        ({"id": ["a"], "at_ms": [NOW + 5000], "body": ["1"]}, "more than 1 s ahead"),
        ({"id": ["a"], "at_ms": [None], "body": ["1"]}, "exactly one of at_ms and after_ms"),
        ({"id": ["a"], "at_ms": [NOW], "body": ["x" * 30]}, "at most 20"),
    ],
)
def test_a_bad_row_says_where_it_stands_and_why(row: dict[str, list[object]], why: str) -> None:
    (reject,) = check_rows(**row)
    assert isinstance(reject, Reject)
    assert reject.place.startswith("row 0 of task 3")
    assert why in reject.error


def test_columns_are_checked_by_name_and_type() -> None:
    fine = StructType().add("id", StringType()).add("at_ms", LongType()).add("body", BinaryType())
    check_columns(fine, stream=True)
    check_columns(StructType().add("after_ms", IntegerType()).add("body", StringType()), stream=False)
    for schema, named in (
        (StructType().add("at_ms", LongType()), "'body' is missing"),
        (StructType().add("body", StringType()), "'at_ms' is missing"),
        (StructType().add("at_ms", StringType()).add("body", StringType()), "'at_ms' is milliseconds"),
        (StructType(fine.fields).add("x", StringType()), "'x' is unknown"),
    ):
        with pytest.raises(Invalid, match=named):
            check_columns(schema, stream=False)
    with pytest.raises(Invalid, match="'id' is missing"):
        check_columns(StructType().add("at_ms", LongType()).add("body", StringType()), stream=True)


def test_a_record_keeps_key_value_and_headers() -> None:
    record = BufferedRecord(b"k\xff", None, [Header("h", b""), Header("h", None)])
    assert decode_record(msgspec.json.encode(record)) == record
    assert decode_record(b'{"value":"YQ=="}') == BufferedRecord(None, b64decode("YQ=="))


@pytest.mark.parametrize(
    "body", [b"", b"5", b"[]", b'"text"', b'{"hello":1}', b'{"value":"?"}', b'{"headers":[{"x":1}]}', b"\xff"]
)
def test_a_message_that_somebody_else_has_made_is_no_record(body: bytes) -> None:
    assert decode_record(body) is None


def test_an_intent_is_settled_by_what_is_found() -> None:
    one, two = mark(b'{"n": 1}'), mark(b'{"n":2}')
    assert mark(b'{ "n":1}') == one
    assert mark(b'{"metadata":{"eid":"e","partition":"0"},"n":1}') == mark(b'{"metadata":{"eid":"e"}}') == "e"
    intent = PublishIntent(["a", "b", "c", "old"], [one, one, two], {})
    assert went_out(intent, Counter([one])) == {"a", "old"}


def test_batches_are_cut_by_size() -> None:
    assert [len(chunk) for chunk in chunks([b"x" * (3 << 20), b"y" * (3 << 20), b"z"])] == [1, 2]
    assert chunks([]) == []


def test_a_schema_becomes_a_type() -> None:
    schema = {
        "properties": {
            "id": {"type": "integer"},
            "name": {"type": ["string", "null"]},
            "lines": {"type": "array", "items": {"type": "object", "properties": {"price": {"type": "number"}}}},
            "any": {},
        }
    }
    assert spark_type(schema) == "struct<`id`:bigint,`name`:string,`lines`:array<struct<`price`:double>>,`any`:string>"
    assert fields_type("undefined", '{"additionalProperties": true}') is None
    data = fields_type("data", '{"properties": {"id": {"type": "boolean"}}}')
    assert data is not None
    assert data.startswith("struct<data:struct<`id`:boolean>,data_op:string")


def test_a_journal_goes_on_with_what_was_begun(folder: Path) -> None:
    journal = Journal(folder, "orders")
    assert journal.last() is None
    plan = JournalEntry(1, {"0": "a"}, {"0": "b"})
    journal.begin(plan)
    assert Journal(folder, "orders").plan() == plan
    journal.finish(JournalEntry(1, {"0": "a"}, {"0": "b"}, 7))
    again = Journal(folder, "orders")
    assert (again.plan(), again.rows()) == (None, 7)
    again.begin(JournalEntry(1, {}, {}))
    assert again.plan() is None


def test_small_files_of_an_hour_that_is_over_become_one(folder: Path) -> None:
    from pyarrow import parquet

    journal = Journal(folder, "orders")
    hour = journal.data / "date=2026-05-01" / "hour=09"
    hour.mkdir(parents=True)
    for number in (1, 2, 3):
        table = pa.table({"event": [f"e{number}"], "partition": ["0"], "cursor": [f"c{number}"]})
        parquet.write_table(table, hour / f"b{number:010d}-0000.parquet")
    journal.finish(JournalEntry(2, {}, {}, 2))
    assert compact(journal, datetime(2026, 5, 1, 9, 59, tzinfo=UTC)) == 0
    assert compact(journal, datetime(2026, 5, 1, 10, 0, tzinfo=UTC)) == 2
    assert sorted(file.name[0] for file in hour.iterdir()) == ["b", "c"]
    assert parquet.read_table(sorted(hour.iterdir())[1]).column("event").to_pylist() == ["e1", "e2"]
    assert is_over(hour, datetime(2026, 5, 2, tzinfo=UTC))


def test_an_overload_counts_what_was_left_over() -> None:
    found = list(warnings([Series("t", [5, 30, 5, 5, 0], 1.0), Series("u", [99], None)], 0, 10_000))
    assert [(one.from_ms, one.due) for one in found] == [(10_000, 30), (20_000, 5), (30_000, 5)]


def test_capacities_come_from_metrics_and_the_past_from_hours() -> None:
    assert rates('meantime_topics_lease_rate{topic="a"} 12.5\nmeantime_topics_lease_rate{topic="b"} 0.0\n') == {"a": 12.5}
    past = past_of("orders", {"date=2026-05-01/hour=23": 3600, "date=2026-05-02/hour=01": 7200})
    assert (past.hours, past.mean, past.peak) == (3, 1.0, 2.0)


def coming(*counts: list[int], capacity: float | None = None) -> Forecast:
    series = [Series(f"topic-{number}", one, capacity) for number, one in enumerate(counts)]
    return Forecast(NOW, 60_000, series, [], list(warnings(series, NOW, 60_000)))


def shows(pixels: "NDArray[np.float32]", colour: str) -> bool:
    return bool((abs(pixels[..., :3] - to_rgb(colour)) < 0.01).all(axis=-1).any())


def test_a_chart_is_a_png_of_the_size_that_was_asked_for() -> None:
    pixels = imread(BytesIO(bar_chart(coming([1, 2, 3], [0, 5, 0], capacity=0.05), "1m", (900, 420))))
    assert pixels.shape[:2] == (420, 900)
    assert all(shows(pixels, colour) for colour in (*COLOURS[:2], TOO_MUCH))
    assert not shows(pixels, COLOURS[2])


def test_a_chart_of_nothing_has_no_bars() -> None:
    for nothing in (coming(), coming([0, 0, 0], capacity=1.0)):
        pixels = imread(BytesIO(bar_chart(nothing, "1m")))
        assert pixels.shape[:2] == (SIZE[1], SIZE[0])
        bars = pixels[: SIZE[1] - 60]  # the legend is below them
        assert not shows(bars, COLOURS[0])


def test_series_for_which_there_is_no_colour_are_drawn_together() -> None:
    series = [Series(name, [count, 1]) for name, count in (("small", 1), ("large", 9), ("tiny", 0), ("middle", 5))]
    assert [(one.name, one.counts) for one in grouped(series, 3)] == [
        ("large", [9, 1]),
        ("middle", [5, 1]),
        ("2 others", [1, 2]),
    ]
    assert grouped(series, 4) == series


def test_without_matplotlib_a_picture_is_refused_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before anything else: there is no cluster here."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setenv("MEANTIME_DATA", str(tmp_path))
    assert run(["pipeline", "forecast", "--png", str(tmp_path / "week.png")]) == NOT_RUNNING
    assert "pip install 'meantime[plot]'" in capsys.readouterr().err


def test_new_load_stands_on_top_of_what_is_there() -> None:
    present = [Slot(from_ms=0, waiting=3), Slot(from_ms=1000)]
    slots = with_planned(present, {0: 1, 500: 1, 1000: 4}, 1000)
    assert [(slot.available, slot.waiting) for slot in slots] == [(3, 2), (0, 4)]


def test_lateness_is_told_by_percentiles() -> None:
    lateness = BufferLateness()
    assert lateness.report() == {"messages": 0}
    lateness.note(range(100))
    assert lateness.report() == {"messages": 100, "early": 0, "p50_ms": 50, "p99_ms": 99, "max_ms": 99}


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("no-instant.csv", "id,name\na,Ada\n", "column 'at' is missing"),
        ("durations.csv", "id,after,name\na,1h,Ada\n", "meantime schedule --file"),
        ("no-body.csv", "id,after_ms\na,1\n", "column 'body' is missing"),
        ("empty.csv", "", "column 'at' is missing"),
        ("rubbish.parquet", "rubbish", "rubbish.parquet: it is no Parquet file"),
    ],
)
def test_files_whose_columns_cannot_be_messages_are_refused_before_spark_starts(
    name: str, content: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / name
    file.write_text(content)
    assert run(["pipeline", "schedule", str(file), "--topic", "t", "--url", "http://127.0.0.1:1"]) == 4
    assert named in capsys.readouterr().err


def test_of_what_spark_tells_our_error_is_kept() -> None:
    first = error_of("[PYTHON_DATA_SOURCE_ERROR] Failed: meantime.errors.NotFound: topic 't' does not exist\n SQLSTATE: 1")
    assert (type(first), first.detail) == (NotFound, "topic 't' does not exist")
    ours = error_of("[FAILED] pickle\n  File x\nmeantime.errors.NotFound: topic 't' does not exist\n")
    assert (type(ours), ours.detail) == (NotFound, "topic 't' does not exist")
    strange = error_of("[FAILED] pickle\nmeantime.errors.BadCursor: it has expired\n")
    assert (strange.code, strange.detail) == ("bad_cursor", "it has expired")
    assert error_of("[BROKEN] something\nat y").detail == "[BROKEN] something"
    java = "An error occurred while calling o70.parquet.\n: org.apache.spark.SparkException: [CANNOT] read file:/x\n\tat y"
    assert error_of(java).detail == "[CANNOT] read file:/x"
    lost = "Lost task 0.0 in stage 1.0 (TID 1) (127.0.0.1 executor driver): java.io.IOException: no space\n\tat y"
    task = f": org.apache.spark.SparkException: Job aborted due to stage failure: most recent failure: {lost}"
    assert error_of(task).detail == "no space"
    assert error_of('Exception in thread "main" org.apache.spark.SparkException: no master').detail == "no master"


@pytest.mark.parametrize("runtime", ["PYTHON_WORKER", None])
def test_only_a_process_of_spark_leaves_out_the_stack_of_our_error(
    runtime: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    @cause_first
    class Source:
        def rows(self, error: Exception) -> Iterator[int]:
            yield 1
            raise error

    monkeypatch.delenv(HIDE_STACK, raising=False)
    if runtime:
        monkeypatch.setenv("SPARK_PYTHON_RUNTIME", runtime)
    with pytest.raises(LookupError):
        list(Source().rows(LookupError("a mistake of ours")))
    assert HIDE_STACK not in os.environ
    with pytest.raises(NotFound):
        list(Source().rows(NotFound("topic 't' does not exist")))
    assert (HIDE_STACK in os.environ) == bool(runtime)
    monkeypatch.delenv(HIDE_STACK, raising=False)


def test_the_outbound_half_of_a_buffer_loads_no_spark() -> None:
    """It runs in a thread while the main thread loads and starts Spark: a module must not be loaded in both at once."""
    modules = ("buffer", "kafka_target", "event_type_target")
    program = "import sys\n" + "".join(f"import meantime.pipelines.buffer.{name}\n" for name in modules)
    done = subprocess.run([sys.executable, "-c", program + "sys.exit('pyspark' in sys.modules)"], check=False, timeout=60)
    assert done.returncode == 0


def test_no_part_of_the_package_hides_a_name_that_it_gives_to_users() -> None:
    """Whatever has been loaded before: a sub-package becomes an attribute of its package."""
    parts = {module.name for module in pkgutil.iter_modules(meantime.pipelines.__path__)} - {"session"}
    assert not parts & set(meantime.pipelines.__all__)
    assert all(inspect.isfunction(getattr(meantime.pipelines, name)) for name in meantime.pipelines.__all__)
