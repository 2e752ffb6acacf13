"""A body in pieces gives the same events as the body at once."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.errors import Malformed
from meantime.streams.publishing import splitting
from meantime.streams.publishing.splitting import split, split_in_steps
from meantime.streams.publishing.steps import at_once

BORDERS = st.sampled_from(['"},{"', "},{", "}, {", '\\"},{\\"', "[{},{}]", "ü"])
VALUES = st.recursive(
    st.none() | st.integers() | st.text() | BORDERS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3) | BORDERS, inner, max_size=4),
    max_leaves=20,
)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splitting, "PIECE_BYTES", 8)


def outcome(splitting: Callable[[], list[bytes]]) -> list[bytes] | str:
    try:
        return splitting()
    except Malformed as error:
        return error.detail


@given(st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=12), st.sampled_from([None, 1]))
def test_pieces_give_what_the_whole_gives(events: list[dict[str, Any]], indent: int | None) -> None:
    body = json.dumps(events, ensure_ascii=False, indent=indent).encode()
    assert at_once(split_in_steps(body)) == split(body)


@given(
    st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=6),
    st.integers(0, 400),
    st.binary(max_size=3),
)
def test_a_body_that_is_broken_somewhere_is_refused_as_the_whole_is(
    events: list[dict[str, Any]], place: int, instead: bytes
) -> None:
    body = json.dumps(events).encode()
    broken = body[:place] + instead + body[place + 1 :]
    assert outcome(lambda: at_once(split_in_steps(broken))) == outcome(lambda: split(broken))


def test_a_large_body_is_split_in_many_steps() -> None:
    steps = split_in_steps(json.dumps([{"items": [{"a": 1}, {"b": 2}]}] * 100).encode())
    assert sum(1 for _ in steps) >= 100


def test_objects_without_end_inside_one_event_are_found_all_the_same() -> None:
    body = json.dumps([{"items": [{}] * 1000}, {"n": 2}]).encode()
    assert at_once(split_in_steps(body)) == split(body)
