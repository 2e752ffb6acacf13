"""What a request means, and whether it is one: pure decisions that every part of the pipeline makes alike.

Whoever meets a request — the Spark job, a dispatcher, the ledger — must come to the same verdict, so a verdict depends
on nothing but the record itself and the limits: the horizon is counted from the instant at which Kafka got the record. What
the Spark job can see without opening the message (key, token, size, horizon) comes first;
`RefusedRequest.opaque` tells the rest.
"""

import re
from functools import lru_cache
from secrets import token_hex
from zlib import crc32

from meantime.names import EVENT_TYPE, IDENTIFIER, SYSTEM_TOPIC, TIMELINE_TOPIC, is_identifier
from meantime.timers.future import decode
from meantime.timers.model import CancelRequest, Future, Record, RefusedRequest, Request, SetRequest, TimerId, TimerLimits
from meantime.timers.topics import RESERVED

SECOND = re.compile(rb"[0-9]{1,12}")
INSTANT = re.compile(rb"[0-9]{1,15}")
KAFKA_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
NAMED_SECOND = re.compile(r"([0-9]{1,12})\.[0-9a-f]{20}")
EVENT_TYPE_PREFIX = "event-type:"
IN_TIME_MS = 1000

NO_SECOND = "the key is not a Unix second in decimal digits"
BAD_TOKEN = "the token is not 1 to 128 characters of 0-9 A-Z a-z . _ : @ -"
BAD_CANCEL = "a cancel has an empty value"
TOO_FAR = "the second is beyond the horizon"
TOO_LARGE = "the request is too large"
UNREADABLE = "the value is not a Future message"
CALLBACK_TOO_LARGE = "the callback is too large"
NO_TOPIC = "there is no callBackTopic"
BAD_TOPIC = "the callBackTopic is neither the name of a Kafka topic nor event-type:<name>"
RESERVED_TOPIC = "the callBackTopic is reserved"
OWNED_TOPIC = "the callBackTopic belongs to a timeline: call back event-type:<name>"


Outside = tuple[str, int | None, bool, str | None]
"""What can be seen of a request without opening its message: token, second, whether it cancels, why it is refused."""


def read(record: Record, limits: TimerLimits) -> Request:
    """The verdict on a record of `timer-request`."""
    token, second, cancelling, reason = outside(record, limits)
    if second is None or reason is not None:
        known = token if is_identifier(token) else place(record)
        return RefusedRequest(
            known, record.timestamp_ms // 1000 if second is None else second, reason or NO_SECOND, opaque=False
        )
    if cancelling:
        return CancelRequest(token, second, record.timestamp_ms)
    future = decode(record.value or b"")
    reason = UNREADABLE if future is None else future_fault(future, limits)
    if future is None or reason is not None:
        return RefusedRequest(token, second, reason or UNREADABLE, opaque=True)
    return SetRequest(token, second, future, record.timestamp_ms)


def outside(record: Record, limits: TimerLimits) -> Outside:
    """The part of the verdict that the Spark job comes to. Every request passes here, some of them in bursts of millions."""
    token, cancelling = _token(record)
    second = _second(record.key)
    return token, second, cancelling, _fault(record, token, second, cancelling, limits)


def set_by(record: Record) -> TimerId | None:
    """The timer that a record of `timer-due` sets, without opening it; None for a cancel."""
    token, cancels = _token(record)
    second = _second(record.key)
    return None if cancels or second is None else TimerId(token, second)


def read_due(record: Record, limits: TimerLimits) -> SetRequest | CancelRequest | None:
    """A record of `timer-due`, judged by the Spark job from outside; None for a message that is at fault inside, and for
    a record that is not the Spark job's."""
    headers = dict(record.headers)
    token, cancels = _token(record)
    second, requested_ms = _second(record.key), _instant(headers.get("requested"))
    named = "cancel" in headers or "token" in headers
    if second is None or requested_ms is None or not named or not is_identifier(token):
        return None
    if cancels:
        return CancelRequest(token, second, requested_ms)
    future = decode(record.value or b"")
    return None if future is None or future_fault(future, limits) else SetRequest(token, second, future, requested_ms)


def _token(record: Record) -> tuple[str, bool]:
    """The token that a record names, or its place where it names none; and whether it cancels."""
    headers = dict(record.headers)
    cancelling = "cancel" in headers
    given = headers["cancel"] if cancelling else headers.get("token")
    if given is None:
        return "" if cancelling else place(record), cancelling
    return given.decode("utf-8", "replace"), cancelling


def _instant(text: bytes | None) -> int | None:
    return int(text) if text and INSTANT.fullmatch(text) else None


@lru_cache(maxsize=100_000)
def _second(key: bytes | None) -> int | None:
    return int(key) if key and SECOND.fullmatch(key) else None


def _fault(record: Record, token: str, second: int | None, cancelling: bool, limits: TimerLimits) -> str | None:
    if second is None:
        return NO_SECOND
    if IDENTIFIER.fullmatch(token) is None:
        return BAD_TOKEN
    if cancelling and record.value:
        return BAD_CANCEL
    if second > record.timestamp_ms // 1000 + limits.horizon_s:
        return TOO_FAR
    if len(record.value or b"") > limits.max_request_bytes:
        return TOO_LARGE
    return None


def future_fault(future: Future, limits: TimerLimits) -> str | None:
    """Why this callback could never be delivered."""
    reason = _topic_fault(future.topic)
    return CALLBACK_TOO_LARGE if reason is None and len(future.callback) > limits.max_callback_bytes else reason


@lru_cache(maxsize=1024)
def _topic_fault(topic: str) -> str | None:
    if not topic:
        return NO_TOPIC
    if not _can_be_a_topic(topic):
        return BAD_TOPIC
    if topic in RESERVED or SYSTEM_TOPIC.fullmatch(topic):
        return RESERVED_TOPIC
    return OWNED_TOPIC if TIMELINE_TOPIC.fullmatch(topic) and event_type_of(topic) is None else None


def _can_be_a_topic(topic: str) -> bool:
    name = event_type_of(topic)
    if name is not None:
        return len(name) <= 255 and EVENT_TYPE.fullmatch(name) is not None
    return KAFKA_TOPIC.fullmatch(topic) is not None and topic not in (".", "..")


def event_type_of(topic: str) -> str | None:
    """The event type that a callback topic names, if it names one."""
    return topic.removeprefix(EVENT_TYPE_PREFIX) if topic.startswith(EVENT_TYPE_PREFIX) else None


def missing_topic(topic: str) -> str:
    """Why nothing can be sent there."""
    return f"there is no topic {topic!r} to call back"


def place(record: Record) -> str:
    """The token of a request without one."""
    return f"{record.partition}-{record.offset}"


def share_of(token: str | bytes, shares: int) -> int:
    """The partition of `timer-due` that a timer belongs to; the Spark job computes the same."""
    return crc32(token if isinstance(token, bytes) else token.encode()) % shares


def make_token(second: int) -> str:
    return f"{second}.{token_hex(10)}"


def named_second(token: str) -> int | None:
    """The second that a token made here names."""
    found = NAMED_SECOND.fullmatch(token)
    return int(found[1]) if found else None


def in_time(second: int, at_ms: int) -> bool:
    """Whether a cancel that Kafka got at `at_ms` is sure to be heard."""
    return at_ms <= second * 1000 - IN_TIME_MS
