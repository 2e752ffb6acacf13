"""The smaller judgements of timers: coverage, lateness, the ledger's batches, what late timers are told, alarms."""

from itertools import pairwise

import pytest

from meantime.kafka.settings import Storage
from meantime.pipelines.timers.intake import FuturesOptions
from meantime.timers.dispatching.background_work import verdict
from meantime.timers.dispatching.far_cancels import FarCancels, far_from
from meantime.timers.dispatching.held_timers import Held
from meantime.timers.dispatching.lateness import Lateness
from meantime.timers.dispatching.request_coverage import Coverage
from meantime.timers.future import encode
from meantime.timers.ledger.account import Batch
from meantime.timers.model import Cancel, Future, Identity, Limits, Outcomes, Record, Standing, State
from meantime.timers.reports import quantile
from meantime.timers.requesting import pick
from meantime.timers.status import (
    DispatcherStatus,
    FuturesStatus,
    LatenessStatus,
    LedgerStatus,
    OscillatorStatus,
    TimersStatus,
    alarms,
)

S = 1_700_000_000
LONGEST = FuturesOptions(Storage("default", ""), "", 1)
HANDED_OUT_S = LONGEST.early_s + LONGEST.stretch_s + 5
"""The Spark job brings timers no earlier than so: the last second of a stretch, whose tick comes by the lead early."""
FUTURE = Future("calls", "", b"")


def request(value: bytes | None, timestamp_ms: int = S * 1000 - 5000, **headers: bytes) -> Record:
    return Record(0, 1, timestamp_ms, str(S).encode(), value, tuple(headers.items()))


def test_an_instant_is_covered_when_all_partitions_have_come_so_far():
    coverage = Coverage()
    coverage.learn(5000, {0: 10, 1: 0})
    assert coverage.look() == 0
    coverage.reach(0, 9)
    assert coverage.look() == 0
    coverage.reach(0, 10)
    assert coverage.look() == 5000
    coverage.learn(6000, {0: 10, 1: 3})
    assert coverage.look() == 5000


def test_cancels_are_given_out_once_the_join_has_passed_them():
    far = FarCancels()
    cancels = [Cancel(token, S, 0) for token in "abc"]
    for offset, cancel in enumerate(cancels):
        far.append(0, offset, cancel)
    assert list(far.taken_in({0: 2})) == cancels[:2]
    assert list(far.taken_in({0: 2, 1: 9})) == []
    assert list(far.taken_in({0: 3})) == cancels[2:]


@pytest.mark.parametrize("near_s", [30, 90, 600])
def test_no_cancel_whose_timer_may_be_held_is_left_to_the_spark_job(near_s):
    assert far_from(S * 1000 + 999, near_s) >= S + max(near_s, HANDED_OUT_S)


def test_lateness_is_counted_for_a_minute():
    lateness = Lateness()
    lateness.count([1, 1, 5], 0)
    lateness.count([70_123], 30_000)
    assert lateness.counts(30_000) == {1: 2, 5: 1, 70_000: 1}
    assert lateness.counts(65_000) == {70_000: 1}


def test_quantiles_grow():
    counts = {3: 50, 10: 49, 400: 1}
    values = [quantile(counts, part / 100) for part in range(1, 101)]
    assert all(one <= other for one, other in pairwise(values))
    assert (values[49], values[98], values[99], quantile({}, 0.5)) == (3, 10, 400, 0)


def test_a_batch_books_requests_by_what_they_mean():
    batch = Batch()
    batch.note_request(request(encode(FUTURE), token=b"a"), Limits())
    batch.note_request(request(encode(FUTURE), token=b"a"), Limits())
    batch.note_request(request(None, cancel=b"b"), Limits())
    batch.note_request(request(None, timestamp_ms=S * 1000 - 999, cancel=b"late"), Limits())
    batch.note_request(request(b"garbage", token=b"c"), Limits())
    batch.note_request(request(encode(FUTURE), token=b"no spaces"), Limits())
    assert list(batch.requested) == [("a", S)]
    assert list(batch.cancelled) == [("b", S)]
    assert list(batch.refused) == [("c", S), ("0-1", S)]
    assert [reason for _, reason in batch.rejected] == ["the value is not a Future message"]


def test_a_timer_that_ends_twice_in_a_batch_is_booked_twice():
    batch = Batch()
    fired = Outcomes(State.FIRED, 7, ((S, ("a", "b")),))
    batch.note_outcomes(fired)
    batch.note_outcomes(fired)
    batch.note_outcomes(Outcomes(State.ATTEMPTED, 7, ((S, ("c",)),)))
    assert [(state, len(account)) for state, account in batch.ended] == [(State.FIRED, 2), (State.FIRED, 2)]


def test_places_span_from_the_first_record_to_the_last():
    batch = Batch()
    batch.note_place(("t", 0), 5, 6)
    batch.note_place(("t", 0), 5, 9)
    assert batch.places == {("t", 0): (5, 9)}


def test_a_very_late_timer_is_told_what_the_ledger_knows():
    held = Held(0, "a", S, FUTURE, requested_ms=1000)
    told = {state: verdict(held, Standing("a", S, state), oldest_ms=0) for state in State}
    assert told[State.PENDING] is told[State.NOTED] is State.PENDING
    assert told[State.CANCELLED] is told[State.VOID] is State.CANCELLED
    assert told[State.FIRED] is told[State.REJECTED] is State.FIRED


def test_a_timer_that_the_ledger_does_not_know_is_new_or_long_over():
    held = Held(0, "a", S, FUTURE, requested_ms=1000)
    assert verdict(held, None, oldest_ms=500) is State.PENDING
    assert verdict(held, None, oldest_ms=1500) is State.FIRED


def test_the_timer_that_is_meant_is_the_next_pending_one():
    known = [Standing("a", 1, State.FIRED), Standing("a", 2, State.PENDING), Standing("a", 3, State.PENDING)]
    assert pick(known, None) == known[1]
    assert pick(known, 3) == known[2]
    assert pick(known, 4) is None
    assert pick(known[:1], None) == known[0]
    assert pick([], None) is None


def test_alarms_are_for_silence_differences_and_what_is_overdue():
    def status(age_ms: int, difference: int, overdue: int) -> TimersStatus:
        return TimersStatus(
            OscillatorStatus("o", S, age_ms, 5),
            FuturesStatus(),
            DispatcherStatus(1, 0, LatenessStatus(0, 0)),
            LedgerStatus(0, 0, 0, 0, 0, difference, overdue, 0),
        )

    assert alarms(status(900, 0, 0)) == []
    assert len(alarms(status(9000, -1, 3))) == 3


def test_identities_are_pairs():
    assert Identity("a", 1) == ("a", 1)
