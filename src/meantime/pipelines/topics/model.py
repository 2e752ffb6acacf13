"""What writing to a topic is made of: a sink that takes messages, and how many became what."""

from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from meantime.topics.model import NewMessage


class Tally(msgspec.Struct, frozen=True):
    """How many messages were created, existed already, were refused."""

    created: int = 0
    exists: int = 0
    rejected: int = 0

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(self.created + other.created, self.exists + other.exists, self.rejected + other.rejected)


class Reject(msgspec.Struct, frozen=True):
    """A row that was refused as it came, where it stood, and why."""

    place: str
    row: dict[str, Any]
    error: str


class TopicSink(Protocol):
    """Writes messages to one topic."""

    chunk: int
    """How many messages it takes at a time."""
    refused: list[Reject]
    """What it was not allowed to write."""

    def write(self, messages: Sequence[NewMessage]) -> Tally:
        """Ids must be distinct."""
        ...
