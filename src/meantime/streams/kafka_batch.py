"""A batch of events on its way into a topic, and what becomes of each of them.

    WRITTEN  the storage has it, under acks=all
    REFUSED  the storage does not have it and never will: the topic is sealed, or the event is too large for it
    MISSING  the storage does not have it, because it has no such topic (any more)
    FAILED   nobody knows: it timed out, or the connection broke in between. A refusal counts as FAILED when there was
             any trouble with the connection meanwhile, since it may answer a repetition of a write that had succeeded

Reports come one by one and are only counted; which event failed is worked out afterwards, and only if one did.
"""

import asyncio
from enum import Enum
from typing import Any, Protocol

from confluent_kafka import KafkaError, Message

_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})


class Carrier(Protocol):
    """The producer that carries a batch; `disturbances` counts its troubles with connections."""

    disturbances: int

    def release(self, size: int) -> None: ...


class Outcome(Enum):
    WRITTEN = "written"
    REFUSED = "refused"
    MISSING = "missing"
    FAILED = "failed"


class Batch:
    """Events on their way to one topic. `done` is set when each has its outcome; until then all count as FAILED."""

    __slots__ = ("_count", "_disowned", "_groups", "_left", "_producer", "_size", "clean", "done", "offsets")

    def __init__(self, producer: Carrier, groups: "list[Group]", count: int, size: int) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.clean = False
        """Every event is written."""
        self.offsets: dict[int, int] = {}
        """The last offset that was acknowledged in each partition."""
        self._producer = producer
        self._groups = groups
        self._count = count
        self._size = size
        self._left = len(groups)
        self._disowned: str | None = None

    def group_done(self, partition: int, offset: int | None) -> None:
        self._left -= 1
        if not self._left:
            self._producer.release(self._size)
        if self.done.done():
            return
        if offset is not None:
            self.offsets[partition] = offset
        if not self._left:
            self.clean = not any(group.failures for group in self._groups)
            self.done.set_result(None)

    def abandon(self) -> None:
        """Wait no longer. Nothing of it will ever be said to be written, also not what has been reported already: who
        abandons a batch counts on what was acknowledged until now."""
        if not self.done.done():
            self._groups, self.offsets = [], {}
            self.done.set_result(None)

    def disown(self, why: str) -> None:
        """What was written may lie beyond the end of its timeline, where nobody will ever read it."""
        self.clean, self._disowned = False, why

    def results(self) -> tuple[list[Outcome], dict[int, str]]:
        """What became of each event, with what was said about those that were not written."""
        outcomes, details = [Outcome.FAILED] * self._count, dict[int, str]()
        for group in self._groups:
            group.tell(outcomes, details)
        if self._disowned is not None:
            written = [index for index, outcome in enumerate(outcomes) if outcome is Outcome.WRITTEN]
            details |= dict.fromkeys(written, self._disowned)
            outcomes = [Outcome.FAILED if outcome is Outcome.WRITTEN else outcome for outcome in outcomes]
        return outcomes, details


class Group:
    """The events of a batch that go to one partition, and the reports about them."""

    __slots__ = ("_disturbances", "_indices", "_left", "_offset", "_producer", "batch", "failures", "messages", "partition")

    def __init__(self, producer: Carrier, partition: int) -> None:
        self.batch: Batch | None = None
        self.partition = partition
        self.messages: list[dict[str, Any]] = []
        self.failures: list[tuple[bytes, KafkaError]] = []
        self._producer = producer
        self._disturbances = producer.disturbances
        self._indices: list[int] = []
        self._left = 0
        self._offset: int | None = None

    def add(self, index: int, message: dict[str, Any]) -> None:
        self._indices.append(index)
        self.messages.append(message)
        self._left += 1

    def heard(self, error: KafkaError | None, message: Message) -> None:
        """A report. Written events are reported in order, so the last report has the last offset, unless some failed."""
        self._left -= 1
        if error is not None:
            self.failures.append((message.value() or b"", error))
        elif not self._left or self.failures:
            self._offset = message.offset()
        if not self._left:
            assert self.batch is not None
            self.batch.group_done(self.partition, self._offset)

    def refuse(self, messages: list[dict[str, Any]], error: KafkaError) -> None:
        """The client would not take these."""
        self.failures += [(message["value"], error) for message in messages]
        self._left -= len(messages)
        if not self._left:
            assert self.batch is not None
            self.batch.group_done(self.partition, self._offset)

    def tell(self, outcomes: list[Outcome], details: dict[int, str]) -> None:
        """A report does not say which event it is about, but its bytes do. Of equal ones the last are taken to have failed,
        since a seal lets the first pass."""
        if self._left:
            return
        for index in self._indices:
            outcomes[index] = Outcome.WRITTEN
        by_value: dict[bytes, list[int]] = {}
        for index, message in zip(self._indices, self.messages, strict=True):
            by_value.setdefault(message["value"], []).append(index)
        for value, error in self.failures:
            index = by_value[value].pop()
            outcomes[index] = self._outcome(error.code())
            details[index] = error.str()

    def _outcome(self, code: int) -> Outcome:
        if code in _MISSING:
            return Outcome.MISSING
        if code == KafkaError.MSG_SIZE_TOO_LARGE and self._disturbances == self._producer.disturbances:
            return Outcome.REFUSED
        return Outcome.FAILED
