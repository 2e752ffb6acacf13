import time

from meantime.clock import ManualClock, SystemClock


def test_a_skewed_clock_is_wrong_by_its_skew() -> None:
    ahead, right = SystemClock(skew_ms=5000), SystemClock()
    assert 4900 < ahead.now_ms() - right.now_ms() < 5100


def test_a_skew_goes_away_after_its_time(monkeypatch) -> None:
    clock = SystemClock(skew_ms=5000, skew_for=10)
    later = time.monotonic() + 11
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert abs(clock.now_ms() - SystemClock().now_ms()) < 100


def test_a_manual_clock_moves_only_when_it_is_moved() -> None:
    clock = ManualClock(1000)
    assert (clock.now_ms(), clock.now_ms()) == (1000, 1000)
    clock.advance(2.5)
    assert (clock.now_ms(), clock.now_us()) == (1002, 1_002_500)
