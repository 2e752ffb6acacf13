"""Calls of timers: callbacks at a second."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from meantime.sdk.calls.call import JSON, Call, body, fields, fresh_id, path, reading
from meantime.sdk.instants import Duration, Instant, milliseconds, unix_ms, when
from meantime.sdk.model import Timer, TimerSlot


@dataclass(frozen=True, slots=True)
class TimerDraft:
    """A timer for `timer_many`."""

    callback_topic: str
    callback: Any = None
    at: Instant | None = None
    after: Duration | None = None
    key: str | None = None
    token: str | None = None


def timer(
    callback_topic: str,
    callback: Any = None,
    *,
    at: Instant | None = None,
    after: Duration | None = None,
    key: str | None = None,
    token: str | None = None,
) -> Call[Timer]:
    """Have `callback` sent to a Kafka topic, or to `event-type:<name>`, at a second; it is never early.

    A timer is its token and its second: with `at` the call can be repeated and sets one timer, with `after` it is sent once.

    >>> client.timer("event-type:orders", {"id": 7}, after=60).token
    """
    document = _document(TimerDraft(callback_topic, callback, at, after, key, token))
    return Call("POST", path("timers"), reading(Timer), body(document), JSON, repeatable=at is not None)


def timer_many(drafts: Sequence[TimerDraft]) -> Call[list[Timer]]:
    """Set up to 10,000 timers at once; if any is bad, none is set."""
    repeatable = all(draft.at is not None for draft in drafts)
    content = body({"timers": [_document(draft) for draft in drafts]})
    return Call("POST", path("timers"), reading(list[Timer], "results"), content, JSON, repeatable=repeatable)


def _document(draft: TimerDraft) -> dict[str, Any]:
    at_ms, after_ms = when(draft.at, draft.after)
    callback = draft.callback
    raw = isinstance(callback, bytes | bytearray | memoryview)
    return fields(
        at=_whole_seconds(at_ms),
        after=_whole_seconds(after_ms),
        callback_topic=draft.callback_topic,
        callback_key=draft.key,
        callback=None if raw else callback,
        callback_b64=bytes(callback) if raw else None,
        token=draft.token or (fresh_id() if draft.at is not None else None),
    )


def _whole_seconds(value_ms: int | None) -> int | None:
    """The first second that is not before the instant."""
    return None if value_ms is None else -(-value_ms // 1000)


def cancel(token: str | Timer, *, at: int | None = None) -> Call[Timer]:
    """Cancel a timer; Conflict with code `already_fired` when it is too late."""
    name, second = (token.token, token.at) if isinstance(token, Timer) else (token, at)
    return Call("DELETE", path("timers", name, query={"at": second}), reading(Timer))


def find_timer(token: str, *, at: int | None = None) -> Call[Timer]:
    """What became of a timer: pending, fired, cancelled, or rejected with a `reason`."""
    return Call("GET", path("timers", token, query={"at": at}), reading(Timer))


def timer_load(start: Instant, end: Instant, step: Duration) -> Call[list[TimerSlot]]:
    """How many timers are pending in each slot between two instants."""
    query: Mapping[str, object] = {
        "from": unix_ms(start) // 1000,
        "to": unix_ms(end) // 1000,
        "step": milliseconds(step) // 1000,
    }
    return Call("GET", path("timers", "load", query=query), reading(list[TimerSlot], "slots"))


def timer_status() -> Call[dict[str, Any]]:
    """How the oscillator, the Spark job, the dispatchers and the ledger are."""
    return Call("GET", path("timers", "status"), reading(dict[str, Any]))
