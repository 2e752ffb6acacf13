"""Ids of streams, and the keys that they were opened with."""

from uuid import UUID, uuid4

import pytest

from meantime.streams.subscriptions.stream_ids import new_stream_id, opened_with


@pytest.mark.parametrize("key_id", [None, "k1", "k2"])
def test_an_id_tells_the_key_that_it_was_made_for_and_no_other(key_id: str | None) -> None:
    ids = [new_stream_id(key_id) for _ in range(200)]
    assert len(set(ids)) == 200
    for id in ids:
        assert UUID(str(id)).version == 4
        assert [key for key in (None, "k1", "k2") if opened_with(id, key)] == [key_id]


def test_any_other_id_belongs_to_no_key() -> None:
    assert not any(opened_with(uuid4(), key_id) for key_id in (None, "k1") for _ in range(200))
