"""A request on its way into the join: the tick that it meets, and what goes out then."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.pipelines.intake import FuturesOptions, taken_in, upcoming
from meantime.pipelines.packing import REFUSED
from meantime.pipelines.request_source import advanced
from meantime.timers.model import Cancel, Record, Set
from meantime.timers.rules import NO_SECOND, read_due, share_of

OPTIONS = FuturesOptions("kafka", "checkpoint", shares=4)
NOW = 1_800_000_003
NEXT = upcoming(NOW, OPTIONS)


def request(second: bytes, value: bytes | None = b"\n\x05calls", **headers: bytes) -> Record:
    return Record(1, 7, NOW * 1000, second, value, tuple(headers.items()))


def test_the_next_tick_has_not_been_yet():
    assert upcoming(1_800_000_000.0, OPTIONS) == 1_800_000_005
    assert upcoming(1_800_000_004.9, OPTIONS) == 1_800_000_005
    assert upcoming(1_800_000_004.9, FuturesOptions("", "", 4, behind_s=3)) == 1_800_000_010


@given(st.integers(NOW - 10_000, NOW + 10_000))
def test_a_request_meets_a_tick_that_is_joined_and_has_not_been_yet(second):
    meets, _ = taken_in(request(str(second).encode()), NEXT, OPTIONS)
    assert meets >= NEXT
    assert meets % OPTIONS.tick_every_s == 0
    assert meets <= max(second - OPTIONS.early_s, NEXT)


def test_what_is_past_goes_out_with_the_next_tick():
    assert taken_in(request(b"5"), NEXT, OPTIONS)[0] == NEXT


@pytest.mark.parametrize("name", ["token", "cancel"])
def test_a_dispatcher_reads_what_was_asked_for(name):
    value = None if name == "cancel" else b"\n\x05calls"
    _, outgoing = taken_in(request(b"1800000900", value, **{name: b"me"}), NEXT, OPTIONS)
    assert outgoing.share == share_of("me", 4)
    due = read_due(Record(0, 0, 0, outgoing.key, outgoing.value, outgoing.headers), OPTIONS.limits)
    assert isinstance(due, Cancel if name == "cancel" else Set)
    assert (due.token, due.second, due.requested_ms) == ("me", 1_800_000_900, NOW * 1000)


def test_a_request_without_a_token_has_its_place_for_one():
    _, outgoing = taken_in(request(b"1800000900"), NEXT, OPTIONS)
    assert dict(outgoing.headers)["token"] == b"1-7"


def test_what_is_refused_goes_out_as_it_came_with_the_reason():
    meets, outgoing = taken_in(request(b"soon", b"x", token=b"me", other=b"\xff"), NEXT, OPTIONS)
    assert (meets, outgoing.share, outgoing.key, outgoing.value) == (NEXT, REFUSED, b"soon", b"x")
    assert outgoing.headers == (("token", b"me"), ("other", b"\xff"), ("reason", NO_SECOND.encode()))


@given(
    st.dictionaries(st.integers(0, 3), st.integers(0, 50)),
    st.dictionaries(st.integers(0, 5), st.integers(0, 100), min_size=1),
    st.integers(1, 60),
)
def test_a_batch_is_bounded_moves_on_and_never_goes_back(start, ends, most):
    ends = {partition: max(end, start.get(partition, 0)) for partition, end in ends.items()}
    reached = advanced(start, ends, most)
    steps = {partition: reached[partition] - start.get(partition, 0) for partition in ends}
    waiting = sum(end - start.get(partition, 0) for partition, end in ends.items())
    assert all(step >= 0 and reached[partition] <= ends[partition] for partition, step in steps.items())
    assert min(1, waiting) <= sum(steps.values()) <= most
