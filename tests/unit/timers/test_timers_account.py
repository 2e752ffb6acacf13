"""The smaller judgements of timers: coverage, lateness, the ledger's batches, what late timers are told, alarms."""

from itertools import pairwise

import pytest

from meantime.kafka.settings import Storage
from meantime.metrics import REGISTRY
from meantime.pipelines.timers.intake import FuturesOptions
from meantime.timers.dispatching.background_work import state_by_ledger
from meantime.timers.dispatching.held_timers import HeldTimer
from meantime.timers.dispatching.request_coverage import CancelsAheadOfJoin, RequestCoverage, far_from
from meantime.timers.future import encode
from meantime.timers.lateness import CallbackCounts, LatenessCounts, quantile
from meantime.timers.ledger.account import LedgerBatch
from meantime.timers.model import CancelRequest, Future, LedgerEntry, Record, TimerId, TimerLimits, TimerOutcomes, TimerState
from meantime.timers.requesting import pick
from meantime.timers.rules import BAD_TOKEN, UNREADABLE
from meantime.timers.status import (
    DispatcherStatus,
    FuturesStatus,
    LatenessStatus,
    LedgerStatus,
    OscillatorStatus,
    TimersStatus,
    alarms,
    export,
)

S = 1_700_000_000
LONGEST = FuturesOptions(Storage("default", ""), "", 1)
HANDED_OUT_S = LONGEST.early_s + LONGEST.stretch_s + 5
"""The Spark job brings timers no earlier than so: the last second of a stretch, whose tick comes by the lead early."""
FUTURE = Future("calls", "", b"")


def request(value: bytes | None, timestamp_ms: int = S * 1000 - 5000, **headers: bytes) -> Record:
    return Record(0, 1, timestamp_ms, str(S).encode(), value, tuple(headers.items()))


def test_an_instant_is_covered_when_all_partitions_have_come_so_far():
    coverage = RequestCoverage()
    coverage.set_ends(5000, {0: 10, 1: 0})
    assert coverage.covered_until() == 0
    coverage.reach(0, 9)
    assert coverage.covered_until() == 0
    coverage.reach(0, 10)
    assert coverage.covered_until() == 5000
    coverage.set_ends(6000, {0: 10, 1: 3})
    assert coverage.covered_until() == 5000


def test_cancels_are_given_out_once_the_join_has_passed_them():
    far = CancelsAheadOfJoin()
    cancels = [CancelRequest(token, S, 0) for token in "abc"]
    for offset, cancel in enumerate(cancels):
        far.append(0, offset, cancel)
    assert list(far.taken_in({0: 2})) == cancels[:2]
    assert list(far.taken_in({0: 2, 1: 9})) == []
    assert list(far.taken_in({0: 3})) == cancels[2:]


@pytest.mark.parametrize("near_s", [30, 90, 600])
def test_no_cancel_whose_timer_may_be_held_is_left_to_the_spark_job(near_s):
    assert far_from(S * 1000 + 999, near_s) >= S + max(near_s, HANDED_OUT_S)


def test_lateness_is_counted_for_a_minute():
    lateness = LatenessCounts()
    lateness.count([1, 1, 5], 0)
    lateness.count([70_123], 30_000)
    assert lateness.counts(30_000) == {1: 2, 5: 1, 70_000: 1}
    assert lateness.counts(65_000) == {70_000: 1}


def test_callbacks_are_counted_by_topic_for_so_many_topics():
    counts = CallbackCounts(most=2)
    counts.count(["a", "b", "a", "c", "d", "a"])
    counts.count(["d", "b"])
    assert counts.counts() == {"a": 3, "b": 2, "other": 3}


def test_quantiles_grow():
    counts = {3: 50, 10: 49, 400: 1}
    values = [quantile(counts, part / 100) for part in range(1, 101)]
    assert all(one <= other for one, other in pairwise(values))
    assert (values[49], values[98], values[99], quantile({}, 0.5)) == (3, 10, 400, 0)


def test_a_batch_books_requests_by_what_they_mean():
    batch = LedgerBatch()
    batch.note_request(request(encode(FUTURE), token=b"a"), TimerLimits())
    batch.note_request(request(encode(FUTURE), token=b"a"), TimerLimits())
    batch.note_request(request(None, cancel=b"b"), TimerLimits())
    batch.note_request(request(None, timestamp_ms=S * 1000 - 999, cancel=b"late"), TimerLimits())
    batch.note_request(request(b"garbage", token=b"c"), TimerLimits())
    batch.note_request(request(encode(FUTURE), token=b"no spaces"), TimerLimits())
    assert list(batch.requested) == [("a", S)]
    assert list(batch.cancelled) == [("b", S)]
    assert {reason: list(account) for reason, account in batch.refused.items()} == {
        UNREADABLE: [("c", S)],
        BAD_TOKEN: [("0-1", S)],
    }
    assert [reason for _, reason in batch.rejected] == ["the value is not a Future message"]


def test_a_timer_that_ends_twice_in_a_batch_is_booked_twice():
    batch = LedgerBatch()
    fired = TimerOutcomes(TimerState.FIRED, 7, ((S, ("a", "b")),))
    batch.note_outcomes(fired)
    batch.note_outcomes(fired)
    batch.note_outcomes(TimerOutcomes(TimerState.ATTEMPTED, 7, ((S, ("c",)),)))
    assert [(state, len(account)) for state, _, account in batch.ended] == [(TimerState.FIRED, 2), (TimerState.FIRED, 2)]


def test_rejected_timers_are_booked_by_their_reason():
    batch = LedgerBatch()
    for token, reason in (("a", "no topic"), ("b", "no event"), ("c", "no topic")):
        batch.note_outcomes(TimerOutcomes(TimerState.REJECTED, 7, ((S, (token,)),), reason))
    assert [(reason, list(account)) for _, reason, account in batch.ended] == [
        ("no topic", [("a", S), ("c", S)]),
        ("no event", [("b", S)]),
    ]


def test_places_span_from_the_first_record_to_the_last():
    batch = LedgerBatch()
    batch.note_place(("t", 0), 5, 6)
    batch.note_place(("t", 0), 5, 9)
    assert batch.places == {("t", 0): (5, 9)}


def test_a_very_late_timer_is_told_what_the_ledger_knows():
    held = HeldTimer(0, "a", S, FUTURE, requested_ms=1000)
    told = {state: state_by_ledger(held, LedgerEntry("a", S, state), oldest_ms=0) for state in TimerState}
    assert told[TimerState.PENDING] is told[TimerState.NOTED] is TimerState.PENDING
    assert told[TimerState.CANCELLED] is told[TimerState.VOID] is TimerState.CANCELLED
    assert told[TimerState.FIRED] is told[TimerState.REJECTED] is TimerState.FIRED


def test_a_timer_that_the_ledger_does_not_know_is_new_or_long_over():
    held = HeldTimer(0, "a", S, FUTURE, requested_ms=1000)
    assert state_by_ledger(held, None, oldest_ms=500) is TimerState.PENDING
    assert state_by_ledger(held, None, oldest_ms=1500) is TimerState.FIRED


def test_the_timer_that_is_meant_is_the_next_pending_one():
    known = [
        LedgerEntry("a", 1, TimerState.FIRED),
        LedgerEntry("a", 2, TimerState.PENDING),
        LedgerEntry("a", 3, TimerState.PENDING),
    ]
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
    assert TimerId("a", 1) == ("a", 1)


def test_a_node_exports_what_the_spark_job_has_reported():
    oscillator, dispatcher = OscillatorStatus("o", S, 900, 5), DispatcherStatus(1, 0, LatenessStatus(0, 0))
    export(TimersStatus(oscillator, FuturesStatus(800, 1234, 7, 2500), dispatcher, LedgerStatus(0, 0, 0, 0, 0, 0, 0, 0)))
    names = ("batch_seconds", "state_rows", "lag", "age_seconds")
    assert [REGISTRY.get_sample_value(f"meantime_timers_futures_{name}") for name in names] == [0.8, 1234, 7, 2.5]
