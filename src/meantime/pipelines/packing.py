"""Records that leave on the same tick, packed into one row.

What a join costs is the rows that it keeps, not the bytes in them, so a task packs the records of its part of a micro-batch
before they are kept, and they are unpacked when their tick comes. A pack is bounded in size, and packs are dealt out to the
shards in turn, so that all tasks hand out what a tick has to hand out. In between nobody looks inside.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from meantime.timers.topics import DUE, REJECTED

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame

PACKS = "meets bigint, shard int, records binary"
RECORDS = "topic string, partition int, key binary, value binary, headers array<struct<key:string,value:binary>>"

PACK_BYTES = 64 * 1024
"""A pack is closed once it holds so much."""
AT_ONCE_BYTES = 32 * 1024 * 1024
"""How much is packed at once; a task holds little more than this."""
SETTINGS = {
    "spark.sql.execution.arrow.maxRecordsPerBatch": "4000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(AT_ONCE_BYTES // 4),
}
"""How much Spark hands over to be unpacked at a time."""
REFUSED = -1
HEAD = 5
"""Bytes in front of a list in MessagePack, in its longest form."""


class Outgoing(NamedTuple):
    """A record as it will be written: to a partition of `timer-due`, or `REFUSED`."""

    share: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Pack:
    """Records one after the other, as a list in MessagePack whose length is filled in at the end. They are not kept as they
    are: millions of small objects would keep the memory busy, and whoever looks after it."""

    __slots__ = ("content", "count")

    def __init__(self) -> None:
        self.content = bytearray(HEAD)
        self.count = 0

    def closed(self) -> bytes:
        self.content[:HEAD] = b"\xdd" + self.count.to_bytes(4)
        return bytes(self.content)


class Packer:
    """Collects records by the tick that they meet."""

    def __init__(self, shards: int) -> None:
        self._shards = shards
        self._encode_into = msgspec.msgpack.Encoder().encode_into
        self._open: defaultdict[int, Pack] = defaultdict(Pack)
        self._closed: list[tuple[int, bytes]] = []
        self._bytes = 0
        self._dealt = 0

    @property
    def full(self) -> bool:
        return self._bytes >= AT_ONCE_BYTES

    def add(self, meets: int, record: Outgoing) -> None:
        pack = self._open[meets]
        before = len(pack.content)
        self._encode_into(record, pack.content, before)
        pack.count += 1
        size = len(pack.content)
        self._bytes += size - before
        if size >= PACK_BYTES:
            self._closed.append((meets, self._open.pop(meets).closed()))

    def packs(self) -> "RecordBatch":
        """All that was collected, in rows with the columns of `PACKS`."""
        import pyarrow as pa

        packs = sorted([*self._closed, *((meets, pack.closed()) for meets, pack in self._open.items())])
        dealt = range(self._dealt, self._dealt + len(packs))
        self._open.clear()
        self._closed.clear()
        self._bytes, self._dealt = 0, dealt.stop
        return pa.RecordBatch.from_pydict(
            {
                "meets": pa.array([meets for meets, _ in packs], pa.int64()),
                "shard": pa.array([number % self._shards for number in dealt], pa.int32()),
                "records": pa.array([pack for _, pack in packs], pa.binary()),
            }
        )


def unpacked(packs: "DataFrame") -> "DataFrame":
    """The records of these packs, with the columns of `RECORDS`."""
    return _map_in_arrow(packs.select("records"), unpack, RECORDS)


def unpack(batches: Iterable["RecordBatch"]) -> Iterator["RecordBatch"]:
    decoder = msgspec.msgpack.Decoder(list[Outgoing])
    for batch in batches:
        yield _columns([record for pack in batch.column(0).to_pylist() for record in decoder.decode(pack)])


def _columns(records: list[Outgoing]) -> "RecordBatch":
    import pyarrow as pa

    headers = [header for record in records for header in record.headers]
    ends = [0]
    for record in records:
        ends.append(ends[-1] + len(record.headers))
    names, values = [name for name, _ in headers], [value for _, value in headers]
    pairs = pa.StructArray.from_arrays([pa.array(names, pa.string()), pa.array(values, pa.binary())], ["key", "value"])
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([REJECTED if record.share == REFUSED else DUE for record in records], pa.string()),
            "partition": pa.array([max(0, record.share) for record in records], pa.int32()),
            "key": pa.array([record.key for record in records], pa.binary()),
            "value": pa.array([record.value for record in records], pa.binary()),
            "headers": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs),
        }
    )


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
