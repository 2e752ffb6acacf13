"""What callers of the API may ask for."""

import msgspec
import pytest

from meantime.errors import Invalid, Malformed
from meantime.timers.model import NewTimer, TimerLimits
from meantime.timers.request_parsing import parse_timers
from meantime.timers.rules import named_second

NOW_MS = 1_700_000_000_400
LIMITS = TimerLimits(horizon_s=1000, max_callback_bytes=20)


def one(**fields) -> NewTimer:
    (new,) = parse_timers(msgspec.json.encode({"callback_topic": "calls", **fields}), NOW_MS, LIMITS).timers
    return new


def refused(**fields) -> Invalid:
    with pytest.raises(Invalid) as error:
        one(**fields)
    return error.value


@pytest.mark.parametrize(
    ("when", "second"),
    [
        ({"at": 1_700_000_005}, 1_700_000_005),
        ({"at": 1_700_000_005.2}, 1_700_000_006),
        ({"at": 0}, 0),
        ({"after": 0}, 1_700_000_001),
        ({"after": 2}, 1_700_000_003),
        ({"after": 0.6}, 1_700_000_001),
        ({"after": -100}, 1_699_999_901),
        ({"after": 5, "at": None}, 1_700_000_006),
    ],
)
def test_a_timer_is_never_before_the_instant_asked_for(when, second):
    assert one(**when).timer.second == second


@pytest.mark.parametrize(
    "when", [{}, {"at": 5, "after": 5}, {"at": "soon"}, {"after": True}, {"at": -1}, {"at": 10**15}, {"after": 1001}]
)
def test_an_instant_that_makes_no_sense_is_refused(when):
    refused(**when)


@pytest.mark.parametrize(
    ("given", "sent"),
    [
        ({}, b""),
        ({"callback": None}, b""),
        ({"callback": "grüezi"}, "grüezi".encode()),
        ({"callback": {"a": [1, None]}}, b'{"a":[1,null]}'),
        ({"callback": 7}, b"7"),
        ({"callback": False}, b"false"),
        ({"callback": ""}, b""),
        ({"callback_b64": "AAH/"}, b"\x00\x01\xff"),
        ({"callback_b64": "AAH/", "callback": None}, b"\x00\x01\xff"),
    ],
)
def test_strings_are_sent_as_bytes_and_other_json_as_its_text(given, sent):
    assert one(after=1, **given).future.callback == sent


@pytest.mark.parametrize(
    "given",
    [
        {"callback": "a", "callback_b64": "AA=="},
        {"callback_b64": "?"},
        {"callback": "x" * 21},
        {"callback_topic": None},
        {"callback_topic": ""},
        {"callback_topic": "no spaces"},
        {"callback_topic": "timer-due"},
        {"callback_topic": "event-type:orders", "callback": "text"},
        {"callback_topic": "event-type:no spaces", "callback": {}},
        {"token": ""},
        {"token": "a/b"},
        {"token": "x" * 129},
        {"callback_key": 5},
    ],
)
def test_a_callback_that_makes_no_sense_is_refused(given):
    refused(after=1, **given)


def test_a_token_is_kept_or_made():
    assert one(after=1, token="mine:1").timer.token == "mine:1"
    made = one(after=1)
    assert named_second(made.timer.token) == made.timer.second


def test_a_bad_entry_of_a_batch_is_named():
    good, bad = {"after": 1, "callback_topic": "calls"}, {"after": 1}
    with pytest.raises(Invalid, match=r"timers\[2\]") as error:
        parse_timers(msgspec.json.encode({"timers": [good, good, bad]}), NOW_MS, LIMITS)
    assert error.value.extras["index"] == 2


def test_a_batch_has_an_entry_and_not_too_many():
    entry = {"after": 1, "callback_topic": "calls"}
    for batch in ([], [entry] * 10_001, "no", None):
        with pytest.raises(Invalid):
            parse_timers(msgspec.json.encode({"timers": batch}), NOW_MS, LIMITS)
    asked = parse_timers(msgspec.json.encode({"timers": [entry] * 3}), NOW_MS, LIMITS)
    assert (len(asked.timers), asked.batch, asked.relative) == (3, True, True)


@pytest.mark.parametrize("body", [b"", b"[", b"[]", b"7", b"\xff", b"null"])
def test_what_is_no_json_object_is_malformed(body):
    with pytest.raises(Malformed):
        parse_timers(body, NOW_MS, LIMITS)
