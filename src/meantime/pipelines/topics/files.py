"""Files to be scheduled: CSV, JSON lines or Parquet into rows of messages.

The columns `id`, `at` (RFC 3339) or `at_ms`, `after_ms` and `body` have their meaning; without `body` all other columns
together are the body.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from meantime.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

WHEN = ("at", "at_ms", "after_ms")
CORRUPT = "_corrupt_record"
"""Where Spark puts a line that is no JSON."""
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


def read_files(spark: "SparkSession", files: Sequence[Path]) -> "DataFrame":
    """All files must be of one kind and have the same columns."""
    kind, paths = kind_of(files), [str(file.absolute()) for file in files]
    if kind == "csv":
        return spark.read.csv(paths, header=True, escape='"', multiLine=True)
    return spark.read.json(paths) if kind == "json" else spark.read.parquet(*paths)


def messages(frame: "DataFrame") -> "DataFrame":
    """Rows as `meantime.topic` takes them."""
    from pyspark.sql import functions as f

    names = frame.columns
    given = [name for name in WHEN if name in names]
    if names == [CORRUPT]:
        raise Invalid("no line can be read: JSON files have one object a line")
    if not given:
        raise Invalid("column 'at' is missing (or 'at_ms', 'after_ms'): a message needs an instant", column="at")
    rest = [name for name in names if name not in (*WHEN, "id", "body", CORRUPT)]
    if "body" not in names and not rest:
        raise Invalid("column 'body' is missing, and no other column could be it", column="body")
    body = f.col("body") if "body" in names else f.to_json(f.struct(*(f.col(f"`{name}`") for name in rest)))
    columns = [body.alias("body")]
    if "id" in names:
        columns.append(f.col("id").cast("string").alias("id"))
    if "at" in names or "at_ms" in names:
        columns.append(_at_ms(names).alias("at_ms"))
    if "after_ms" in names:
        columns.append(f.expr("try_cast(after_ms as bigint)").alias("after_ms"))
    return frame.select(*columns, _unread(names, given).alias("unread"))


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
        broken = f.format_string("the line is no JSON object: %s", f.substring(CORRUPT, 1, 200))
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
