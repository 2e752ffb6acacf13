"""What schedules need of topics and timers. Slices do not know each other, so a node joins them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from meantime.schedules.model import ScheduleTarget


@dataclass(frozen=True, slots=True)
class TopicPlace:
    """Where the messages of a topic lie."""

    topic_id: int
    bucket_count: int
    max_body_bytes: int


@dataclass(frozen=True, slots=True)
class ArrivedMessage:
    id: str
    bucket_id: int
    at_ms: int


class MessageTopics(Protocol):
    async def find(self, topic: str) -> TopicPlace | None:
        """None when there is no such topic."""
        ...

    def check_producer(self, topic: str, group: str) -> None:
        """Raise `Forbidden` for a topic that takes no messages of this group."""
        ...

    def bucket_of(self, message_id: str, bucket_count: int) -> int: ...

    def arrived(self, topic_id: int, messages: Sequence[ArrivedMessage]) -> None:
        """Wake whoever gives out messages of this topic."""
        ...


@dataclass(frozen=True, slots=True)
class ScheduledTimer:
    """A firing as a timer; `second` is the first that is not before its instant."""

    token: str
    second: int
    target: ScheduleTarget
    body: bytes
    schedule_id: str
    version: int
    at_ms: int


class TimerTargets(Protocol):
    async def check(self, timer: ScheduledTimer) -> None:
        """Raise `Invalid`, which names the field, when this could not be called back."""
        ...

    async def set(self, timers: Sequence[ScheduledTimer]) -> None:
        """Returns when Kafka has them all."""
        ...

    async def cancel(self, token: str, second: int) -> bool:
        """Whether it will not fire; False when it has. Raises `Unavailable` when that is not known."""
        ...
