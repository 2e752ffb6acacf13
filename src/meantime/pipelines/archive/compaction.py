"""Merges small files of an archive into large ones, hour by hour, once an hour is over.

The new file is written aside, named in an intent, moved in and synced, and then the old ones go. After a crash the intent
tells what is left to do. Between the last two steps, some milliseconds, a reader may see both.
"""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from meantime.pipelines.archive.journal import Journal
from meantime.pipelines.spark.places import (
    Place,
    address_of,
    again,
    found,
    move_in,
    readable,
    size_of,
    writable,
    write_whole,
)

LARGE = 128 << 20


class CompactionIntent(msgspec.Struct, frozen=True):
    old: list[str]
    new: str


def compact(journal: Journal, now: datetime) -> int:
    """How many files went into larger ones."""
    finish(journal)
    last = journal.last()
    if last is None:
        return 0
    merged = 0
    for hour in found(journal.data, "date=*/hour=*"):
        files = [file for file in found(hour, "*.parquet") if size_of(file) < LARGE]
        settled = [file for file in files if _number(file) <= last.number]
        if is_over(hour, now) and len(settled) > 1:
            merged += _merge(journal, settled)
    return merged


def is_over(hour: Place, now: datetime) -> bool:
    begin = datetime.strptime(f"{hour.parent.name}/{hour.name}", "date=%Y-%m-%d/hour=%H").replace(tzinfo=UTC)
    return (now - begin).total_seconds() >= 3600


def finish(journal: Journal) -> None:
    """Completes what a crash has interrupted."""
    file = journal.folder / "compaction.intent"
    if not file.exists():
        return
    intent = msgspec.json.decode(file.read_bytes(), type=CompactionIntent)
    if again(intent.new).exists():
        for old in intent.old:
            again(old).unlink(missing_ok=True)
    file.unlink()


def _merge(journal: Journal, files: Sequence[Place]) -> int:
    import pyarrow as pa
    from pyarrow import parquet

    aside = journal.folder / "compacted.parquet"
    tables = [parquet.ParquetFile(readable(file)).read() for file in files]
    whole = pa.concat_tables(tables, promote_options="permissive").sort_by(
        [("partition", "ascending"), ("cursor", "ascending")]
    )
    with writable(aside) as opened:
        parquet.write_table(whole, opened, compression="zstd")
    new = files[0].with_name(f"c{_number(files[0]):010d}-{_number(files[-1]):010d}.parquet")
    intent = CompactionIntent([address_of(file) for file in files], address_of(new))
    write_whole(journal.folder / "compaction.intent", msgspec.json.encode(intent))
    move_in(aside, new, journal.data)
    finish(journal)
    return len(files)


def _number(file: Place) -> int:
    """The batch that a file is of; of a compacted one, the last."""
    name = file.stem
    return int(name[1:11]) if name.startswith("b") else int(name.rpartition("-")[2])
