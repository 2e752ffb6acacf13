"""What anybody may have written into Kafka and ZooKeeper: whoever reads it leaves it aside, and goes on."""

import msgspec
import pytest

from meantime.coordination.membership import _decode
from meantime.coordination.timelines_root import current_version, version_of
from meantime.coordination.zk.znodes import Znode
from meantime.errors import CorruptRecord
from meantime.kafka.consumer import as_json
from meantime.pipelines.buffer.event_type_target import mark
from meantime.pipelines.buffer.kafka_target import _published
from meantime.processes.event_callbacks import _traces_in
from meantime.processes.event_checks import event_of
from meantime.streams.subscriptions.stream_registry import _key, _reader
from meantime.streams.switching.model import read_notice
from meantime.timers.model import Record, TimerId, TimerLimits, TimerOutcomes, TimerState, read_outcomes
from meantime.timers.rules import read, read_due, set_by
from meantime.workers.model import PlanRecord, QueueRecord, decode

DEEP = 20_000
BROKEN = [
    b"[" * DEEP,
    b"[" * DEEP + b"]" * DEEP,
    b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    b'{"metadata":' * DEEP + b"1" + b"}" * DEEP,
    b"\x91" * DEEP,
    b"9" * DEEP,
    b"-1",
    b"null",
    b'"text"',
    b"[1,2,3]",
    b'{"id":5,"ids":7,"stream_id":[],"switch":{},"metadata":[],"workers":3}',
    b"\xff\xfe",
    b'{"id":"\xff"}',
    b"{",
    b" ",
    bytes(100_000),
]


@pytest.fixture(params=BROKEN, ids=range(len(BROKEN)))
def data(request) -> bytes:
    return request.param


def test_records_in_zookeeper_that_are_none_are_left_aside(data) -> None:
    assert _decode("a", data) is None
    assert read_notice(data) is None
    assert _reader("0000000001", data) is None
    with pytest.raises(CorruptRecord):
        decode(PlanRecord, "/plan", data)
    with pytest.raises(CorruptRecord):
        decode(QueueRecord, "/queue", data[:50_000] + b"]")
    assert version_of(data) == -1
    assert current_version(Znode(data, 7, 0, 0)) == 7


def test_names_of_owners_that_are_none_are_left_aside() -> None:
    assert [_key(name) for name in ("orders:3", "orders", "orders:", "orders:x", "9" * 5000)] == [("orders", 3), *[None] * 4]


def test_records_in_kafka_that_are_none_are_left_aside(data) -> None:
    limits = TimerLimits()
    assert read_outcomes(data) is None
    assert _published(data) is None
    for place in ("key", "value", "token", "cancel", "requested"):
        given = {"key": b"5", "value": b"", "token": b"t", "requested": b"5"} | {place: data}
        headers = tuple((name, content) for name, content in given.items() if name not in ("key", "value"))
        record = Record(0, 1, 1_700_000_000_000, given["key"], given["value"], headers)
        set_by(record), read(record, limits)
        assert place == "cancel" or read_due(record, limits) is None
    assert isinstance(mark(data), str)


def test_outcomes_that_no_dispatcher_tells_are_left_aside() -> None:
    good = TimerOutcomes(TimerState.FIRED, 5, ((7, ("a", "b" * 128)),))
    assert read_outcomes(msgspec.msgpack.encode(good)) == good
    for bad in (
        [1, 5, [[7, ['a"b']]]],
        [1, 5, [[7, ["a", ""]]]],
        [1, 5, [[7, ["a" * 129]]]],
        [1, 5, [[7, ["a\x00"]]]],
        [1, 5, [[10**13, ["a"]]]],
        [1, 5, [[-1, ["a"]]]],
        [1, 10**18, [[7, ["a"]]]],
        [0, 5, [[7, ["a"]]]],
        [4, 5, [[7, ["a"]]]],
    ):
        assert read_outcomes(msgspec.msgpack.encode(bad)) is None


def test_a_callback_that_is_no_event_is_told_from_one_that_is(data) -> None:
    event = event_of(TimerId("t", 5), data, "undefined")
    assert event is None or isinstance(msgspec.json.decode(event), dict)
    assert list(_traces_in(iter([data]), "business")) == []
    assert msgspec.json.decode(as_json(data[:50_000]), type=msgspec.Raw)


def test_a_callback_may_be_as_deep_as_any_event() -> None:
    """Deeper ones would be refused with all that are published together with them."""
    assert event_of(TimerId("t", 5), b'{"a":' * 200 + b"1" + b"}" * 200, "undefined") is not None
    assert event_of(TimerId("t", 5), b'{"a":' * 201 + b"1" + b"}" * 201, "undefined") is None
