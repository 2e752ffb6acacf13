"""When batches are due, and what the lines of a stream look like."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meantime.streams.cursors import Cursor, parse
from meantime.streams.reading import batching
from meantime.streams.reading.batching import EventBuffer, StreamBatcher
from meantime.streams.reading.limits import StreamLimits
from meantime.streams.reading.stream_format import full_lines, line


def events(*numbers: int) -> list[bytes]:
    return [b'{"n":%d}' % number for number in numbers]


def read(lines: list[bytes]) -> list[tuple[str, str, list[int] | None]]:
    decoded = [json.loads(line) for line in b"".join(lines).splitlines()]
    return [
        (
            batch["cursor"]["partition"],
            batch["cursor"]["offset"],
            [event["n"] for event in batch["events"]] if "events" in batch else None,
        )
        for batch in decoded
    ]


def batcher(partitions: int = 1, **limits: float) -> StreamBatcher:
    places = {("orders", partition): Cursor(1, -1) for partition in range(partitions)}
    return StreamBatcher(places, StreamLimits(**limits), now=0.0)  # type: ignore[arg-type]


def offset(number: int, order: int = 1) -> str:
    return str(Cursor(order, number))


@given(
    st.lists(st.tuples(st.booleans(), st.integers(1, 5)), max_size=12),
    st.lists(st.integers(1, 7), min_size=1, max_size=60),
)
def test_a_buffer_gives_back_every_event_once_in_order_and_never_mixes_timelines(
    appended: list[tuple[bool, int]], limits: list[int]
) -> None:
    buffer, written, order, following = EventBuffer(), [], 1, 0
    for switched, count in appended:
        order, following = (order + 1, 0) if switched else (order, following)
        values = [b"%d:%d" % (order, following + index) for index in range(count)]
        buffer.append(order, following, values)
        written += values
        following += count
    taken: list[bytes] = []
    for limit in limits * 60:
        if not buffer.count:
            break
        batch = buffer.take(limit)
        assert {value.split(b":")[0] for value in batch.values} == {b"%d" % batch.cursor.order}
        assert batch.values[-1] == b"%d:%d" % (batch.cursor.order, batch.cursor.offset)
        assert len(batch.values) <= limit
        taken += batch.values
    assert taken == written
    assert (buffer.count, buffer.bytes) == (0, 0)


def test_a_batch_is_sent_when_it_is_full() -> None:
    stream = batcher(batch_limit=2)
    stream.add(("orders", 0), 1, 0, events(0, 1, 2), now=0.0)
    assert read(stream.lines(now=0.0)) == [("0", offset(1), [0, 1])]
    stream.add(("orders", 0), 1, 3, events(3), now=0.0)
    assert read(stream.lines(now=0.0)) == [("0", offset(3), [2, 3])]


def test_an_unfinished_batch_is_sent_when_its_time_is_up() -> None:
    stream = batcher(batch_limit=10, flush_for=5.0)
    stream.add(("orders", 0), 1, 0, events(0), now=0.0)
    assert stream.lines(now=4.9) == []
    assert stream.due_at(now=5.0) == 5.0
    assert read(stream.lines(now=5.0)) == [("0", offset(0), [0])]
    assert stream.due_at(now=5.0) == 10.0


def test_a_batch_ends_with_its_timeline() -> None:
    stream = batcher(batch_limit=10)
    stream.add(("orders", 0), 1, 4, events(4), now=0.0)
    stream.add(("orders", 0), 3, 0, events(5), now=0.0)
    assert read(stream.lines(now=0.0)) == [("0", offset(4), [4])]


def test_keep_alives_repeat_the_place_reached() -> None:
    stream = batcher(flush_for=1.0)
    assert read(stream.lines(now=1.0)) == [("0", offset(-1), None)]
    stream.add(("orders", 0), 1, 0, events(0), now=1.0)
    stream.lines(now=1.0)
    assert read(stream.lines(now=2.0)) == [("0", offset(0), None)]


def test_partitions_are_kept_alive_each_by_its_own_clock() -> None:
    stream = batcher(partitions=2, flush_for=1.0)
    stream.add(("orders", 1), 1, 0, events(0), now=0.5)
    stream.lines(now=0.5)
    assert read(stream.lines(now=1.0)) == [("0", offset(-1), None)]
    assert read(stream.lines(now=1.5)) == [("1", offset(0), None)]


def test_a_stream_ends_after_its_limit_with_whatever_batch_is_left() -> None:
    stream = batcher(batch_limit=2, stream_limit=3)
    stream.add(("orders", 0), 1, 0, events(0, 1, 2, 3, 4), now=0.0)
    assert stream.finished
    assert read(stream.lines(now=0.0)) == [("0", offset(1), [0, 1]), ("0", offset(2), [2])]


def test_a_stream_ends_after_so_many_keep_alives_in_a_row_on_every_partition() -> None:
    stream = batcher(partitions=2, flush_for=1.0, keep_alive_limit=2)
    stream.lines(now=1.0)
    assert not stream.finished
    stream.add(("orders", 1), 1, 0, events(0), now=1.5)
    stream.lines(now=1.5)
    stream.lines(now=2.0)
    stream.lines(now=2.5)
    assert not stream.finished
    stream.lines(now=3.5)
    assert stream.finished


def test_memory_is_bounded_by_sending_the_fullest_partition_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "MOST_BYTES", 30)
    stream = batcher(partitions=2, batch_limit=1000)
    stream.add(("orders", 0), 1, 0, events(0), now=0.0)
    stream.add(("orders", 1), 1, 0, events(1, 2, 3, 4), now=0.0)
    assert read(stream.lines(now=0.0)) == [("1", offset(3), [1, 2, 3, 4])]


def test_the_rest_is_sent_when_a_stream_ends() -> None:
    stream = batcher(partitions=2, batch_limit=2)
    stream.add(("orders", 0), 1, 0, events(0), now=0.0)
    stream.add(("orders", 1), 1, 0, events(1), now=0.0)
    assert read(stream.rest(now=0.0)) == [("0", offset(0), [0]), ("1", offset(0), [1])]


def test_an_event_with_line_breaks_is_put_on_one_line() -> None:
    head = b'{"cursor":{"partition":"0","offset":"'
    text = line(head, Cursor(1, 1), b'"}', [b'{\n  "n": 1,\r\n "text": "a\\nb"}', b'{"n":2}'])
    assert text.count(b"\n") == 1
    assert b"\r" not in text
    assert json.loads(text)["events"] == [{"n": 1, "text": "a\nb"}, {"n": 2}]


def test_events_are_passed_on_byte_for_byte() -> None:
    odd = b'{ "b":1.50,  "a":"\xc3\xa9" , "a":2}'
    assert odd in line(b'{"cursor":{"partition":"0","offset":"', Cursor(1, 0), b'"}', [odd])


@given(st.integers(1, 5), st.integers(1, 12), st.booleans())
def test_full_batches_look_the_same_whichever_way_they_went(limit: int, count: int, broken: bool) -> None:
    head, space = b'{"cursor":{"partition":"3","offset":"', b"\n" if broken else b""
    values = [b'{"n":%b%d}' % (space, number) for number in range(count * limit)]
    slow = [line(head, Cursor(2, end + 6), b'"}', values[end - limit : end]) for end in range(limit, len(values) + 1, limit)]
    assert full_lines(head, 2, 7, values, limit) == b"".join(slow)


@given(st.lists(st.tuples(st.sampled_from(["on", "gap", "switch"]), st.integers(1, 9)), max_size=12), st.integers(1, 7))
def test_an_eager_stream_holds_nothing_back_and_its_lines_have_no_gaps(appended: list[tuple[str, int]], limit: int) -> None:
    stream, written, order, following = batcher(batch_limit=limit, flush_for=1e9, eager=True), [], 1, 0
    for how, count in appended:
        order, following = (order + 1, 0) if how == "switch" else (order, following + (how == "gap"))
        stream.add(("orders", 0), order, following, [b'{"n":%d}' % n for n in range(following, following + count)], 0.0)
        written += [(order, n) for n in range(following, following + count)]
        following += count
    told = []
    for _, cursor, numbers in read(stream.lines(0.0)):
        assert numbers is not None
        place = parse(cursor)
        assert isinstance(place, Cursor)
        assert len(numbers) <= limit
        assert numbers == list(range(place.offset - len(numbers) + 1, place.offset + 1))
        told += [(place.order, n) for n in numbers]
    assert told == written
