"""Records that meet the same tick share a row, and come out of it as they went in."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from meantime.pipelines.packing import PACK_BYTES, REFUSED, Outgoing, Packer, unpack
from meantime.timers.topics import DUE, REJECTED

bytes_or_none = st.one_of(st.none(), st.binary(max_size=3))
records = st.builds(
    Outgoing,
    share=st.integers(REFUSED, 3),
    key=bytes_or_none,
    value=bytes_or_none,
    headers=st.lists(st.tuples(st.text(max_size=2), bytes_or_none), max_size=3).map(tuple),
)


def packed(rows: list[tuple[int, Outgoing]], shards: int = 4):
    packer = Packer(shards)
    for meets, record in rows:
        packer.add(meets, record)
    return packer.packs()


def unpacked(packs) -> list[Outgoing]:
    """What is to be written to Kafka, as the records that it was made of."""
    rows = [row for batch in unpack([packs.select(["records"])]) for row in batch.to_pylist()]
    for row in rows:
        assert row["topic"] in (DUE, REJECTED)
        assert row["topic"] == DUE or row["partition"] == 0
    return [
        Outgoing(
            row["partition"] if row["topic"] == DUE else REFUSED,
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"]),
        )
        for row in rows
    ]


def small(value: bytes = b"x", share: int = 0) -> Outgoing:
    return Outgoing(share, b"1", value, ())


@given(st.lists(st.tuples(st.integers(0, 4), records)))
def test_every_record_is_in_one_pack_of_its_tick(rows):
    packs = packed(rows)
    assert Counter(unpacked(packs)) == Counter(record for _, record in rows)
    for number in range(packs.num_rows):
        (meets,) = packs.column(0)[number : number + 1].to_pylist()
        inside = Counter(unpacked(packs[number : number + 1]))
        assert inside <= Counter(record for tick, record in rows if tick == meets)


def test_small_records_of_one_tick_share_a_row():
    packs = packed([(number % 3, small()) for number in range(300)])
    assert packs.column(0).to_pylist() == [0, 1, 2]
    assert [len(unpacked(packs[number : number + 1])) for number in range(3)] == [100, 100, 100]


def test_a_tick_with_much_to_hand_out_is_spread_over_the_shards():
    packs = packed([(7, small(bytes(1000))) for _ in range(1000)], shards=3)
    assert all(len(pack) < PACK_BYTES + 1100 for pack in packs.column(2).to_pylist())
    dealt = Counter(packs.column(1).to_pylist())
    assert set(dealt) == {0, 1, 2}
    assert max(dealt.values()) - min(dealt.values()) <= 1


def test_shards_are_dealt_on_from_batch_to_batch():
    packer = Packer(3)
    dealt = []
    for _ in range(4):
        packer.add(1, small())
        dealt += packer.packs().column(1).to_pylist()
    assert dealt == [0, 1, 2, 0]


def test_a_large_record_closes_its_pack():
    large, little = small(bytes(3 * PACK_BYTES)), small(b"")
    packs = packed([(1, large), (1, little)])
    assert sorted(len(unpacked(packs[number : number + 1])) for number in range(packs.num_rows)) == [1, 1]


def test_a_packer_is_full_when_it_holds_what_a_task_may_hold_and_empty_afterwards():
    packer = Packer(1)
    while not packer.full:
        packer.add(1, small(bytes(1 << 20)))
    assert 30 <= packer.packs().num_rows <= 33
    assert not packer.full
    assert packer.packs().num_rows == 0
