"""Requests on their way into the join: the tick that each meets, and what goes out then."""

from hypothesis import given
from hypothesis import strategies as st

from meantime.kafka.settings import Storage
from meantime.pipelines.timers.intake import FuturesOptions, Requests, going_out, taken_in, upcoming
from meantime.pipelines.timers.request_source import advanced
from meantime.pipelines.timers.tick_source import MOST_S, QUIET_AFTER, RequestActivity
from meantime.pipelines.timers.tick_source import advanced as advanced_ticks
from meantime.timers.model import CancelRequest, Record, RefusedRequest, SetRequest, TimerLimits
from meantime.timers.rules import read, read_due, share_of
from meantime.timers.topics import DUE, REJECTED

OPTIONS = FuturesOptions(
    Storage("default", "kafka"), "checkpoint", shares=4, limits=TimerLimits(horizon_s=5000, max_callback_bytes=10)
)
NOW = 1_800_000_003
NEXT = upcoming(NOW, OPTIONS)
FUTURE = b"\n\x05calls"

seconds = st.one_of(
    st.integers(NOW - 9000, NOW + 9000).map(lambda second: b"%d" % second),
    st.sampled_from([None, b"", b"soon", b"-5", b"1" * 13, b"1800000009\n", b"\xff"]),
)
values = st.sampled_from(
    [FUTURE, None, b"", bytes(OPTIONS.limits.max_request_bytes), bytes(OPTIONS.limits.max_request_bytes + 1)]
)
contents = st.sampled_from([b"me", b"you-2", b"", None, b"no spaces", b"\xff", b"line\n", b"x" * 129])
headers = st.lists(st.tuples(st.sampled_from(["token", "cancel", "other"]), contents), max_size=3)
times = st.integers((NOW - 60) * 1000, NOW * 1000)
records = st.tuples(times, seconds, values, st.one_of(st.none(), headers))


def requests(*rows: tuple) -> Requests:
    columns = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Requests(1, range(7, 7 + len(rows)), *(list(column) for column in columns))


def outgoing(asked: Requests) -> list[tuple[int, dict]]:
    """By request, the tick and the record; a request has its number for a key if it has no other."""
    table = taken_in(asked, NEXT, OPTIONS).combine_chunks()
    found = []
    for batch in table.to_batches():
        records = going_out(batch, OPTIONS.shares).to_pylist()
        found += zip(batch.column("meets").to_pylist(), records, strict=True)
    return found


def one(second: bytes | None, value: bytes | None = FUTURE, **given: bytes) -> tuple[int, dict]:
    (found,) = outgoing(requests((NOW * 1000, second, value, list(given.items()))))
    return found


def test_the_next_tick_has_not_been_yet():
    assert upcoming(1_800_000_000.0, OPTIONS) == 1_800_000_005
    assert upcoming(1_800_000_004.9, OPTIONS) == 1_800_000_005
    assert upcoming(1_800_000_004.9, FuturesOptions(Storage("default", ""), "", 4, behind_s=3)) == 1_800_000_010


@given(records)
def test_the_verdict_is_the_same_as_everywhere(row):
    asked = requests(row)
    ((meets, found),) = outgoing(asked)
    verdict = read(asked.record(0), OPTIONS.limits)
    given = tuple((header["key"], header["value"]) for header in found["headers"])
    assert (found["key"], found["value"]) == (row[1], row[2])
    if isinstance(verdict, RefusedRequest) and not verdict.opaque:
        assert (meets, found["topic"], found["partition"]) == (NEXT, REJECTED, 0)
        assert given == (*(row[3] or ()), ("reason", verdict.reason.encode()))
        return
    assert (found["topic"], found["partition"]) == (DUE, share_of(verdict.token, OPTIONS.shares))
    assert meets == max(verdict.second - verdict.second % 30 - 20, NEXT)
    if not isinstance(verdict, RefusedRequest):
        assert read_due(Record(0, 0, 0, found["key"], found["value"], given), OPTIONS.limits) == verdict


@given(st.lists(records, max_size=8))
def test_requests_do_not_depend_on_their_neighbours(rows):
    together = outgoing(requests(*rows))
    offsets = range(7, 7 + len(rows))
    alone = [outgoing(requests(row)._replace(offsets=[offset]))[0] for row, offset in zip(rows, offsets, strict=True)]
    assert sorted(map(repr, together)) == sorted(map(repr, alone))


def test_a_request_meets_a_tick_that_is_joined_and_has_not_been_yet():
    for second in range(NOW - 100, NOW + 100):
        meets, _ = one(b"%d" % second, token=b"me")
        assert meets >= NEXT
        assert meets % OPTIONS.tick_every_s == 0
        assert meets <= max(second - OPTIONS.early_s, NEXT)


def test_set_and_cancel_are_told_apart():
    assert isinstance(_due(one(b"1800000900", token=b"me")), SetRequest)
    assert isinstance(_due(one(b"1800000900", None, cancel=b"me")), CancelRequest)


def test_a_request_without_a_token_has_its_place_for_one():
    assert _due(one(b"1800000900")).token == "1-7"


def _due(found: tuple[int, dict]):
    _, record = found
    given = tuple((header["key"], header["value"]) for header in record["headers"])
    return read_due(Record(0, 0, 0, record["key"], record["value"], given), OPTIONS.limits)


def test_nothing_asked_is_nothing_to_do():
    assert outgoing(requests()) == []


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


def test_ticks_go_on_only_where_one_is_joined_so_that_no_batch_runs_for_the_others() -> None:
    ends = [advanced_ticks(1_000, newest, 5) for newest in range(1_000, 1_012)]
    assert ends == [1_000] * 5 + [1_005] * 5 + [1_010] * 2


def test_ticks_wait_where_kafka_does_not_say_and_never_go_back() -> None:
    assert advanced_ticks(1_003, None, 5) == 1_003
    assert advanced_ticks(1_003, 1_004, 5) == 1_003
    assert advanced_ticks(1_003, 5_000_000, 5) == 1_003 + MOST_S


@given(st.integers(0, 2_000_000_000), st.integers(0, 10_000))
def test_quiet_ticks_go_on_with_every_second_that_opens_a_stretch(start, further):
    newest = start + further
    reached = advanced_ticks(start, newest, OPTIONS.stretch_s, OPTIONS.early_s)
    opening = [second for second in range(start + 1, newest + 1) if (second + OPTIONS.early_s) % OPTIONS.stretch_s == 0]
    assert reached == (opening[-1] if opening else start)
    assert not opening or reached % OPTIONS.tick_every_s == 0


@given(st.integers(0, 2_000_000_000))
def test_a_timer_that_is_far_waits_for_a_second_that_opens_a_stretch(second):
    far = requests((second * 1000, b"%d" % second, FUTURE, [("token", b"t")]))
    (meets,) = taken_in(far, 0, OPTIONS).column("meets").to_pylist()
    assert (meets + OPTIONS.early_s) % OPTIONS.stretch_s == 0 or meets == 0


def test_ticks_are_quiet_only_when_no_request_has_come_for_a_while() -> None:
    activity, quiet_at = RequestActivity(), 1.0 + QUIET_AFTER
    assert not activity.quiet(7, 1.0)
    assert not activity.quiet(7, quiet_at)
    assert activity.quiet(7, quiet_at + 0.1)
    assert not activity.quiet(8, quiet_at + 0.2)
    assert not activity.quiet(8, quiet_at + 1.0)
