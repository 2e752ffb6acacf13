"""Requests that meet the same tick share a row, and come out of it as they went in."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from meantime.pipelines.timers.intake import Waiting, waiting_schema
from meantime.pipelines.timers.packing import AT_ONCE_BYTES, HANDED_OVER_BYTES, PACK_BYTES, pack, unpack

bytes_or_none = st.one_of(st.none(), st.binary(max_size=3))
requests = st.builds(
    Waiting,
    meets=st.integers(0, 4),
    key=bytes_or_none,
    value=bytes_or_none,
    token=st.binary(max_size=3),
    cancels=st.booleans(),
    requested_ms=st.integers(0, 1 << 40),
    refusal=bytes_or_none,
)


def table(rows: list[Waiting]) -> pa.Table:
    return pa.Table.from_pylist([row._asdict() for row in rows], schema=waiting_schema())


def packs(rows: list[Waiting], shards: int = 4) -> list[dict]:
    middle = len(rows) // 2
    return [row for batch in pack([table(rows[:middle]), table(rows[middle:])], shards) for row in batch.to_pylist()]


def inside(one: dict) -> list[Waiting]:
    batch = pa.ipc.read_record_batch(pa.py_buffer(one["requests"]), waiting_schema())
    return [Waiting(**row) for row in batch.to_pylist()]


def small(meets: int, value: bytes = b"x") -> Waiting:
    return Waiting(meets, b"1", value, b"token", False, 0, None)


@given(st.lists(requests))
def test_every_request_is_in_one_pack_of_its_tick(rows):
    found = packs(rows)
    assert Counter(row for one in found for row in inside(one)) == Counter(rows)
    assert all(row.meets == one["meets"] for one in found for row in inside(one))


def test_small_requests_of_one_tick_share_a_row():
    found = packs([small(number % 3) for number in range(300)])
    assert [(one["meets"], len(inside(one))) for one in found] == [(0, 100), (1, 100), (2, 100)]


def test_a_tick_with_much_to_hand_out_is_spread_over_the_shards():
    found = packs([small(7, bytes(1000)) for _ in range(1000)], shards=3)
    assert all(sum(len(row.value) for row in inside(one)) <= PACK_BYTES for one in found)
    dealt = Counter(one["shard"] for one in found)
    assert set(dealt) == {0, 1, 2}
    assert max(dealt.values()) - min(dealt.values()) <= 1


def test_a_request_larger_than_a_pack_has_one_of_its_own():
    found = packs([small(1, bytes(3 * PACK_BYTES)), small(1, b"")])
    assert [[len(row.value) for row in inside(one)] for one in found] == [[3 * PACK_BYTES], [0]]


def test_a_task_holds_a_bounded_number_of_bytes():
    taken = iter([table([small(number, bytes(AT_ONCE_BYTES // 4))]) for number in range(8)])
    handed_over = pack(taken, 4)
    next(handed_over)
    assert len(list(taken)) == 4, "no more was taken than is packed at once"


def test_java_gets_it_in_pieces():
    batches = list(pack([table([small(number, bytes(PACK_BYTES)) for number in range(200)])], 4))
    assert sum(batch.num_rows for batch in batches) == 200
    assert [batch.nbytes <= HANDED_OVER_BYTES + PACK_BYTES for batch in batches] == [True] * 4


def test_what_is_unpacked_is_what_was_packed():
    found = [small(number % 2, b"%d" % number) for number in range(10)]
    rows = pa.RecordBatch.from_pylist([{"requests": one["requests"]} for one in packs(found)])
    values = [row["value"] for batch in unpack([rows], shares=4) for row in batch.to_pylist()]
    assert sorted(values) == sorted(row.value for row in found)
