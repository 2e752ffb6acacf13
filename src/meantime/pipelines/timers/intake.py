"""What becomes of requests on their way into the join, and out of it. Pure.

The same verdict as everywhere (`timers.rules`), but on many at once: nearly all requests are a token, a second and a message
of modest size, and those are judged column by column. Only what differs is looked at by itself.

    requests ──► columns, with the tick that each meets ──► packs in the join ──► records for `timer-due` or `timer-rejected`
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from meantime.kafka.settings import Storage
from meantime.names import IDENTIFIER
from meantime.timers.model import Record, TimerLimits
from meantime.timers.rules import SECOND, outside, share_of
from meantime.timers.topics import DUE, REJECTED

if TYPE_CHECKING:
    from pyarrow import Array, RecordBatch, Schema, Table

Headers = tuple[tuple[str, bytes | None], ...]

DIGITS = rf"\A{SECOND.pattern.decode()}\z"
TOKEN = rf"\A{IDENTIFIER.pattern}\z"
OUTGOING = "topic string, partition int, key binary, value binary, headers array<struct<key:string,value:binary>>"


@dataclass(frozen=True, slots=True)
class FuturesOptions:
    storage: Storage
    checkpoint: str
    shares: int
    """Partitions of `timer-due`."""
    limits: TimerLimits = field(default_factory=TimerLimits)
    shards: int = 4
    batch_every: float = 2.5
    max_requests: int = 400_000
    """Most requests in one micro-batch."""
    max_bytes: int = 256 * 1024 * 1024
    """About the most bytes in it, as far as samples tell."""
    tick_every_s: int = 5
    """Of the oscillator's ticks one in so many is joined; a request that is late waits for the next of them."""
    stretch_s: int = 30
    """Seconds that are handed out at once, a multiple of `tick_every_s`."""
    early_s: int = 20
    """How long before its first second a stretch is handed out, a multiple as well."""
    remember_ticks_s: int = 65
    """More than the lead, by as much as clocks may differ."""
    started_ms: int = 0
    """Where ticks are read from when there is no checkpoint."""
    ticks_ahead_s: int = 90
    """How far ahead of the clock a tick may be: more than the lead, by as much as clocks may differ."""
    behind_s: int = 0
    """How far the clock of this machine is behind the oscillator's."""


class Requests(NamedTuple):
    """Records of one partition of `timer-request`, column by column."""

    partition: int
    offsets: Sequence[int]
    times_ms: Sequence[int]
    keys: Sequence[bytes | None]
    values: Sequence[bytes | None]
    headers: Sequence[Sequence[tuple[str, bytes | None]] | None]

    def record(self, number: int) -> Record:
        at = (self.partition, self.offsets[number], self.times_ms[number], self.keys[number], self.values[number])
        return Record(*at, tuple(self.headers[number] or ()))


class Refusal(msgspec.Struct, frozen=True, array_like=True):
    """What a request that is refused keeps, to go out as it came."""

    reason: str
    headers: Headers


class Waiting(NamedTuple):
    """A request in the join."""

    meets: int
    key: bytes | None
    value: bytes | None
    token: bytes
    cancels: bool
    requested_ms: int
    refusal: bytes | None


def waiting_schema() -> "Schema":
    import pyarrow as pa

    kinds = (pa.int64(), pa.binary(), pa.binary(), pa.binary(), pa.bool_(), pa.int64(), pa.binary())
    return pa.schema(list(zip(Waiting._fields, kinds, strict=True)))


def upcoming(now_s: float, options: FuturesOptions) -> int:
    """The first tick that cannot have been yet."""
    now = int(now_s) + options.behind_s
    return now - now % options.tick_every_s + options.tick_every_s


def taken_in(requests: Requests, next_tick: int, options: FuturesOptions) -> "Table":
    """The requests as rows of `waiting_schema`, those of `timer-rejected` among them."""
    import pyarrow as pa
    from pyarrow import compute

    keys, values = pa.array(requests.keys, pa.binary()), pa.array(requests.values, pa.binary())
    tokens = pa.array([h[0][1] if h and len(h) == 1 and h[0][0] == "token" else None for h in requests.headers], pa.binary())
    times = pa.array(requests.times_ms, pa.int64())
    digits = compute.fill_null(compute.match_substring_regex(keys, DIGITS), False)
    seconds = compute.if_else(digits, keys, b"0").cast(pa.string()).cast(pa.int64())
    usual = compute.and_(digits, _within(seconds, times, values, tokens, options.limits))
    cancels, refusals = pa.repeat(pa.scalar(False), len(keys)), pa.nulls(len(keys), pa.binary())
    columns = [_met(seconds, next_tick, options), keys, values, tokens, cancels, times, refusals]
    table = pa.Table.from_arrays(columns, schema=waiting_schema())
    if compute.all(usual, min_count=0).as_py():
        return table
    others = compute.indices_nonzero(compute.invert(usual)).to_pylist()
    judged = [_judged(requests.record(number), next_tick, options) for number in others]
    return pa.concat_tables([table.filter(usual), _table(judged)])


def _within(seconds: Any, times: Any, values: Any, tokens: Any, limits: TimerLimits) -> "Array[Any]":
    """Whether nothing is to be said against each, as far as it is a plain request."""
    import pyarrow as pa
    from pyarrow import compute

    horizon = compute.add(compute.divide(times, 1000), limits.horizon_s)
    sizes = compute.fill_null(compute.binary_length(values), 0).cast(pa.int64())
    near, small = compute.less_equal(seconds, horizon), compute.less_equal(sizes, limits.max_request_bytes)
    return compute.and_(compute.and_(near, small), compute.fill_null(compute.match_substring_regex(tokens, TOKEN), False))


def _met(seconds: Any, next_tick: int, options: FuturesOptions) -> "Array[Any]":
    from pyarrow import compute

    stretches = compute.multiply(compute.divide(seconds, options.stretch_s), options.stretch_s)
    return compute.max_element_wise(compute.subtract(stretches, options.early_s), next_tick)


def _judged(record: Record, next_tick: int, options: FuturesOptions) -> Waiting:
    token, second, cancels, reason = outside(record, options.limits)
    known = record.key, record.value, token.encode(), cancels, record.timestamp_ms
    if second is None or reason is not None:
        return Waiting(next_tick, *known, msgspec.msgpack.encode(Refusal(reason or "", record.headers)))
    handed_out = second - second % options.stretch_s - options.early_s
    return Waiting(max(handed_out, next_tick), *known, None)


def _table(rows: Sequence[Waiting]) -> "Table":
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    schema = waiting_schema()
    return pa.Table.from_arrays(
        [pa.array(column, of.type) for column, of in zip(columns, schema, strict=True)], schema=schema
    )


def going_out(waiting: "RecordBatch", shares: int) -> "RecordBatch":
    """What is written to Kafka when the tick has come, with the columns of `OUTGOING`."""
    import pyarrow as pa

    rows = [Waiting(*row) for row in zip(*(column.to_pylist() for column in waiting.columns), strict=True)]
    headers = [_headers(row) for row in rows]
    flat = list(chain.from_iterable(headers))
    ends = list(accumulate(map(len, headers), initial=0))
    names, contents = (
        pa.array([name for name, _ in flat], pa.string()),
        pa.array([content for _, content in flat], pa.binary()),
    )
    pairs = pa.StructArray.from_arrays([names, contents], ["key", "value"])
    places = [share_of(row.token.decode(), shares) if row.refusal is None else 0 for row in rows]
    return pa.RecordBatch.from_pydict(
        {
            "topic": pa.array([DUE if row.refusal is None else REJECTED for row in rows], pa.string()),
            "partition": pa.array(places, pa.int32()),
            "key": waiting.column("key"),
            "value": waiting.column("value"),
            "headers": pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pairs),
        }
    )


def _headers(row: Waiting) -> Headers:
    """Which timer it is, whether it is set or cancelled, and when Kafka got the request; or the record's own, and why."""
    if row.refusal is not None:
        refusal = msgspec.msgpack.decode(row.refusal, type=Refusal)
        return (*refusal.headers, ("reason", refusal.reason.encode()))
    return (("cancel" if row.cancels else "token", row.token), ("requested", b"%d" % row.requested_ms))
