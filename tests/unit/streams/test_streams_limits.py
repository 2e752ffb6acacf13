"""What a client may ask of a stream."""

import pytest

from meantime.errors import Invalid
from meantime.streams.reading.limits import GivenLimits, commit_timeout, max_uncommitted, stream_limits


def test_a_stream_without_wishes_sends_single_events_and_lives_about_an_hour() -> None:
    limits = stream_limits(GivenLimits(), spread=0.5)
    assert (limits.batch_limit, limits.stream_limit, limits.keep_alive_limit) == (1, 0, 0)
    assert (limits.flush_for, limits.timeout_for) == (30.0, 3900.0)


def test_zero_asks_for_the_usual() -> None:
    given = GivenLimits(stream_limit=0, batch_flush_timeout=0, stream_timeout=0, stream_keep_alive_limit=0)
    assert stream_limits(given, spread=0.0) == stream_limits(GivenLimits(), spread=0.0)


def test_a_timeout_beyond_the_longest_counts_as_none() -> None:
    assert stream_limits(GivenLimits(stream_timeout=4200), spread=1.0).timeout_for == 4200.0
    assert stream_limits(GivenLimits(stream_timeout=4201), spread=1.0).timeout_for == 4200.0
    assert stream_limits(GivenLimits(stream_timeout=4201), spread=-1.0).timeout_for == 3000.0
    assert stream_limits(GivenLimits(stream_timeout=10**400, batch_flush_timeout=10**400), spread=0.0).flush_for == 3600.0


def test_a_stream_shorter_than_the_usual_flush_time_is_flushed_at_its_end() -> None:
    assert stream_limits(GivenLimits(stream_timeout=5), spread=0.0).flush_for == 5.0


@pytest.mark.parametrize(
    "given",
    [
        GivenLimits(batch_limit=0),
        GivenLimits(batch_limit=-1),
        GivenLimits(batch_limit=10, stream_limit=9),
        GivenLimits(batch_flush_timeout=10, stream_timeout=9),
        GivenLimits(stream_timeout=-1),
        GivenLimits(stream_keep_alive_limit=-1),
    ],
)
def test_contradictions_are_refused(given: GivenLimits) -> None:
    with pytest.raises(Invalid):
        stream_limits(given, spread=0.0)


def test_a_client_has_a_minute_at_most_to_commit() -> None:
    assert [commit_timeout(seconds) for seconds in (None, 0, 5, 60)] == [60.0, 60.0, 5.0, 60.0]
    for seconds in (-1, 61):
        with pytest.raises(Invalid):
            commit_timeout(seconds)


def test_at_least_one_event_may_be_out() -> None:
    assert (max_uncommitted(None), max_uncommitted(1)) == (10, 1)
    with pytest.raises(Invalid):
        max_uncommitted(0)
