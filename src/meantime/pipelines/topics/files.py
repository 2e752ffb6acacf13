"""Files to be scheduled: CSV, JSON lines or Parquet into rows of messages.

The columns `id`, `at` (RFC 3339) or `at_ms`, `after_ms` and `body` have their meaning; without `body` all other columns
together are the body.
"""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import Invalid
from meantime.pipelines.topics.rows import ORIGINAL, UNREAD

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WHEN = ("at", "at_ms", "after_ms")
CORRUPT = "_corrupt_record"
"""Where Spark puts a line that is no JSON, or a row of CSV that does not fit its header."""
KINDS = {".csv": "csv", ".json": "json", ".ndjson": "json", ".jsonl": "json", ".parquet": "parquet"}


def kind_of(files: Sequence[Path]) -> str:
    """The format of the files."""
    for file in files:
        if not file.exists():
            raise Invalid(f"cannot read {file}: no such file")
        if file.suffix.lower() not in KINDS and not file.is_dir():
            raise Invalid(f"cannot tell what {file} is: name it *.csv, *.json, *.ndjson or *.parquet")
    kinds = {KINDS.get(file.suffix.lower(), "parquet") for file in files}
    if len(kinds) != 1:
        raise Invalid(f"give files of one kind at a time, not {', '.join(sorted(kinds))}")
    return kinds.pop()


def check_files(files: Sequence[Path]) -> None:
    """What can be told before Spark is started: that they are there, and what their columns are."""
    kind = kind_of(files)
    for file in files:
        if kind != "json" and file.is_file():
            _check_names(_header(file) if kind == "csv" else _columns(file))


def _header(file: Path) -> list[str]:
    try:
        with file.open(newline="", encoding="utf-8-sig", errors="replace") as opened:
            return next(csv.reader(opened), [])
    except (OSError, csv.Error) as error:
        raise Invalid(f"cannot read {file}: {error}") from error


def _columns(file: Path) -> list[str]:
    from pyarrow import ArrowException
    from pyarrow.parquet import read_schema

    try:
        return list(read_schema(file).names)
    except (OSError, ArrowException) as error:
        raise Invalid(f"cannot read {file}: it is no Parquet file ({str(error).splitlines()[0]})") from error


def _check_names(names: Sequence[str]) -> None:
    if not set(WHEN) & set(names):
        hint = "; 'after' is a duration, which only `meantime schedule --file` reads" if "after" in names else ""
        raise Invalid(f"column 'at' is missing (or 'at_ms', 'after_ms'): a message needs an instant{hint}", column="at")
    if set(names) <= {*WHEN, "id", CORRUPT}:
        raise Invalid("column 'body' is missing, and no other column could be it", column="body")


def read_files(spark: "SparkSession", files: Sequence[Path]) -> "DataFrame":
    """All files must be of one kind and have the same columns."""
    kind, paths = kind_of(files), [str(file.absolute()) for file in files]
    if kind == "csv":
        return _read_csv(spark, paths)
    return spark.read.json(paths) if kind == "json" else spark.read.parquet(*paths)


def _read_csv(spark: "SparkSession", paths: list[str]) -> "DataFrame":
    """Without a schema Spark would leave out the cells that a row has too many."""
    from pyspark.sql.types import StringType, StructField, StructType

    reader = spark.read.options(header=True, escape='"', multiLine=True, enforceSchema=False)
    names = [*reader.csv(paths).columns, CORRUPT]
    schema = StructType([StructField(name, StringType()) for name in names])
    return reader.option("columnNameOfCorruptRecord", CORRUPT).schema(schema).csv(paths)


def messages(frame: "DataFrame", *, keep_original: bool = False) -> "DataFrame":
    """Rows as `meantime.topic` takes them; if asked for, each with what stood in the file, to be shown if it is refused."""
    from pyspark.sql import functions as f

    names = frame.columns
    given = [name for name in WHEN if name in names]
    if names == [CORRUPT]:
        raise Invalid("no line can be read: JSON files have one object a line")
    _check_names(names)
    rest = [name for name in names if name not in (*WHEN, "id", "body", CORRUPT)]
    body = f.col("body") if "body" in names else f.to_json(f.struct(*(f.col(f"`{name}`") for name in rest)))
    columns, unread = [body.alias("body")], _unread(names, given)
    if "id" in names:
        columns.append(f.col("id").cast("string").alias("id"))
    if "at" in names or "at_ms" in names:
        columns.append(f.when(unread.isNull(), _at_ms(names)).alias("at_ms"))
    if "after_ms" in names:
        columns.append(f.when(unread.isNull(), f.expr("try_cast(after_ms as bigint)")).alias("after_ms"))
    if keep_original:
        columns.append(f.to_json(f.struct(*(f.col(f"`{name}`") for name in names))).alias(ORIGINAL))
    return frame.select(*columns, unread.alias(UNREAD))


def _unread(names: Sequence[str], given: Sequence[str]) -> "Column":
    """Why a row cannot be read, with the value that is wrong; null if it can."""
    from pyspark.sql import functions as f

    kinds = {"at": "timestamp", "at_ms": "bigint", "after_ms": "bigint"}
    strange = [
        f.when(
            f.col(name).isNotNull() & f.expr(f"try_cast({name} as {kinds[name]})").isNull(),
            f.format_string(f"the instant cannot be read: {name} %s", f.col(name).cast("string")),
        )
        for name in given
    ]
    if CORRUPT in names:
        broken = f.format_string("the line cannot be read: %s", f.substring(CORRUPT, 1, 200))
        strange.insert(0, f.when(f.col(CORRUPT).isNotNull(), broken))
    return f.coalesce(*strange)


def _at_ms(names: Sequence[str]) -> "Column":
    from pyspark.sql import functions as f

    whole = f.expr("try_cast(at_ms as bigint)") if "at_ms" in names else f.lit(None).cast("bigint")
    return f.coalesce(whole, f.expr("unix_millis(try_cast(at as timestamp))")) if "at" in names else whole


def planned(frame: "DataFrame", now_ms: int, step_ms: int) -> dict[int | None, int]:
    """How many messages each slot would get, by its beginning; what is overdue counts as now. None is no instant at all."""
    from pyspark.sql import functions as f

    at = f.col("at_ms") if "at_ms" in frame.columns else f.lit(None).cast("bigint")
    after = f.col("after_ms") if "after_ms" in frame.columns else f.lit(None).cast("bigint")
    asked = f.coalesce(at, f.lit(now_ms) + after)
    due = f.when(asked.isNotNull(), f.greatest(asked, f.lit(now_ms)))
    slots = frame.select((f.floor(due / step_ms) * step_ms).alias("slot")).groupBy("slot").count()
    return {row["slot"]: row["count"] for row in slots.collect()}
