"""The nouns of timers.

A timer is its token and its second; everything else it has is what to do then. A request sets one or cancels one. An
outcome is how it ended; it ends once.

    requested ──► pending ──► fired
                     ├──────► cancelled
                     └──────► rejected     it cannot be read, is out of bounds, or its callback cannot be delivered
"""

from dataclasses import dataclass
from enum import IntEnum
from string import ascii_letters, digits
from typing import Annotated, NamedTuple

import msgspec

from meantime.errors import UNREADABLE


class TimerState(IntEnum):
    """How a timer stands. The numbers are stored."""

    NOTED = -1
    """Written to Kafka by a node, and not yet counted by the ledger."""
    PENDING = 0
    FIRED = 1
    CANCELLED = 2
    REJECTED = 3
    VOID = 4
    """A cancel whose timer was never requested."""
    ATTEMPTED = 5
    """Not an end: it is about to be published as an event."""

    @property
    def word(self) -> str:
        return "pending" if self is TimerState.NOTED else self.name.lower()


OUTCOMES = frozenset({TimerState.FIRED, TimerState.CANCELLED, TimerState.REJECTED, TimerState.ATTEMPTED})
"""What dispatchers tell of."""


class TimerId(NamedTuple):
    token: str
    second: int


class Future(NamedTuple):
    """What is to be sent: the message of a request, decoded. `headers` go with it: name, value, name, value."""

    topic: str
    key: str
    callback: bytes
    headers: tuple[str, ...] = ()


class Record(NamedTuple):
    """A record of `timer-request` or `timer-due`, as it came from Kafka."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


class SetRequest(NamedTuple):
    """A request to fire. `requested_ms` is when Kafka got it."""

    token: str
    second: int
    future: Future
    requested_ms: int


class CancelRequest(NamedTuple):
    token: str
    second: int
    requested_ms: int


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """A request that is refused, and why. `opaque` when only the message inside it is at fault."""

    token: str
    second: int
    reason: str
    opaque: bool


Request = SetRequest | CancelRequest | RefusedRequest


@dataclass(frozen=True, slots=True)
class NewTimer:
    """A timer that a caller of the API wants to be set."""

    timer: TimerId
    future: Future


@dataclass(frozen=True, slots=True)
class TimerLimits:
    horizon_s: int = 365 * 86_400
    max_callback_bytes: int = 256 * 1024

    @property
    def max_request_bytes(self) -> int:
        """The message with its callback topic and key; more is refused unread."""
        return self.max_callback_bytes + 8192


IN_TOKENS = (digits + ascii_letters + "._:@-").encode()
TOKEN_LENGTHS = frozenset(range(1, 129))
Instant = Annotated[int, msgspec.Meta(ge=0, lt=10**15)]
Second = Annotated[int, msgspec.Meta(ge=0, lt=10**12)]


class TimerOutcomes(msgspec.Struct, frozen=True, array_like=True):
    """One record of `timer-done`: timers that ended in the same way, in one transaction with what it caused."""

    state: TimerState
    at_ms: Instant
    timers: tuple[tuple[Second, tuple[str, ...]], ...]
    """By second, the tokens."""
    reason: Annotated[str, msgspec.Meta(max_length=1000)] = ""
    """Why they were rejected."""


def read_outcomes(value: bytes | None) -> TimerOutcomes | None:
    """A record of `timer-done`; None for one that no dispatcher has written."""
    try:
        outcomes = msgspec.msgpack.decode(value or b"", type=TimerOutcomes)
    except UNREADABLE:
        return None
    good = outcomes.state in OUTCOMES and all(_are_tokens(tokens) for _, tokens in outcomes.timers)
    return outcomes if good else None


def _are_tokens(texts: tuple[str, ...]) -> bool:
    """As `is_identifier` for each; that would take ten times as long as all the rest of reading a record."""
    lengths = set(map(len, texts))
    return not "".join(texts).encode("utf-8", "replace").translate(None, IN_TOKENS) and lengths <= TOKEN_LENGTHS


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """What the ledger knows of a timer."""

    token: str
    second: int
    state: TimerState
    fired_at_ms: int | None = None
    reason: str | None = None
    """Why it was rejected."""
    certain: bool = True
    """Whether that is how it ended. A cancel that was in time by Kafka's clock alone may have come too late by cluster time,
    and then the timer fires all the same."""


@dataclass(frozen=True, slots=True)
class LedgerTotals:
    """The ledger summed up. `difference` is 0 unless something ended twice or was never asked for."""

    requested: int
    fired: int
    cancelled: int
    rejected: int
    pending: int

    @property
    def difference(self) -> int:
        return self.requested - self.fired - self.cancelled - self.rejected - self.pending
