"""What a request means."""

from dataclasses import replace

import pytest

from meantime.streams.catalog.timeline_topics import new_topic_name
from meantime.timers import rules
from meantime.timers.future import decode, encode
from meantime.timers.model import CancelRequest, Future, Record, RefusedRequest, SetRequest, TimerId, TimerLimits
from meantime.timers.rules import in_time, make_token, named_second, read, read_due, set_by, share_of

NOW_S = 1_700_000_000
LIMITS = TimerLimits(horizon_s=1000, max_callback_bytes=100)
FUTURE = Future("calls", "k", b"\x00\xff")


def record(key: bytes | None = b"1700000010", value: bytes | None = encode(FUTURE), **headers: bytes | None) -> Record:
    return Record(3, 77, NOW_S * 1000 + 500, key, value, tuple(headers.items()))


def reason(given: Record) -> str:
    verdict = read(given, LIMITS)
    assert isinstance(verdict, RefusedRequest)
    return verdict.reason


def test_a_future_survives_its_encoding() -> None:
    assert decode(encode(FUTURE)) == FUTURE
    assert encode(FUTURE) == b"\x0a\x05calls\x12\x01k\x1a\x02\x00\xff"


@pytest.mark.parametrize("value", [b"garbage", b"\x0a\x05ab", b"\x0a\x02\xff\xfe"])
def test_other_bytes_are_no_future(value: bytes) -> None:
    assert decode(value) is None
    assert reason(record(value=value)) == rules.UNREADABLE


def test_a_request_without_a_token_is_named_by_its_place() -> None:
    assert read(record(), LIMITS) == SetRequest("3-77", 1_700_000_010, FUTURE, NOW_S * 1000 + 500)


def test_a_request_keeps_its_own_token() -> None:
    verdict = read(record(token=b"mine:1"), LIMITS)
    assert isinstance(verdict, SetRequest)
    assert verdict.token == "mine:1"


@pytest.mark.parametrize("value", [None, b""])
def test_a_cancel_has_an_empty_value(value: bytes | None) -> None:
    assert read(record(value=value, cancel=b"mine"), LIMITS) == CancelRequest("mine", 1_700_000_010, NOW_S * 1000 + 500)
    assert reason(record(cancel=b"mine")) == rules.BAD_CANCEL


@pytest.mark.parametrize("key", [None, b"", b"soon", b"-5", b"17.5", b" 17", b"1234567890123", b"0x10"])
def test_a_key_that_is_no_second_is_refused(key: bytes | None) -> None:
    verdict = read(record(key=key, token=b"mine"), LIMITS)
    assert verdict == RefusedRequest("mine", NOW_S, rules.NO_SECOND, opaque=False)


@pytest.mark.parametrize("token", [b"", b"has space", b"x" * 129, b"\xff", None])
def test_a_token_out_of_bounds_is_refused_or_absent(token: bytes | None) -> None:
    verdict = read(record(token=token), LIMITS)
    assert isinstance(verdict, SetRequest if token is None else RefusedRequest)
    assert verdict.token == "3-77"


def test_the_horizon_counts_from_the_instant_that_kafka_got_the_request() -> None:
    assert isinstance(read(record(key=str(NOW_S + 1000).encode()), LIMITS), SetRequest)
    assert reason(record(key=str(NOW_S + 1001).encode())) == rules.TOO_FAR


def test_a_second_in_the_past_is_fine() -> None:
    assert isinstance(read(record(key=b"0"), LIMITS), SetRequest)


@pytest.mark.parametrize(
    ("future", "why"),
    [
        (FUTURE._replace(callback=bytes(101)), rules.CALLBACK_TOO_LARGE),
        (FUTURE._replace(topic=""), rules.NO_TOPIC),
        (FUTURE._replace(topic="no spaces"), rules.BAD_TOPIC),
        (FUTURE._replace(topic=".."), rules.BAD_TOPIC),
        (FUTURE._replace(topic="event-type:9"), rules.BAD_TOPIC),
        (FUTURE._replace(topic="oscillator"), rules.RESERVED_TOPIC),
        (FUTURE._replace(topic="timer-request"), rules.RESERVED_TOPIC),
        (FUTURE._replace(topic="__consumer_offsets"), rules.RESERVED_TOPIC),
        (FUTURE._replace(topic="buffer.orders.shipped.ledger"), rules.RESERVED_TOPIC),
        (FUTURE._replace(topic=new_topic_name("orders", 1)), rules.OWNED_TOPIC),
        (FUTURE._replace(topic=new_topic_name("a" * 255, 4096)), rules.OWNED_TOPIC),
    ],
)
def test_a_callback_that_could_never_be_delivered_is_refused(future: Future, why: str) -> None:
    verdict = read(record(value=encode(future)), LIMITS)
    assert verdict == RefusedRequest("3-77", 1_700_000_010, why, opaque=True)
    assert read_due(record(value=encode(future), token=b"3-77"), LIMITS) is None


def test_a_request_that_is_far_too_large_is_refused_unopened() -> None:
    verdict = read(record(value=bytes(LIMITS.max_request_bytes + 1)), LIMITS)
    assert isinstance(verdict, RefusedRequest)
    assert (verdict.reason, verdict.opaque) == (rules.TOO_LARGE, False)


def test_the_due_topic_is_read_back() -> None:
    assert read_due(record(token=b"a", requested=b"5"), LIMITS) == SetRequest("a", 1_700_000_010, FUTURE, 5)
    assert read_due(record(value=b"", cancel=b"a", requested=b"5"), LIMITS) == CancelRequest("a", 1_700_000_010, 5)


def test_a_made_token_names_its_second() -> None:
    assert named_second(make_token(NOW_S)) == NOW_S
    assert named_second("3-77") is None
    assert make_token(NOW_S) != make_token(NOW_S)


def test_shares_are_stable() -> None:
    assert [share_of(token, 4) for token in ("a", "b", "3-77")] == [3, 1, 3]


def test_a_cancel_is_in_time_a_second_before() -> None:
    assert in_time(NOW_S, NOW_S * 1000 - 1000)
    assert not in_time(NOW_S, NOW_S * 1000 - 999)


def test_limits_leave_room_for_topic_and_key() -> None:
    assert replace(LIMITS, max_callback_bytes=10).max_request_bytes > 8000


def test_a_due_record_names_its_timer_without_being_opened() -> None:
    assert set_by(record(value=b"sealed", token=b"mine")) == TimerId("mine", 1_700_000_010)
    assert set_by(record(value=None, cancel=b"mine")) is None
