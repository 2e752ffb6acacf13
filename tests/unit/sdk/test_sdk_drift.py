from meantime.sdk.drift import Drift


class Clocks:
    """A machine whose wall clock and monotonic clock are moved by hand."""

    def __init__(self) -> None:
        self.counted = 5_000.0
        self.wall = 1_000_000.0

    def pass_by(self, milliseconds: float) -> None:
        self.counted += milliseconds
        self.wall += milliseconds

    def drift(self) -> Drift:
        return Drift(lambda: self.counted, lambda: self.wall)


def answered(clocks: Clocks, drift: Drift, broker_ahead_ms: float, there_ms: float, back_ms: float) -> None:
    sent = clocks.counted
    clocks.pass_by(there_ms)
    stamp = round(clocks.wall + broker_ahead_ms)
    clocks.pass_by(back_ms)
    drift.observe(stamp, sent, clocks.counted)


def test_without_an_answer_the_own_clock_counts_and_no_drift_is_claimed() -> None:
    clocks = Clocks()
    drift = clocks.drift()
    assert drift.now_ms() == 1_000_000
    assert drift.drift_ms == 0
    assert not drift.measured


def test_a_clock_that_is_behind_the_broker_has_a_negative_drift() -> None:
    clocks = Clocks()
    drift = clocks.drift()
    answered(clocks, drift, 700, 4, 4)
    assert drift.drift_ms == -700
    assert drift.now_ms() == clocks.wall + 700
    assert round(drift.error_ms) == 4


def test_a_long_poll_does_not_replace_a_quick_answer() -> None:
    clocks = Clocks()
    drift = clocks.drift()
    answered(clocks, drift, 100, 1, 1)
    answered(clocks, drift, 100, 20_000, 1)
    assert abs(drift.drift_ms + 100) < 1


def test_an_old_sample_gives_way_to_a_slightly_slower_one() -> None:
    clocks = Clocks()
    drift = clocks.drift()
    answered(clocks, drift, 100, 1, 1)
    clocks.pass_by(3_600_000)
    answered(clocks, drift, 140, 50, 50)
    assert abs(drift.drift_ms + 140) < 1


def test_setting_the_own_clock_does_not_move_the_broker_time() -> None:
    clocks = Clocks()
    drift = clocks.drift()
    answered(clocks, drift, 0, 1, 1)
    before = drift.now_ms()
    clocks.wall += 3_600_000
    clocks.counted += 10
    assert drift.now_ms() == before + 10
    assert abs(drift.drift_ms - 3_599_990) < 5


def test_a_broker_whose_clock_was_set_is_believed_at_once() -> None:
    clocks = Clocks()
    drift = clocks.drift()
    answered(clocks, drift, 0, 1, 1)
    clocks.pass_by(1000)
    answered(clocks, drift, 60_000, 10, 10)
    assert abs(drift.drift_ms + 60_000) < 1
