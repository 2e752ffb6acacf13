"""Streams whose lines say when their events were written, which is what `last` is made of."""

import json

from meantime.kafka.consumer import stamped
from meantime.streams.cursors import Cursor
from meantime.streams.reading.batching import StreamBatcher
from meantime.streams.reading.limits import StreamLimits


def lines_of(limits, values):
    batcher = StreamBatcher({("orders", 0): Cursor(1, -1)}, limits, now=0.0)
    batcher.add(("orders", 0), 1, 0, values, now=0.0)
    return [json.loads(line) for line in b"".join([*batcher.lines(1.0), *batcher.rest(1.0)]).splitlines()]


def test_each_event_has_its_instant():
    values = [stamped(b'{"n":%d}' % number, 1000 + number) for number in range(3)]
    found = lines_of(StreamLimits(written_at=True), values)
    assert [line["written_at_ms"] for line in found] == [[1000], [1001], [1002]]
    assert [line["events"] for line in found] == [[{"n": 0}], [{"n": 1}], [{"n": 2}]]
    assert found[-1]["cursor"] == {"partition": "0", "offset": "001-0001-000000000000000002"}


def test_a_batch_has_as_many_instants_as_events():
    values = [stamped(b'{"n":\n%d}' % number, number) for number in range(5)]
    found = lines_of(StreamLimits(batch_limit=2, written_at=True), values)
    assert [line["written_at_ms"] for line in found] == [[0, 1], [2, 3], [4]]


def test_nobody_else_sees_them():
    assert "written_at_ms" not in lines_of(StreamLimits(), [stamped(b"{}", 1)])[0]
