"""Requests that meet the same tick, packed into one row.

What a join costs is the rows that it keeps, not the bytes in them, so a task packs the requests of its part of a micro-batch
before they are kept, and they are unpacked when their tick comes. A pack is bounded in size, and packs are dealt out to the
shards in turn, so that all tasks hand out what a tick has to hand out.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Table
    from pyspark.sql import DataFrame

PACK_BYTES = 64 * 1024
"""About how much a pack may hold, unless a single request is larger."""
AT_ONCE_BYTES = 32 * 1024 * 1024
"""How much is packed at once; a task holds no more than this."""
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(AT_ONCE_BYTES // 4),
}
"""How much Spark hands over at a time, however large single requests are."""
BESIDE_VALUE = 100
"""About how many bytes a request takes beside its value."""


def packed(frame: "DataFrame", shards: int) -> "DataFrame":
    """Rows with the columns `meets` (the tick's second), `shard` and `requests`, an array of all other columns."""
    fields = [f"{field.name}: {field.dataType.simpleString()}" for field in frame.schema if field.name != "meets"]
    schema = f"meets bigint, shard int, requests array<struct<{', '.join(fields)}>>"
    return _map_in_arrow(frame, partial(pack, shards=shards), schema)


def pack(batches: Iterable["RecordBatch"], shards: int) -> Iterator["RecordBatch"]:
    """The same requests in packs."""
    import pyarrow as pa

    waiting: list[RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(one.nbytes for one in waiting) >= AT_ONCE_BYTES:
            yield _pack(pa.Table.from_batches(waiting), shards)
            waiting = []
    if any(one.num_rows for one in waiting):
        yield _pack(pa.Table.from_batches(waiting), shards)


def _pack(table: "Table", shards: int) -> "RecordBatch":
    import pyarrow as pa
    from pyarrow import compute

    table = table.take(compute.sort_indices(table.column("meets"))).combine_chunks()
    columns = {name: table.column(name).chunk(0) for name in table.column_names}
    meets = columns.pop("meets")
    borders = _borders(meets, columns["value"])
    requests = pa.StructArray.from_arrays(list(columns.values()), list(columns))
    packs = len(borders) - 1
    return pa.RecordBatch.from_pydict(
        {
            "meets": meets.take(pa.array(borders[:-1], pa.int32())),
            "shard": pa.array([number % shards for number in range(packs)], pa.int32()),
            "requests": pa.ListArray.from_arrays(pa.array(borders, pa.int32()), requests),
        }
    )


def _borders(meets: "Array", values: "Array") -> list[int]:
    """Where packs begin and the last one ends: one for each tick, or as many as its bytes ask for."""
    from pyarrow import compute

    ends = [0, *compute.run_end_encode(meets).run_ends.to_pylist()]
    sizes = compute.add(compute.fill_null(compute.binary_length(values), 0), BESIDE_VALUE).cast("int64")
    sums = [0, *compute.take(compute.cumulative_sum(sizes), [end - 1 for end in ends[1:]]).to_pylist()]
    borders = [0]
    for (start, end), (before, after) in zip(pairwise(ends), pairwise(sums), strict=True):
        parts = min(end - start, -(-(after - before) // PACK_BYTES))
        borders += [start + (end - start) * part // parts for part in range(1, parts + 1)]
    return borders


def _map_in_arrow(
    frame: "DataFrame", function: Callable[[Iterable["RecordBatch"]], Iterator["RecordBatch"]], schema: str
) -> "DataFrame":
    """`DataFrame.mapInArrow`, which refuses to work where pandas is missing, though it does not use it."""
    from pyspark.sql import DataFrame
    from pyspark.sql.udf import UserDefinedFunction
    from pyspark.util import PythonEvalType

    udf = UserDefinedFunction(function, schema, evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF)
    column = udf(*[frame[name] for name in frame.columns])
    return DataFrame(frame._jdf.mapInArrow(column._jc, False, None), frame.sparkSession)
