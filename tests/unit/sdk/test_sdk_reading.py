import msgspec
import pytest

from meantime.errors import Invalid, UnexpectedAnswer
from meantime.sdk.model import Cursor, Partition
from meantime.sdk.reading import EventsReader, LineSplitter, StreamOptions, SubscriptionReader, starting_cursors
from meantime.sdk.retries import Retries

RETRIES = Retries(first_pause=1, draw=lambda: 1.0)


def line(partition: str, offset: str, *events: int) -> bytes:
    batch = {"cursor": {"partition": partition, "offset": offset}, "events": [{"n": n} for n in events]}
    return msgspec.json.encode(batch) + b"\n"


def following(**options: int) -> EventsReader:
    start = [Cursor("0", "BEGIN"), Cursor("1", "BEGIN")]
    return EventsReader("orders", start, StreamOptions(**options), RETRIES)


def numbers(reading: EventsReader, chunk: bytes) -> list[int]:
    return [event["n"] for batch in reading.take(chunk) for event in batch.events]


def test_lines_are_cut_at_line_feeds_only_however_the_chunks_fall() -> None:
    lines = LineSplitter()
    assert lines.feed(b'{"a":"\xe2\x80\xa8') == []
    assert lines.feed(b'x\r"}\n\n{"b"') == [b'{"a":"\xe2\x80\xa8x\r"}']
    assert lines.feed(b":1}\n") == [b'{"b":1}']


def test_a_broken_stream_goes_on_after_the_last_complete_line() -> None:
    reading = following()
    assert numbers(reading, line("0", "c5", 1, 2) + line("1", "c9", 3)[:-4]) == [1, 2]
    assert reading.broken() == 1
    call = reading.call()
    reading.opened({})
    assert msgspec.json.decode(call.headers["X-Nakadi-Cursors"]) == [
        {"partition": "0", "offset": "c5"},
        {"partition": "1", "offset": "BEGIN"},
    ]
    assert numbers(reading, line("1", "c9", 3)) == [3]


def test_keep_alives_move_the_cursor_and_are_not_handed_out() -> None:
    reading = following()
    keep_alive = b'{"cursor":{"partition":"0","offset":"c7"}}\n'
    assert list(reading.take(keep_alive)) == []
    assert reading.cursors["0"].offset == "c7"


def test_pauses_grow_until_something_arrives() -> None:
    reading = following()
    assert [reading.broken(), reading.broken()] == [1, 2]
    list(reading.take(line("0", "c1", 1)))
    assert reading.broken() == 1


def test_a_limit_holds_over_all_connections() -> None:
    reading = following(stream_limit=5, batch_limit=4)
    list(reading.take(line("0", "c1", 1, 2)))
    reading.broken()
    assert reading.call().path == "/event-types/orders/events?batch_limit=3&stream_limit=3"
    list(reading.take(line("0", "c2", 3, 4, 5)))
    assert reading.broken() == 0
    assert reading.finished


def test_a_stream_with_a_limit_ends_and_one_without_is_opened_again() -> None:
    limited, endless = following(stream_timeout=5), following()
    assert limited.ended() == 0
    assert limited.finished
    assert endless.ended() > 0
    assert not endless.finished


def test_a_stream_starts_at_the_begin_or_the_end_of_every_partition() -> None:
    partitions = [Partition(partition="0", oldest_available_offset="a", newest_available_offset="z")]
    assert starting_cursors(partitions, "begin") == [Cursor("0", "BEGIN")]
    assert starting_cursors(partitions, "END") == [Cursor("0", "z")]
    with pytest.raises(Invalid):
        starting_cursors(partitions, "middle")


def test_a_line_that_is_no_batch_is_unexpected() -> None:
    with pytest.raises(UnexpectedAnswer):
        list(following().take(b"oops\n"))


def test_a_subscription_remembers_the_stream_that_a_commit_must_name() -> None:
    reading = SubscriptionReader("s1", StreamOptions(max_uncommitted_events=3), RETRIES)
    assert reading.call().path == "/subscriptions/s1/events?max_uncommitted_events=3"
    assert reading.call().conflict_for == 0
    reading.opened({"x-nakadi-streamid": "abc"})
    (batch,) = reading.take(line("0", "c1", 1))
    assert (batch.subscription_id, batch.stream_id) == ("s1", "abc")
    assert reading.call().conflict_for > 0
