"""What lies in the topics `<app>.retry` and `<app>.dead`: a message on its way back to its job, and one that is not tried
any more. A dead letter can be sent back; it then is a retry that counts from the first attempt again."""

from typing import Any

import msgspec

from meantime.errors import UNREADABLE
from meantime.workers.app import Message
from meantime.workers.model import QueueSource

LARGEST_BODY = 4 << 20
"""Room for the largest event and its history."""


class PastAttempt(msgspec.Struct, frozen=True):
    attempt: int
    error: str
    failed_at_ms: int


class RetryBody(msgspec.Struct, frozen=True, kw_only=True):
    """A message on its way back to its job."""

    event: Any
    event_type: str
    partition: str
    cursor: str
    written_at_ms: int
    attempt: int
    history: list[PastAttempt] = []

    @property
    def message(self) -> Message:
        return Message(self.event, self.event_type, self.partition, self.cursor, self.written_at_ms, self.attempt)


class DeadBody(msgspec.Struct, frozen=True, kw_only=True):
    """A message that is not tried any more, and why."""

    event: Any
    event_type: str
    partition: str
    cursor: str
    error: str
    traceback: str
    attempts: int
    written_at_ms: int = 0
    history: list[PastAttempt] = []


def retry_topic(app: str) -> str:
    return f"{app}.retry"


def dead_topic(app: str) -> str:
    return f"{app}.dead"


def letter_id(event_type: str, partition: str, cursor: str) -> str:
    """The natural id of a message: its queue and its place there."""
    return f"{QueueSource(event_type, partition).queue}:{cursor}"


def retry_id(event_type: str, partition: str, cursor: str, attempt: int) -> str:
    return f"{letter_id(event_type, partition, cursor)}:{attempt}"


class _UntouchedLetter(DeadBody, frozen=True, kw_only=True):
    event: msgspec.Raw


def sent_back(body: bytes) -> tuple[str, bytes] | None:
    """The id and the body of the retry that a dead letter becomes, its event as it was; None for what is no dead letter."""
    try:
        letter = msgspec.json.decode(body, type=_UntouchedLetter)
    except UNREADABLE:
        return None
    again = RetryBody(
        event=letter.event,
        event_type=letter.event_type,
        partition=letter.partition,
        cursor=letter.cursor,
        written_at_ms=letter.written_at_ms or min((past.failed_at_ms for past in letter.history), default=0),
        attempt=1,
        history=letter.history,
    )
    return retry_id(letter.event_type, letter.partition, letter.cursor, 1), msgspec.json.encode(again)
