"""What a client may ask of a stream: how large its batches, how long its life. Contradictions are refused."""

from dataclasses import dataclass
from typing import Final

from meantime.errors import Invalid

FLUSH_FOR: Final = 30
LONGEST_FOR: Final = 4200
LIFE_FOR: Final = 3600.0
LIFE_SPREAD: Final = 600.0
MOST_COMMIT_FOR: Final = 60


@dataclass(frozen=True, slots=True)
class StreamLimits:
    """0 means no limit for `stream_limit` and `keep_alive_limit`."""

    batch_limit: int = 1
    stream_limit: int = 0
    flush_for: float = float(FLUSH_FOR)
    timeout_for: float = LIFE_FOR
    keep_alive_limit: int = 0
    written_at: bool = False
    """Whether lines say when their events were written."""
    eager: bool = False
    """Whether lines wait for nothing: what there is goes out, up to the limit, offset by offset without a gap."""


@dataclass(frozen=True, slots=True)
class GivenLimits:
    """The limits as a client gave them, in whole seconds; None and 0 ask for the default."""

    batch_limit: int | None = None
    stream_limit: int | None = None
    batch_flush_timeout: int | None = None
    stream_timeout: int | None = None
    stream_keep_alive_limit: int | None = None
    written_at: bool = False
    eager: bool = False


def stream_limits(given: GivenLimits, spread: float) -> StreamLimits:
    """The limits in force. A stream that sets no timeout lives for an hour, more or less: `spread` is between -1 and 1."""
    _not_negative(given)
    batch_limit = 1 if given.batch_limit is None else given.batch_limit
    stream_limit = given.stream_limit or 0
    timeout = given.stream_timeout or 0
    if batch_limit < 1:
        raise Invalid("batch_limit can't be lower than 1")
    if 0 < stream_limit < batch_limit:
        raise Invalid("stream_limit can't be lower than batch_limit")
    if given.batch_flush_timeout and 0 < timeout < given.batch_flush_timeout:
        raise Invalid("stream_timeout can't be lower than batch_flush_timeout")
    timeout_for = timeout if 0 < timeout <= LONGEST_FOR else LIFE_FOR + LIFE_SPREAD * spread
    return StreamLimits(
        batch_limit=batch_limit,
        stream_limit=stream_limit,
        flush_for=float(min(given.batch_flush_timeout or FLUSH_FOR, timeout_for)),
        timeout_for=float(timeout_for),
        keep_alive_limit=given.stream_keep_alive_limit or 0,
        written_at=given.written_at,
        eager=given.eager,
    )


def _not_negative(given: GivenLimits) -> None:
    for name in given.__slots__:
        if (getattr(given, name) or 0) < 0:
            raise Invalid(f"{name} can't be negative")


def commit_timeout(seconds: int | None) -> float:
    """How long a reader may take to commit; 0 asks for the longest that is allowed."""
    seconds = MOST_COMMIT_FOR if seconds is None else seconds
    if not 0 <= seconds <= MOST_COMMIT_FOR:
        raise Invalid(f"commit_timeout has to be between 0 and {MOST_COMMIT_FOR} seconds")
    return float(seconds or MOST_COMMIT_FOR)


def max_uncommitted(events: int | None) -> int:
    events = 10 if events is None else events
    if events < 1:
        raise Invalid("max_uncommitted_events can't be lower than 1")
    return events
