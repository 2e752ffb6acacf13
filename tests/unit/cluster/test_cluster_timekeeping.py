"""Clock arithmetic: what must hold for all clocks, round trips and delays."""

import statistics

from hypothesis import given
from hypothesis import strategies as st

from meantime.cluster.clock import KEPT_SAMPLES, ClockSample, ClusterClock, PeerClock, estimate_cluster_time

offsets_us = st.integers(-10_000_000, 10_000_000)
delays_us = st.integers(0, 50_000)


def exchange(
    offset_us: int, out_us: int = 500, back_us: int = 500, asked_us: int = 0, thinking_us: int = 100
) -> ClockSample:
    """A question to a peer whose clock is `offset_us` ahead, with these delays on the way."""
    received = asked_us + out_us + offset_us
    answered = received + thinking_us
    return ClockSample(asked_us, received, answered, asked_us + out_us + thinking_us + back_us)


@given(offsets_us, delays_us, delays_us, st.integers(0, 10**6))
def test_the_true_offset_is_within_half_the_round_trip(offset, out, back, thinking) -> None:
    sample = exchange(offset, out, back, thinking_us=thinking)
    assert sample.round_trip_us == out + back
    assert abs(sample.offset_us - offset) <= sample.error_us


@given(offsets_us, delays_us)
def test_equal_delays_give_the_exact_offset(offset, delay) -> None:
    assert exchange(offset, delay, delay).offset_us == offset


@given(offsets_us, st.lists(st.tuples(delays_us, delays_us), min_size=1, max_size=30))
def test_the_shortest_round_trip_of_the_last_samples_is_believed(offset, delays) -> None:
    clock = PeerClock()
    for out, back in delays:
        clock = clock.after(exchange(offset, out, back))
    assert len(clock.samples) == min(len(delays), KEPT_SAMPLES)
    assert clock.best.round_trip_us == min(out + back for out, back in delays[-KEPT_SAMPLES:])


@given(offsets_us, offsets_us, delays_us)
def test_a_clock_that_was_set_is_believed_from_the_next_sample_on(before, after, delay) -> None:
    clock = PeerClock()
    for _ in range(KEPT_SAMPLES):
        clock = clock.after(exchange(before))
    clock = clock.after(exchange(after, delay, delay))
    assert abs(clock.best.offset_us - after) <= clock.best.error_us + 3_000 + delay


def test_a_sample_from_before_its_question_is_ignored() -> None:
    good = PeerClock().after(exchange(1000))
    assert good.after(ClockSample(0, 0, 5_000, 1_000)) == good


@given(offsets_us, st.lists(offsets_us, max_size=6))
def test_all_nodes_agree_on_cluster_time(own, others) -> None:
    """Each node measures the others against its own steady clock, whose origin is arbitrary."""
    wall = [own, *others]
    for me, mine in enumerate(wall):
        origin = 1001 * me + 7
        samples = [exchange(other - origin) for place, other in enumerate(wall) if place != me]
        assert estimate_cluster_time(mine - origin, samples).cluster_us + origin == statistics.median(wall)


@given(st.integers(-1000, 1000), st.integers(-1000, 1000), offsets_us)
def test_one_wrong_clock_of_three_moves_cluster_time_no_further_than_the_right_ones_differ(one, two, wrong) -> None:
    cluster = estimate_cluster_time(one, [exchange(two), exchange(wrong)]).cluster_us
    assert min(one, two) <= cluster <= max(one, two)


def test_a_node_that_is_5_s_ahead_of_two_others_says_so() -> None:
    ahead = estimate_cluster_time(5_000_000, [exchange(0), exchange(1000)])
    assert 4998 < ahead.offset_ms <= 5000
    right = estimate_cluster_time(0, [exchange(1000), exchange(5_000_000)])
    assert abs(right.offset_ms) <= 1


def test_two_nodes_see_the_same_distance_and_neither_is_believed() -> None:
    assert estimate_cluster_time(0, [exchange(4_000_000)]).offset_ms == -2000
    assert estimate_cluster_time(4_000_000, [exchange(0)]).offset_ms == 2000


def test_a_node_alone_is_right() -> None:
    assert estimate_cluster_time(123.0, ()).offset_ms == 0
    assert estimate_cluster_time(123.0, ()).cluster_us == 123.0


class Steady:
    def __init__(self) -> None:
        self.us = 1_000_000

    def __call__(self) -> int:
        return self.us


def cluster_clock(steady: Steady) -> ClusterClock:
    return ClusterClock(5_000_000_000.0, step_us=500_000, steady=steady)


@given(st.lists(st.tuples(st.integers(0, 2_000_000), st.integers(-499_999, 2_000_000)), max_size=30))
def test_cluster_time_never_goes_backwards_by_small_corrections(steps) -> None:
    steady = Steady()
    clock = cluster_clock(steady)
    cluster, latest = 5_000_000_000.0, clock.now_us()
    for passed, correction in steps:
        steady.us += passed
        held_back = latest - (steady.us + cluster)
        cluster += max(correction, held_back - 499_999) if held_back > 0 else correction
        clock.adjust(cluster)
        assert clock.now_us() >= latest
        latest = clock.now_us()


def test_a_small_correction_to_earlier_is_waited_out() -> None:
    steady = Steady()
    clock = cluster_clock(steady)
    before = clock.now_us()
    clock.adjust(5_000_000_000.0 - 300_000)
    assert clock.now_us() == before
    steady.us += 200_000
    assert clock.now_us() == before
    steady.us += 200_000
    assert clock.now_us() == before + 100_000


def test_a_correction_to_later_is_made_at_once() -> None:
    steady = Steady()
    clock = cluster_clock(steady)
    before = clock.now_ms()
    clock.adjust(5_000_000_000.0 + 700_000)
    assert clock.now_ms() == before + 700


def test_a_great_correction_to_earlier_is_a_step_back() -> None:
    steady = Steady()
    clock = cluster_clock(steady)
    before = clock.now_ms()
    clock.adjust(5_000_000_000.0 - 3_000_000)
    assert clock.now_ms() == before - 3000
