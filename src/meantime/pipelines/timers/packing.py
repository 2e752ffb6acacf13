"""Requests that meet the same tick, packed into one row.

What a join costs is the rows that it keeps, not the bytes in them, so a task packs the requests of its part of a micro-batch
before they are kept, and they are unpacked when their tick comes. A pack is bounded in size, and packs are dealt out to the
shards in turn, so that all tasks hand out what a tick has to hand out. In between nobody looks inside.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from meantime.pipelines.timers.intake import OUTGOING, going_out, waiting_schema

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Table
    from pyspark.sql import DataFrame

PACKS = "meets bigint, shard int, requests binary"

PACK_BYTES = 64 * 1024
"""About how much a pack may hold, unless a single request is larger."""
AT_ONCE_BYTES = 32 * 1024 * 1024
"""How much is packed at once; a task holds little more than this."""
HANDED_OVER_BYTES = 4 * 1024 * 1024
"""About how much of it is handed to Java at a time."""
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(AT_ONCE_BYTES // 4),
}
"""How much Spark hands over to be unpacked at a time."""
BESIDE_VALUE = 100
"""About how many bytes a request takes beside its value."""


def pack(tables: Iterable["Table"], shards: int) -> Iterator["RecordBatch"]:
    """Rows with the columns of `PACKS` for requests with those of `waiting_schema`."""
    import pyarrow as pa

    waiting: list[Table] = []
    for table in tables:
        waiting.append(table)
        if sum(one.nbytes for one in waiting) >= AT_ONCE_BYTES:
            yield from _handed_over(_pack(pa.concat_tables(waiting), shards))
            waiting = []
    if any(one.num_rows for one in waiting):
        yield from _handed_over(_pack(pa.concat_tables(waiting), shards))


def _handed_over(packs: "RecordBatch") -> Iterator["RecordBatch"]:
    """In pieces for which Java has room at hand; for a large one it would ask the system each time."""
    each = max(1, packs.num_rows * HANDED_OVER_BYTES // max(1, packs.nbytes))
    for start in range(0, packs.num_rows, each):
        yield packs.slice(start, each)


def _pack(table: "Table", shards: int) -> "RecordBatch":
    import pyarrow as pa
    from pyarrow import compute

    (batch,) = table.take(compute.sort_indices(table.column("meets"))).combine_chunks().to_batches()
    meets = batch.column("meets")
    borders = _borders(meets, batch.column("value"))
    packs = [batch.slice(start, end - start).serialize().to_pybytes() for start, end in pairwise(borders)]
    return pa.RecordBatch.from_pydict(
        {
            "meets": meets.take(pa.array(borders[:-1], pa.int32())),
            "shard": pa.array([number % shards for number in range(len(packs))], pa.int32()),
            "requests": pa.array(packs, pa.binary()),
        }
    )


def _borders(meets: "Array[Any]", values: "Array[Any]") -> list[int]:
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


def unpacked(packs: "DataFrame", shares: int) -> "DataFrame":
    """What these packs have to say to Kafka, with the columns of `OUTGOING`."""
    return packs.select("requests").mapInArrow(partial(unpack, shares=shares), OUTGOING)


def unpack(batches: Iterable["RecordBatch"], shares: int) -> Iterator["RecordBatch"]:
    import pyarrow as pa

    schema = waiting_schema()
    for batch in batches:
        packs = [pa.ipc.read_record_batch(pa.py_buffer(pack), schema) for pack in batch.column(0).to_pylist()]
        for whole in pa.Table.from_batches(packs, schema).combine_chunks().to_batches():
            yield going_out(whole, shares)
