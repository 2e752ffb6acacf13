"""Calls about leases, as consumers make them. `consume` is made of these; use them for work in bulk.

Extending and releasing name the version they believe in, so one that arrives twice is refused the second time and does no
harm. Taking leases is not repeated when its outcome is unknown: what was taken without an answer comes back when it expires.
"""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from meantime.errors import UnexpectedAnswer
from meantime.sdk.calls.call import JSON, Call, body, fields, nothing, path, reading
from meantime.sdk.calls.topics import read_outcomes
from meantime.sdk.instants import Duration, milliseconds
from meantime.sdk.messages import LeasedMessage, Outcome

#: The earliest instant that a broker accepts is 5 ms ahead of its clock.
SOONEST_MS = 20
#: The longest reason that a broker accepts, in characters.
MOST_REASON = 1000
#: A vanished stream is noticed by the broker within 10 s; until then its successor gets 409.
NOTICED_WITHIN = 15.0

_lease = msgspec.json.Decoder(LeasedMessage)


class LeaseReference(Protocol):
    """What names a lease: the message and the version that this consumer knows."""

    @property
    def id(self) -> str: ...

    @property
    def version(self) -> int: ...


def lease(
    topic: str, consumer_id: str, *, limit: int = 10, lease_for: Duration = 30.0, wait_for: Duration = 0.0
) -> Call[list[LeasedMessage]]:
    """Take leases on messages that are due, waiting for one up to `wait_for` (a minute at most).

    >>> leases = client.lease("reminders", "worker-1", limit=100, wait_for=20)
    """
    wait_ms = milliseconds(wait_for)
    document = {"consumer_id": consumer_id, "limit": limit, "lease_ms": milliseconds(lease_for), "wait_ms": wait_ms}
    return Call(
        "POST",
        path("topics", topic, "leases"),
        reading(list[LeasedMessage], "leases"),
        body(document),
        JSON,
        repeatable=False,
        wait_for=wait_ms / 1000,
    )


def lease_stream(topic: str, consumer_id: str, *, buffer: int, lease_for: Duration) -> Call[None]:
    """The push stream; while an earlier stream of this consumer is still known (409), the client asks again for a while."""
    query = {"consumer_id": consumer_id, "buffer": buffer, "lease_ms": milliseconds(lease_for)}
    return Call("GET", path("topics", topic, "leases", query=query), nothing, conflict_for=NOTICED_WITHIN)


def read_line(line: bytes) -> LeasedMessage:
    """A line of the push stream."""
    try:
        return _lease.decode(line)
    except msgspec.MsgspecError as error:
        sample = line[:200].decode("utf-8", "replace")
        raise UnexpectedAnswer(f"cannot read a line of the stream ({error}): {sample!r}") from error


def extend_leases(
    topic: str, consumer_id: str, leases: Sequence[LeaseReference], after: Duration = 30.0
) -> Call[list[Outcome]]:
    """Make leases end `after` from now; one outcome per lease, with its new version."""
    return _change("extend", topic, consumer_id, leases, max(SOONEST_MS, milliseconds(after)))


def release_leases(
    topic: str,
    consumer_id: str,
    leases: Sequence[LeaseReference],
    after: Duration | None = None,
    reason: str | None = None,
) -> Call[list[Outcome]]:
    """Give messages back, to be leased again `after` from now, or if that is not given when the topic's retry policy says,
    later with every attempt. `reason` is shown to whoever gets them next; of a long one the beginning."""
    after_ms = None if after is None else max(SOONEST_MS, milliseconds(after))
    return _change("release", topic, consumer_id, leases, after_ms, _taken(reason))


def reason_of(error: BaseException) -> str:
    """An exception as the reason for which a message is given back."""
    try:
        text = str(error)
    except Exception:
        text = ""  # its own method failed; what kind it is can still be said
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _taken(reason: str | None) -> str | None:
    """As much of it as a broker takes; it cannot store every character."""
    if not reason:
        return None
    text = reason.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()
    return text if len(text) <= MOST_REASON else text[: MOST_REASON - 1] + "…"


def delete_leases(topic: str, consumer_id: str, leases: Sequence[LeaseReference]) -> Call[list[Outcome]]:
    """The work is done: delete the messages."""
    return _change("delete", topic, consumer_id, leases, None)


def _change(
    verb: str,
    topic: str,
    consumer_id: str,
    leases: Sequence[LeaseReference],
    after_ms: int | None,
    reason: str | None = None,
) -> Call[list[Outcome]]:
    more = fields(after_ms=after_ms, reason=reason)
    entries: list[dict[str, Any]] = [{"id": lease.id, "version": lease.version, **more} for lease in leases]
    target = path("topics", topic, "leases", verb)
    return Call("POST", target, read_outcomes, body({"consumer_id": consumer_id, "leases": entries}), JSON)
