"""Minutes of drift, kept by the node that measures it."""

from meantime.cluster.drift import DriftHistory


def test_the_offsets_of_the_last_while_are_known_and_older_ones_are_not() -> None:
    history = DriftHistory(kept_for=10)
    for second in range(30):
        history.note(second * 1000, {"a": second / 10})
    assert history.of("a", 0) == [(second * 1000, second / 10) for second in range(20, 30)]
    assert history.of("a", 28_000) == [(28_000, 2.8), (29_000, 2.9)]
    assert history.of("b", 0) == []


def test_a_node_that_is_gone_is_forgotten() -> None:
    history = DriftHistory(kept_for=10)
    history.note(0, {"a": 1.0, "b": 2.0})
    history.note(20_000, {"a": 1.0})
    assert history.of("b", 0) == []
