"""What pipelines keep in an object store: the journal of an archive, its files, what a buffer is about to publish."""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime

import msgspec
import pyarrow as pa
import pytest
from object_store import BUCKET, object_store
from pyarrow import parquet

from meantime.cli.pipeline.options import writable_folder
from meantime.errors import Invalid, StorageUnavailable
from meantime.pipelines.archive.compaction import CompactionIntent, compact, finish
from meantime.pipelines.archive.hold import archive_name
from meantime.pipelines.archive.journal import Journal, JournalEntry
from meantime.pipelines.forecast.forecast import _past
from meantime.pipelines.spark.object_store import ObjectPath
from meantime.pipelines.spark.places import address_of, append, found, move_in, place_of, readable, remove_tree, writable


@pytest.fixture(scope="module")
def variables() -> Iterator[dict[str, str]]:
    with object_store() as variables:
        yield variables


@pytest.fixture
def archive(variables: dict[str, str], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> ObjectPath:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    place = place_of(f"s3a://{BUCKET}/{request.node.name}", "--to")
    assert isinstance(place, ObjectPath)
    return place


def table(number: int) -> pa.Table:
    return pa.table({"event": [f"e{number}"], "partition": ["0"], "cursor": [f"c{number}"]})


def write(file: ObjectPath, number: int) -> None:
    with writable(file) as opened:
        parquet.write_table(table(number), opened)


def test_files_are_found_read_moved_and_removed(archive: ObjectPath) -> None:
    assert (archive.exists(), found(archive, "*")) == (False, [])
    write(archive / "staging" / "date=1" / "hour=2" / "part.parquet", 1)
    (staged,) = found(archive / "staging", "date=*/hour=*/*.parquet")
    home = archive / "data" / "date=1" / "hour=2" / "b1.parquet"
    move_in(staged, home, archive)
    remove_tree(archive / "staging")
    remove_tree(archive / "staging")
    assert found(archive, "*") == [archive / "data"]
    assert parquet.read_metadata(readable(home)).num_rows == 1
    append(archive / "refused", b"a\n")
    append(archive / "refused", b"b\n")
    assert (archive / "refused").read_bytes() == b"a\nb\n"
    (archive / "refused").unlink()
    with pytest.raises(FileNotFoundError):
        (archive / "refused").unlink()
    (archive / "refused").unlink(missing_ok=True)


def test_a_journal_goes_on_with_what_was_begun(archive: ObjectPath) -> None:
    journal = Journal(archive, "orders")
    assert (journal.last(), journal.plan()) == (None, None)
    plan = JournalEntry(1, {"0": "a"}, {"0": "b"})
    journal.begin(plan)
    assert Journal(archive, "orders").plan() == plan
    journal.finish(JournalEntry(1, {"0": "a"}, {"0": "b"}, 7))
    again = Journal(archive, "orders")
    assert (again.plan(), again.rows()) == (None, 7)
    assert archive_name(archive) == archive_name(archive)


def test_small_files_become_one_also_after_a_crash_in_between(archive: ObjectPath) -> None:
    journal = Journal(archive, "orders")
    hour = journal.data / "date=2026-05-01" / "hour=09"
    assert isinstance(hour, ObjectPath)
    for number in (1, 2, 3):
        write(hour / f"b{number:010d}-0000.parquet", number)
    journal.finish(JournalEntry(2, {}, {}, 2))
    assert compact(journal, datetime(2026, 5, 1, 9, 59, tzinfo=UTC)) == 0
    assert compact(journal, datetime(2026, 5, 1, 10, 0, tzinfo=UTC)) == 2
    left, merged = found(hour, "*.parquet")
    assert parquet.ParquetFile(readable(merged)).read().column("event").to_pylist() == ["e1", "e2"]
    (past,) = _past(archive)
    assert (past.event_type, past.events) == ("orders", 3)
    intent = CompactionIntent([address_of(left)], address_of(merged))
    (journal.folder / "compaction.intent").write_bytes(msgspec.json.encode(intent))
    finish(journal)
    assert found(hour, "*.parquet") == [merged]


def test_what_a_store_refuses_is_told(archive: ObjectPath) -> None:
    writable_folder(archive, "--to")
    assert found(archive, "*") == []
    nowhere = place_of("s3a://nowhere/archive", "--to")
    with pytest.raises(Invalid, match=r"--to: the object store refuses s3a://nowhere/archive/.*bucket does not exist"):
        writable_folder(nowhere, "--to")
    with pytest.raises(StorageUnavailable):
        append(nowhere / "refused", b"x")


def test_events_that_were_about_to_be_published_are_known_again(archive: ObjectPath) -> None:
    from meantime.pipelines.buffer.event_type_target import EventTypeTarget, PublishIntent, went_out
    from meantime.pipelines.buffer.refused import RefusedFile

    class Known:
        def event_type(self, name: str) -> None:
            """It is there."""

    refused = RefusedFile(archive / "out" / "refused.ndjson", "buffer.a.b")
    target = EventTypeTarget(Known(), None, "orders", archive / "out", refused)  # type: ignore[arg-type]
    refused.keep(b"{}", "not wanted")
    assert (archive / "out" / "refused.ndjson").read_bytes() == b'{"value":"{}","error":"not wanted"}\n'
    assert target.published() == set()
    intent = PublishIntent(["a", "b"], ["x", "y"], {}, done=True)
    target._write(intent)
    assert target.published() == {"a", "b"}
    assert went_out(intent, Counter(["x"])) == {"a"}
