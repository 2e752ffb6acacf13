"""The fast hand's judgement: held once, struck in time, ended once."""

from hypothesis import given
from hypothesis import strategies as st

from meantime.timers.dispatching.ended_timers import EndedTimers
from meantime.timers.dispatching.held_timers import CATCH_UP_WITHIN_MS, HeldTimer, HeldTimers, Span
from meantime.timers.dispatching.offset_tracker import OffsetTracker
from meantime.timers.model import CancelRequest, Future, SetRequest, TimerId, TimerOutcomes, TimerState

S = 1_700_000_000
MS = S * 1000
FUTURE = Future("calls", "", b"")
EARLY = MS - 60_000


def share(complete_since_ms: int = 0) -> HeldTimers:
    return HeldTimers(0, EndedTimers(complete_since_ms))


def a_timer(token: str = "a", second: int = S) -> SetRequest:
    return SetRequest(token, second, FUTURE, MS - 5000)


def a_cancel(token: str = "a", second: int = S) -> CancelRequest:
    return CancelRequest(token, second, MS - 5000)


def struck(held: list[HeldTimer]) -> list[str]:
    return [one.token for one in held]


def strike(timers: HeldTimers, now_ms: int = MS, covered_ms: int | None = None) -> tuple[list[str], list[str]]:
    fire, cancelled = timers.pop_due(now_ms, now_ms if covered_ms is None else covered_ms)
    timers.end(fire + cancelled, now_ms)
    return struck(fire), struck(cancelled)


def test_nothing_is_struck_before_its_second() -> None:
    timers = share()
    timers.set(a_timer(), EARLY, 0)
    assert strike(timers, MS - 1) == ([], [])
    assert strike(timers, MS) == (["a"], [])


def test_nothing_is_struck_before_cancels_in_time_have_been_read() -> None:
    timers = share()
    timers.set(a_timer(), EARLY, 0)
    assert strike(timers, MS, covered_ms=MS - 1001) == ([], [])
    assert strike(timers, MS, covered_ms=MS - 1000) == (["a"], [])


def test_buckets_are_struck_one_after_another() -> None:
    timers = share()
    timers.set(a_timer("late", S - 3), EARLY, 0)
    timers.set(a_timer("b"), EARLY, 1)
    timers.set(a_timer("next", S + 1), EARLY, 2)
    assert [strike(timers), strike(timers), strike(timers)] == [(["late"], []), (["b"], []), ([], [])]
    assert timers.next_second() == S + 1


def test_a_timer_that_arrives_again_fires_once() -> None:
    timers = share()
    for offset in range(3):
        timers.set(a_timer(), EARLY, offset)
    assert strike(timers) == (["a"], [])
    timers.set(a_timer(), EARLY, 3)
    assert strike(timers) == ([], [])
    assert timers.offsets.position == 4


def test_a_cancel_before_or_after_its_timer_counts() -> None:
    timers = share()
    timers.cancel(a_cancel("a"), MS, 0)
    timers.set(a_timer("a"), EARLY, 1)
    timers.set(a_timer("b"), EARLY, 2)
    timers.cancel(a_cancel("b"), MS, 3)
    timers.set(a_timer("c"), EARLY, 4)
    assert strike(timers) == (["c"], ["a", "b"])


def test_a_cancel_names_its_second() -> None:
    timers = share()
    timers.cancel(a_cancel(second=S + 1), MS, 0)
    timers.set(a_timer(), EARLY, 1)
    assert strike(timers) == (["a"], [])


def test_a_cancelled_timer_stays_cancelled() -> None:
    timers = share()
    timers.cancel(a_cancel(), MS, 0)
    timers.set(a_timer(), EARLY, 1)
    strike(timers)
    timers.set(a_timer(), EARLY, 2)
    assert strike(timers) == ([], [])


def test_a_place_is_given_up_only_with_the_end() -> None:
    timers = share()
    timers.set(a_timer("far", S + 9), EARLY, 0)
    timers.set(a_timer(), EARLY, 1)
    strike(timers)
    assert timers.offsets.position == 0
    strike(timers, MS + 9000)
    assert timers.offsets.position == 2


def test_a_timer_seen_only_in_its_request_takes_the_place_that_comes_later() -> None:
    timers = share()
    timers.set(a_timer(), EARLY)
    timers.set(a_timer(), EARLY, 5)
    assert timers.offsets.position == 5
    strike(timers)
    assert timers.offsets.position == 6


def test_a_cancel_keeps_its_place_while_its_timer_may_come() -> None:
    timers = share()
    timers.cancel(a_cancel(), MS, 0)
    timers.expire(MS + 9_000, 60_000)
    assert timers.offsets.position == 0
    timers.expire(MS + 11_000, 60_000)
    assert timers.offsets.position == 1


def test_a_far_cancel_is_forgotten_once_the_join_has_it_and_one_from_the_join_is_not() -> None:
    timers = share()
    timers.cancel(a_cancel("a"), MS)
    timers.cancel(a_cancel("b"), MS, 0)
    timers.taken_in(a_cancel("a"), MS, far=True)
    timers.taken_in(a_cancel("b"), MS, far=True)
    timers.set(a_timer("a"), EARLY, 1)
    timers.set(a_timer("b"), EARLY, 2)
    assert strike(timers) == (["a"], ["b"])


def test_a_cancel_read_ahead_of_the_join_is_kept_however_late_its_timer_comes() -> None:
    timers = share()
    timers.cancel(a_cancel(), MS - 3000)
    timers.expire(MS + 300_000, 60_000)
    timers.set(a_timer(), EARLY, 0)
    assert strike(timers, MS + 300_000) == ([], ["a"])


def test_a_cancel_that_the_join_has_taken_in_goes_after_the_usual_time() -> None:
    timers = share()
    timers.cancel(a_cancel(), MS - 3000)
    timers.taken_in(a_cancel(), MS + 300_000, far=False)
    timers.expire(MS + 309_000, 60_000)
    timers.set(a_timer("a"), EARLY, 0)
    assert strike(timers, MS + 309_000) == ([], ["a"])
    timers.expire(MS + 311_000, 60_000)
    assert not timers._cancels


def test_a_timer_that_the_join_brings_too_late_is_doubted() -> None:
    """Its cancel may come right behind it."""
    timers = share()
    timers.set(a_timer("straight"), MS + 1)
    timers.set(a_timer("joined"), MS + 1, 0)
    assert strike(timers, MS + 1) == (["straight"], [])
    assert struck(timers.pop_unverified()) == ["joined"]


def test_an_old_second_is_doubted() -> None:
    timers = share(complete_since_ms=MS)
    timers.set(a_timer("old", S - 1), EARLY, 0)
    timers.set(a_timer("new", S), EARLY, 1)
    assert strike(timers) == (["new"], [])
    (doubt,) = timers.pop_unverified()
    assert (doubt.token, timers.pop_unverified(), timers.offsets.position) == ("old", [], 0)
    timers.put_back([doubt])
    assert strike(timers) == (["old"], [])


def test_a_doubtful_timer_that_has_ended_is_dropped() -> None:
    timers = share(complete_since_ms=MS)
    timers.set(a_timer("old", S - 1), EARLY, 0)
    timers.end(timers.pop_unverified(), MS)
    timers.set(a_timer("old", S - 1), EARLY, 1)
    assert strike(timers) == ([], [])
    assert timers.offsets.position == 2


def test_what_is_dealt_with_elsewhere_is_not_held_again() -> None:
    timers = share()
    timers.set(a_timer(), EARLY, 0)
    fire, _ = timers.pop_due(MS, MS)
    timers.mark_in_progress(fire)
    timers.set(a_timer(), EARLY, 1)
    assert strike(timers) == ([], [])
    assert (timers.held, timers.offsets.position) == (1, 0)
    timers.end(fire, MS)
    assert (timers.held, timers.offsets.position) == (0, 2)


def test_memory_vouches_only_for_what_it_has_not_forgotten() -> None:
    memory = EndedTimers(0)
    memory.add_outcomes(TimerOutcomes(TimerState.FIRED, MS + 40, ((S, ("a", "b")),)))
    assert memory.has_ended("a", S)
    assert memory.is_complete_for(S - 1)
    memory.forget(MS)
    assert len(memory) == 2
    memory.forget(MS + 41)
    assert (len(memory), memory.is_complete_for(S), memory.is_complete_for(S + 1)) == (0, False, True)


def test_a_quiet_time_leaves_the_memory_complete() -> None:
    memory = EndedTimers(MS)
    memory.forget(MS + 1_000_000)
    assert memory.is_complete_for(S)


@given(st.permutations(range(12)))
def test_the_position_is_the_first_that_is_not_finished(order: list[int]) -> None:
    offsets = OffsetTracker(100)
    for number in range(12):
        offsets.note(100 + number)
    finished: set[int] = set()
    for number in order:
        finished.add(number)
        offsets.settle(100 + number)
        assert offsets.position == 100 + next((n for n in range(12) if n not in finished), 12)


def test_the_position_has_moved_until_it_is_told() -> None:
    offsets = OffsetTracker(7)
    assert not offsets.moved
    offsets.note(7)
    offsets.settle(7)
    assert offsets.moved
    offsets.mark_committed(offsets.position)
    assert not offsets.moved


def test_a_timer_that_arrives_again_is_told_by_its_name_and_keeps_its_first_place() -> None:
    timers = share()
    assert not timers.arrives_again(TimerId("a", S), 0)
    timers.set(a_timer(), EARLY)
    assert timers.arrives_again(TimerId("a", S), 0)
    assert timers.arrives_again(TimerId("a", S), 1)
    assert timers.offsets.position == 0
    assert strike(timers) == (["a"], [])
    assert timers.arrives_again(TimerId("a", S), 2)
    assert timers.offsets.position == 3
    assert not timers.arrives_again(TimerId("a", S + 1), 3)


def test_a_share_that_is_taken_over_strikes_after_it_has_read_what_was_there() -> None:
    timers = HeldTimers(0, EndedTimers(0), Span(start=5, end=7, began_ms=MS))
    timers.set(a_timer("a"), EARLY, 5)
    assert strike(timers) == ([], [])
    timers.cancel(a_cancel("a"), EARLY, 6)
    assert strike(timers) == ([], ["a"])


def test_a_share_does_not_wait_for_ever_for_what_is_no_longer_there() -> None:
    timers = HeldTimers(0, EndedTimers(0), Span(start=5, end=7, began_ms=MS))
    timers.set(a_timer("a"), EARLY, 5)
    assert strike(timers, MS + CATCH_UP_WITHIN_MS) == ([], [])
    assert strike(timers, MS + CATCH_UP_WITHIN_MS + 1) == (["a"], [])


def test_the_memory_of_held_timers_is_counted_while_they_are_held() -> None:
    timers = share()
    timers.set(SetRequest("a", S, Future("calls", "", bytes(1000)), MS - 5000), EARLY)
    one = timers.held_bytes
    assert one > 1000
    timers.set(a_timer("b"), EARLY)
    assert one < timers.held_bytes < 2 * one
    fire, _ = timers.pop_due(MS, MS)
    assert timers.held_bytes == 0
    timers.put_back(fire[:1])
    assert timers.held_bytes == one
    assert strike(timers) == (["a"], [])
    assert timers.held_bytes == 0
