"""A batch of events on its way into a topic, and what becomes of each of them.

    WRITTEN  the storage has it, under acks=all
    REFUSED  the storage does not have it and never will: the topic is sealed, or the event is too large for it
    MISSING  the storage does not have it, because it has no such topic (any more)
    FAILED   nobody knows: it timed out, or the connection broke in between. A refusal counts as FAILED when there was
             any trouble with the connection meanwhile, since it may answer a repetition of a write that had succeeded

Reports come one by one and are only counted; which event failed is worked out afterwards, and only if one did.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from enum import Enum
from typing import Protocol

import msgspec
from confluent_kafka import KafkaError, Message

_MISSING = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_REFUSALS = _MISSING | {KafkaError.MSG_SIZE_TOO_LARGE}
_COUNTED_AT_ONCE = 20_000


Reports = Mapping[int, Callable[[KafkaError | None, Message], None]]
"""Who hears of what was written, for each partition."""


class Records(msgspec.Struct, frozen=True):
    """A batch ready to be written, in the publisher's order. `keys` is empty where records have none."""

    values: list[bytes]
    partitions: Sequence[int]
    keys: Sequence[bytes | None]
    size: int
    """Bytes of all values."""
    counts: Mapping[int, int]
    """How many go to each partition."""

    @classmethod
    def of(cls, values: list[bytes], partitions: Sequence[int], keys: Sequence[bytes | None] = ()) -> "Records":
        if len(values) == 1:
            return cls(values, partitions, keys, len(values[0]), {partitions[0]: 1})
        return cls(values, partitions, keys, sum(map(len, values)), Counter(partitions))

    @classmethod
    def in_steps(
        cls, values: list[bytes], partitions: Sequence[int], keys: Sequence[bytes | None]
    ) -> Generator[None, None, "Records"]:
        """The same for very many; yields every now and then."""
        size, counts = 0, Counter[int]()
        for first in range(0, len(values), _COUNTED_AT_ONCE):
            size += sum(map(len, values[first : first + _COUNTED_AT_ONCE]))
            counts.update(partitions[first : first + _COUNTED_AT_ONCE])
            yield
        return cls(values, partitions, keys, size, counts)

    def select(self, indices: Sequence[int]) -> "Records":
        return Records.of(
            [self.values[index] for index in indices],
            [self.partitions[index] for index in indices],
            [self.keys[index] for index in indices] if self.keys else (),
        )


class BatchProducer(Protocol):
    """The producer that carries a batch; `disturbances` counts its troubles with connections."""

    disturbances: int

    def release(self, size: int) -> None: ...


class RecordOutcome(Enum):
    WRITTEN = "written"
    REFUSED = "refused"
    MISSING = "missing"
    FAILED = "failed"


class RecordBatch:
    """Events on their way to one topic. `done` is set when each has its outcome; until then all count as FAILED."""

    __slots__ = (
        "_all_groups",
        "_disowned",
        "_disturbances",
        "_left",
        "_partitions",
        "_producer",
        "_size",
        "_values",
        "clean",
        "done",
        "groups",
        "offsets",
    )

    def __init__(self, producer: BatchProducer, records: Records, done: "asyncio.Future[None]") -> None:
        self.done = done
        self.clean = False
        """Every event is written."""
        self.offsets: dict[int, int] = {}
        """The last offset that was acknowledged in each partition."""
        self.groups = {partition: PartitionReports(self, partition, count) for partition, count in records.counts.items()}
        self._producer = producer
        self._disturbances = producer.disturbances
        self._values = records.values
        self._partitions = records.partitions
        self._size = records.size
        self._left = len(self.groups)
        self._all_groups = self.groups
        self._disowned: str | None = None

    def reports(self) -> Reports:
        return {partition: group.on_delivery for partition, group in self.groups.items()}

    def group_done(self, partition: int, offset: int | None) -> None:
        self._left -= 1
        if not self._left:
            self._producer.release(self._size)
        if self.done.done():
            return
        if offset is not None:
            self.offsets[partition] = offset
        if not self._left:
            self.clean = not any(group.failures for group in self.groups.values())
            self.done.set_result(None)

    @property
    def in_vain(self) -> bool:
        """An event has failed, and not because the storage refuses it: the rest need not be tried."""
        last = (group.failures[-1][1] for group in self._all_groups.values() if group.failures)
        return any(error.code() not in _REFUSALS for error in last)

    @property
    def reported(self) -> int:
        """How many have their outcome."""
        return len(self._values) - sum(group.left for group in self._all_groups.values())

    def refuse_from(self, first: int, error: KafkaError) -> None:
        """The client took the events before this one, and was not given those after it."""
        for value, partition in zip(self._values[first:], self._partitions[first:], strict=True):
            self._all_groups[partition].refused(value, error)

    def abandon(self) -> None:
        """Wait no longer. Nothing of it will ever be said to be written, also not what has been reported already: who
        abandons a batch counts on what was acknowledged until now."""
        if not self.done.done():
            self.groups, self.offsets = {}, {}
            self.done.set_result(None)

    def disown(self, why: str) -> None:
        """What was written may lie beyond the end of its timeline, where nobody will ever read it."""
        self.clean, self._disowned = False, why

    def results(self) -> tuple[list[RecordOutcome], dict[int, str]]:
        """What became of each event, with what was said about those that were not written."""
        outcomes, details = [RecordOutcome.FAILED] * len(self._values), dict[int, str]()
        for group in self.groups.values():
            if group.complete:
                self._tell(group, outcomes, details)
        if self._disowned is not None:
            written = [index for index, outcome in enumerate(outcomes) if outcome is RecordOutcome.WRITTEN]
            details |= dict.fromkeys(written, self._disowned)
            outcomes = [RecordOutcome.FAILED if outcome is RecordOutcome.WRITTEN else outcome for outcome in outcomes]
        return outcomes, details

    def _tell(self, group: "PartitionReports", outcomes: list[RecordOutcome], details: dict[int, str]) -> None:
        """A report does not say which event it is about, but its bytes do. Of equal ones the last are taken to have failed,
        since a seal lets the first pass."""
        by_value: dict[bytes, list[int]] = {}
        for index, partition in enumerate(self._partitions):
            if partition == group.partition:
                outcomes[index] = RecordOutcome.WRITTEN
                by_value.setdefault(self._values[index], []).append(index)
        for value, error in group.failures:
            index = by_value[value].pop()
            outcomes[index] = self._outcome(error.code())
            details[index] = error.str()

    def _outcome(self, code: int) -> RecordOutcome:
        if code in _MISSING:
            return RecordOutcome.MISSING
        if code == KafkaError.MSG_SIZE_TOO_LARGE and self._disturbances == self._producer.disturbances:
            return RecordOutcome.REFUSED
        return RecordOutcome.FAILED


class PartitionReports:
    """The events of a batch that go to one partition, and the reports about them."""

    __slots__ = ("_batch", "_last", "failures", "left", "partition")

    def __init__(self, batch: RecordBatch, partition: int, count: int) -> None:
        self.partition = partition
        self.failures: list[tuple[bytes, KafkaError]] = []
        self._batch: RecordBatch | None = batch
        self.left = count
        self._last: Message | None = None

    @property
    def complete(self) -> bool:
        return not self.left

    def on_delivery(self, error: KafkaError | None, message: Message) -> None:
        """A report. Written events are reported in order, so the last of them has the last offset. Of one without an offset
        no broker has said that it was written: the client concludes that from what became of later ones."""
        if error is None and (message.offset() or 0) < 0:
            error = KafkaError(KafkaError._FAIL, "acknowledged without an offset; the event may have been written")
        if error is not None:
            self.refused(message.value() or b"", error)
            return
        self._last = message
        self.left -= 1
        if not self.left:
            self._end()

    def refused(self, value: bytes, error: KafkaError) -> None:
        self.failures.append((value, error))
        self.left -= 1
        if not self.left:
            self._end()

    def _end(self) -> None:
        """The batch is let go, so that both are gone with their last reader and leave nothing to the garbage collector."""
        batch, self._batch = self._batch, None
        if batch is not None:
            batch.group_done(self.partition, None if self._last is None else self._last.offset())
