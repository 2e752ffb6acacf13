"""How a dispatcher divides its time between firing and taking in."""

from meantime.timers.dispatching.pacing import loading_ms, pause, room


def test_the_more_timers_a_second_has_the_earlier_they_are_loaded_within_bounds() -> None:
    assert [10_000 - loading_ms(10, timers) for timers in (0, 1000, 10_000_000)] == [15, 25, 800]


def test_it_waits_for_records_no_longer_than_until_there_is_something_to_load() -> None:
    assert [pause(left_ms, 0.02) for left_ms in (None, 1000, 5, -50)] == [0.02, 0.02, 0.005, 0.001]


def test_it_takes_in_what_fits_before_the_next_loading_and_always_some() -> None:
    assert [room(left_ms) for left_ms in (None, 10, -50)] == [2000, 400, 100]
