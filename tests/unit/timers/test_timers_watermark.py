"""How far requests have come through the Spark job, by what it tells after each micro-batch."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.kafka.settings import Storage
from meantime.pipelines.timers import reporting as listener
from meantime.pipelines.timers.intake import FuturesOptions
from meantime.pipelines.timers.reporting import FuturesListener
from meantime.pipelines.timers.watermark import JoinWatermark
from meantime.timers.reports import FuturesReport

S = 1_700_000_000


def test_what_a_batch_takes_in_is_through_when_the_tick_that_it_may_meet_was_there():
    passage = JoinWatermark({})
    assert passage.batch({0: 10}, needed=105, last_tick=100) == {}
    assert passage.batch({0: 20}, needed=105, last_tick=None) == {}
    assert passage.batch({0: 30}, needed=110, last_tick=105) == {0: 20}
    assert passage.batch({0: 30, 1: 5}, needed=110, last_tick=110) == {0: 30, 1: 5}


def test_what_has_come_through_an_earlier_process_is_out():
    assert JoinWatermark({0: 7}).batch({0: 9}, needed=105, last_tick=100) == {0: 7}


def test_a_join_that_begins_anew_is_not_ahead_of_itself():
    assert JoinWatermark({0: 7, 1: 5}).batch({0: 3}, needed=105, last_tick=100) == {0: 3, 1: 0}


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9) | st.none()), max_size=20))
def test_nothing_is_through_before_its_tick(steps):
    """`steps`: requests taken in, ticks that the clock went on, ticks that the batch had."""
    passage, read, clock, seen, history = JoinWatermark({}), 0, 0, 0, []
    for requests, passed, ticks in steps:
        read, clock = read + requests, clock + passed
        seen = min(clock, seen + (ticks or 0))
        history.append((read, clock + 1))
        through = passage.batch({0: read}, clock + 1, seen if ticks else None)
        assert all(through.get(0, 0) <= place for place, needed in reversed(history[:-1]) if needed > seen)


@pytest.fixture
def told(monkeypatch) -> list[FuturesReport]:
    monkeypatch.setattr(listener.time, "time", lambda: S + 1.5)
    return []


def test_the_words_of_spark_are_understood(told):
    hearing = FuturesListener(FuturesOptions(Storage("default", ""), "", 1), {}, told.append)
    offsets = {"timer-request": {"0": 3, "1": 4}}
    words = {
        "numInputRows": 7,
        "sources": [{"endOffset": offsets, "latestOffset": offsets}, {"endOffset": {"oscillator": {"0": 9}}}],
    }
    hearing.on_batch(msgspec.json.encode(words).decode())
    hearing.on_batch(msgspec.json.encode({**words, "eventTime": {"max": "2023-11-14T22:13:25.000Z"}}).decode())
    assert [(report.places, report.through) for report in told] == [({0: 3, 1: 4}, {}), ({0: 3, 1: 4}, {0: 3, 1: 4})]
