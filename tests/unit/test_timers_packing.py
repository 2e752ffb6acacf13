"""Requests that meet the same tick share a row, and come out of it as they went in."""

from collections import Counter

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from meantime.pipelines.packing import PACK_BYTES, pack

SCHEMA = pa.schema([("meets", pa.int64()), ("value", pa.binary()), ("token", pa.string())])


def batch(rows: list[tuple[int, bytes | None, str]]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    arrays = [pa.array(list(column), field.type) for column, field in zip(columns, SCHEMA, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def packs(rows: list[tuple[int, bytes | None, str]], shards: int = 4) -> list[dict]:
    middle = len(rows) // 2
    return [row for packed in pack([batch(rows[:middle]), batch(rows[middle:])], shards) for row in packed.to_pylist()]


@given(st.lists(st.tuples(st.integers(0, 4), st.one_of(st.none(), st.binary(max_size=3)), st.text("ab", max_size=3))))
def test_every_request_is_in_one_pack_of_its_tick(rows):
    unpacked = [(one["meets"], r["value"], r["token"]) for one in packs(rows) for r in one["requests"]]
    assert Counter(unpacked) == Counter(rows)


def test_small_requests_of_one_tick_share_a_row():
    found = packs([(number % 3, b"x", str(number)) for number in range(300)])
    assert [(one["meets"], len(one["requests"])) for one in found] == [(0, 100), (1, 100), (2, 100)]


def test_a_tick_with_much_to_hand_out_is_spread_over_the_shards():
    found = packs([(7, bytes(1000), str(number)) for number in range(1000)], shards=3)
    assert all(sum(len(r["value"]) for r in one["requests"]) <= PACK_BYTES for one in found)
    dealt = Counter(one["shard"] for one in found)
    assert set(dealt) == {0, 1, 2}
    assert max(dealt.values()) - min(dealt.values()) <= 1


def test_a_request_larger_than_a_pack_has_one_of_its_own():
    found = packs([(1, bytes(3 * PACK_BYTES), "large"), (1, b"", "small")])
    assert [[r["token"] for r in one["requests"]] for one in found] == [["large"], ["small"]]
