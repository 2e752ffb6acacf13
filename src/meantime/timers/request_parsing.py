"""What callers of the API ask for: from the bytes of a request to timers, or to the one reason why not."""

import binascii
import math
from base64 import b64decode
from dataclasses import dataclass

import msgspec
from msgspec import UNSET, Raw, UnsetType

from meantime.errors import UNREADABLE, Invalid, Malformed
from meantime.json_depth import is_shallow
from meantime.names import check_identifier
from meantime.readable import human
from meantime.timers.model import Future, NewTimer, TimerId, TimerLimits
from meantime.timers.rules import event_type_of, future_fault, make_token
from meantime.unknown_fields import hint, misspelt

MOST_AT_ONCE = 10_000


class TimerForm(msgspec.Struct, forbid_unknown_fields=True):
    """One timer as it is sent. `null` counts as absent."""

    at: int | float | None = None
    after: int | float | None = None
    callback_topic: str | None = None
    callback_key: str | None = None
    callback: Raw | UnsetType = UNSET
    callback_b64: str | None = None
    token: str | None = None


TIMERS = "timers"
KNOWN = {TIMERS, *(field.encode_name for field in msgspec.structs.fields(TimerForm))}


@dataclass(frozen=True, slots=True)
class NewTimers:
    timers: list[NewTimer]
    batch: bool
    relative: bool
    """Whether any of them counts from now, by this node's clock."""


def parse_timers(body: bytes, now_ms: int, limits: TimerLimits) -> NewTimers:
    """All of them, or the first reason why none is taken."""
    try:
        if not body.isascii():
            body.decode()  # what is kept as it is written is not looked into otherwise
        given = msgspec.json.decode(body, type=dict[str, Raw])
    except msgspec.ValidationError:
        raise Malformed('the body must be a JSON object: a timer, or {"timers": [...]}') from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    for name in given.keys() - KNOWN:
        raise Invalid(f"{name[:100]} is not known here{hint(name, KNOWN)}", field=name[:100])
    if TIMERS not in given:
        form = _form(body)
        return NewTimers([_new_timer(form, now_ms, limits)], batch=False, relative=form.after is not None)
    return _batch(_entries(given[TIMERS]), now_ms, limits)


def _entries(raw: Raw) -> list[Raw]:
    try:
        entries = msgspec.json.decode(raw, type=list[Raw])
    except msgspec.ValidationError:
        raise Invalid("timers must be an array", field="timers") from None
    if not 1 <= len(entries) <= MOST_AT_ONCE:
        raise Invalid(f"send 1 to {MOST_AT_ONCE} timers at once, not {len(entries)}", field="timers")
    return entries


def _batch(entries: list[Raw], now_ms: int, limits: TimerLimits) -> NewTimers:
    timers, relative = [], False
    for index, entry in enumerate(entries):
        try:
            form = _form(entry)
            timers.append(_new_timer(form, now_ms, limits))
        except Invalid as error:
            raise Invalid(f"timers[{index}]: {error.detail}", index=index, **error.extras) from error
        relative = relative or form.after is not None
    return NewTimers(timers, batch=True, relative=relative)


def _form(data: bytes | Raw) -> TimerForm:
    try:
        return msgspec.json.decode(data, type=TimerForm)
    except msgspec.ValidationError as error:
        raise misspelt(error, TimerForm) or Invalid(str(error)) from error


def _new_timer(form: TimerForm, now_ms: int, limits: TimerLimits) -> NewTimer:
    second = _second(form, now_ms)
    if second > now_ms // 1000 + limits.horizon_s:
        raise beyond_horizon(limits)
    if not form.callback_topic:
        raise Invalid("callback_topic is missing", field="callback_topic")
    future = Future(form.callback_topic, form.callback_key or "", _callback(form))
    fault = future_fault(future, limits)
    if fault is not None:
        raise Invalid(callback_fault(fault))
    if event_type_of(future.topic) is not None and not _is_event(future.callback):
        raise Invalid("the callback into an event type must be a JSON object", field="callback")
    token = make_token(second) if form.token is None else check_identifier(form.token, "token")
    return NewTimer(TimerId(token, second), future)


def beyond_horizon(limits: TimerLimits) -> Invalid:
    return Invalid(f"a timer lies {human(limits.horizon_s)} ahead at most", field="at", horizon_s=limits.horizon_s)


def callback_fault(reason: str) -> str:
    """In the words of the API."""
    return reason.replace("callBackTopic", "callback_topic")


def _second(form: TimerForm, now_ms: int) -> int:
    """The first second that is not before the instant asked for."""
    if (form.at is None) == (form.after is None):
        raise Invalid("give either at (a Unix second) or after (seconds from now)", field="at")
    instant = form.at if form.at is not None else now_ms / 1000 + (form.after or 0)
    if not -1e12 < instant < 1e12:
        raise Invalid("no such second", field="at" if form.at is not None else "after")
    if form.at is not None and instant < 0:
        raise Invalid("at is before 1970", field="at")
    return max(0, math.ceil(instant))


def _callback(form: TimerForm) -> bytes:
    """A string as its UTF-8 bytes, other JSON as it was written."""
    given = b"" if isinstance(form.callback, UnsetType) else bytes(form.callback).strip()
    absent = given in (b"", b"null")
    if form.callback_b64 is not None:
        if not absent:
            raise Invalid("give either callback or callback_b64", field="callback")
        return _unpacked(form.callback_b64)
    if absent:
        return b""
    try:
        return msgspec.json.decode(given, type=str).encode() if given[:1] == b'"' else given
    except UnicodeEncodeError:
        raise Invalid("the callback is not valid Unicode", field="callback") from None


def _unpacked(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Invalid(f"callback_b64 is not base64: {error}", field="callback_b64") from error


def _is_event(callback: bytes) -> bool:
    try:
        return is_shallow(callback) and isinstance(msgspec.json.decode(callback), dict)
    except UNREADABLE:
        return False
