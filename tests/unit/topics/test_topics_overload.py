"""Overload is seen before it comes; metrics of topics."""

from meantime.topics.duties.overload import PredictedOverload, Rates, forecast
from meantime.topics.meters import BulkHistogram


def test_an_overload_is_seen_before_it_comes() -> None:
    assert forecast([10] * 60, rate=10) is None
    assert forecast([0] * 30 + [1000] + [0] * 30, rate=10) == PredictedOverload(30, 990)
    assert forecast([5] * 60, rate=0.0) == PredictedOverload(0, 300)


def test_a_rate_rises_at_once_and_falls_slowly() -> None:
    rates = Rates()
    rates.finished(1, 100)
    rates.tick(10)
    assert rates.of(1) == 10
    rates.tick(10)
    assert rates.of(1) == 10
    rates.finished(1, 10)
    rates.tick(10)
    assert 1 < rates.of(1) < 10


def test_a_histogram_takes_many_values_at_once_and_counts_upwards() -> None:
    lateness = BulkHistogram("late_seconds", "How late.", (0.01, 1))
    lateness.observe([0.0, 0.01, 0.5])
    lateness.observe([7.0])
    (family,) = lateness.collect()
    found = {(sample.name, sample.labels.get("le")): sample.value for sample in family.samples}
    assert found == {
        ("late_seconds_bucket", "0.01"): 2,
        ("late_seconds_bucket", "1.0"): 3,
        ("late_seconds_bucket", "+Inf"): 4,
        ("late_seconds_count", None): 4,
        ("late_seconds_sum", None): 7.51,
    }
