"""Firing: callbacks, how their timers ended, and how far `timer-due` has been dealt with, in one Kafka transaction.

Readers with `isolation.level=read_committed` see all of it or nothing. A transaction of a dispatcher that has lost its
partitions, or that has been started a second time under its name, is refused by Kafka as a whole.

A batch may be loaded before its second: everything lies ready in Kafka's client, which sends nothing before it is told to,
and that is at the second. Its records bear the instant at which they are let go. One that is too large to be loaded by then
leaves in parts, while the rest is being loaded.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, groupby, islice
from operator import attrgetter
from typing import Any, NoReturn

import msgspec
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from meantime.clock import Clock
from meantime.errors import StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.timers.dispatching.held_timers import HeldTimer
from meantime.timers.future import encode
from meantime.timers.kafka_topics import timers_config
from meantime.timers.model import TimerOutcomes, TimerState
from meantime.timers.topics import DONE, DUE, REJECTED

log = structlog.get_logger(__name__)

CHUNK = 500
"""Timers that are given the same instant; it is read just before they are handed to Kafka's client."""
LET_GO_EVERY, LET_GO_FOR = 10_000, 0.005
"""After its second so many timers of a batch are loaded, and then those that are loaded have so long to get under way."""
OUTCOMES_A_RECORD = 2000
LONGEST_REASON = 500
ANSWER_WITHIN = 20.0
MOST_LOADED = 500_000
"""Timers that can wait in Kafka's client for their second. With a million for one partition it would begin to send."""
LINGER_MS = 10_000
"""How long Kafka's client waits for more to send: longer than anything is loaded ahead, less than a transaction may take."""

Headers = list[tuple[str, str | bytes | None]]

UNDELIVERABLE = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_MSG,
        KafkaError.INVALID_TIMESTAMP,
        KafkaError.POLICY_VIOLATION,
    }
)


class TransactionAborted(Exception):
    """Nothing was written; try again."""


class Undeliverable(Exception):
    """Nothing was written, because topics refuse callbacks: `reasons` by topic."""

    def __init__(self, reasons: Mapping[str, str]) -> None:
        super().__init__(", ".join(f"{topic}: {reason}" for topic, reason in reasons.items()))
        self.reasons = reasons


@dataclass(slots=True)
class OutcomeBatch:
    """What goes out in one transaction."""

    fire: list[HeldTimer] = field(default_factory=list)
    cancelled: list[HeldTimer] = field(default_factory=list)
    rejected: list[tuple[HeldTimer, str]] = field(default_factory=list)
    fired_elsewhere: list[HeldTimer] = field(default_factory=list)
    """Published as events."""
    attempt: list[HeldTimer] = field(default_factory=list)
    """About to be published as events; this does not end them."""
    reminded: list[HeldTimer] = field(default_factory=list)
    """They were about to be, and it is not known yet whether they are."""

    def __bool__(self) -> bool:
        return bool(self.fire or self.cancelled or self.rejected or self.fired_elsewhere or self.attempt)

    def add(self, other: "OutcomeBatch") -> None:
        self.fire += other.fire
        self.cancelled += other.cancelled
        self.rejected += other.rejected
        self.fired_elsewhere += other.fired_elsewhere
        self.attempt += other.attempt

    def without(self, share: int) -> "OutcomeBatch":
        return OutcomeBatch(
            [held for held in self.fire if held.share != share],
            [held for held in self.cancelled if held.share != share],
            [(held, reason) for held, reason in self.rejected if held.share != share],
            [held for held in self.fired_elsewhere if held.share != share],
            [held for held in self.attempt if held.share != share],
        )

    @property
    def ends(self) -> Iterator[HeldTimer]:
        """The timers that end with it."""
        yield from self.fire
        yield from self.cancelled
        yield from self.fired_elsewhere
        yield from (held for held, _ in self.rejected)


@dataclass(frozen=True, slots=True)
class FiredTimers:
    """Timers that were handed to Kafka at one instant."""

    at_ms: int
    timers: Sequence[HeldTimer]


class FiringTransaction:
    def __init__(self, storage: Storage, name: str, clock: Clock, max_bytes: int) -> None:
        self._clock = clock
        self._release_ms = 0
        self._reasons: dict[str, str] = {}
        self._settings = timers_config(
            storage,
            **{
                "transactional.id": f"meantime-dispatcher-{name}",
                "transaction.timeout.ms": 15_000,
                # Nothing leaves before the commit or a flush, whatever has been handed over.
                "linger.ms": LINGER_MS,
                "batch.num.messages": 1_000_000,
                "batch.size": 2_147_483_647,
                "compression.type": "lz4",
                "queue.buffering.max.messages": 2_000_000,
                "queue.buffering.max.kbytes": 1_048_576,
                "message.max.bytes": max(1_000_000, max_bytes),
                "topic.metadata.propagation.max.ms": 1_000,
                "delivery.report.only.error": True,
                "on_delivery": self._note_failure,
            },
        )
        self._producer = Producer(self._settings)

    def open(self) -> None:
        """Fences an earlier dispatcher of the same name and ends what it had begun."""
        self._retried(lambda: self._producer.init_transactions(ANSWER_WITHIN))

    def close(self) -> None:
        self._producer.purge()
        self._producer.flush(1.0)

    def fire(self, batch: OutcomeBatch, positions: Mapping[int, int], group: Any) -> list[FiredTimers]:
        """All or nothing, and nothing before its second; returns what was fired when."""
        self._reasons.clear()
        self._release_ms = max((held.second for held in chain(batch.ends, batch.attempt)), default=0) * 1000
        if len(batch.fire) > MOST_LOADED:
            self._wait()
        try:
            self._producer.begin_transaction()
            fired = self._call_back(batch.fire)
            self._record(batch, fired)
            places = [TopicPartition(DUE, share, position) for share, position in positions.items()]
            if places:
                self._retried(lambda: self._producer.send_offsets_to_transaction(places, group, ANSWER_WITHIN))
            self._wait()
            self._retried(lambda: self._producer.commit_transaction(ANSWER_WITHIN))
        except KafkaException as error:
            self._give_up(error.args[0])
        return fired

    def _wait(self) -> None:
        """Until what is loaded may leave."""
        while (early_ms := self._release_ms - self._clock.now_ms()) > 0:
            time.sleep(early_ms / 1000)

    def _call_back(self, timers: list[HeldTimer]) -> list[FiredTimers]:
        produce, now_ms = self._producer.produce, self._clock.now_ms
        fired = []
        second, due = 0, ("timer-due", "0")
        for start in range(0, len(timers), CHUNK):
            chunk = timers[start : start + CHUNK]
            at_ms = max(now_ms(), self._release_ms)
            for held in chunk:
                topic, key, callback, more = held.future
                if held.second != second:
                    second, due = held.second, ("timer-due", str(held.second))
                headers: Headers = [("timer-token", held.token), due]
                if more:
                    headers += zip(more[::2], more[1::2], strict=False)
                try:
                    produce(topic, callback, key, headers=headers, timestamp=at_ms)
                except (BufferError, KafkaException):
                    self._produce(topic, callback, key, headers=headers, timestamp=at_ms)
            fired.append(FiredTimers(at_ms, chunk))
            if at_ms > self._release_ms and (start + CHUNK) % LET_GO_EVERY == 0:
                self._producer.flush(LET_GO_FOR)
        return fired

    def _record(self, batch: OutcomeBatch, fired: list[FiredTimers]) -> None:
        now_ms = max(self._clock.now_ms(), self._release_ms)
        for one in fired:
            self._record_outcome(TimerState.FIRED, one.at_ms, one.timers)
        self._record_outcome(TimerState.FIRED, now_ms, batch.fired_elsewhere)
        self._record_outcome(TimerState.ATTEMPTED, now_ms, batch.attempt + batch.reminded)
        self._record_outcome(TimerState.CANCELLED, now_ms, batch.cancelled)
        for reason in dict.fromkeys(reason for _, reason in batch.rejected):
            refused = [held for held, why in batch.rejected if why == reason]
            self._record_outcome(TimerState.REJECTED, now_ms, refused, reason)
        for held, reason in batch.rejected:
            headers = [("token", held.token), ("reason", reason)]
            self._produce(REJECTED, encode(held.future), str(held.second), headers=headers)

    def _record_outcome(self, state: TimerState, at_ms: int, timers: Sequence[HeldTimer], reason: str = "") -> None:
        for share, of_share in groupby(sorted(timers, key=attrgetter("share")), attrgetter("share")):
            while some := list(islice(of_share, OUTCOMES_A_RECORD)):
                outcomes = TimerOutcomes(state, at_ms, _by_second(some), reason[:LONGEST_REASON])
                self._produce(DONE, msgspec.msgpack.encode(outcomes), partition=share)

    def _produce(self, topic: str, value: bytes, key: str | None = None, **more: Any) -> None:
        while True:
            try:
                self._producer.produce(topic, value, key, **more)
                return
            except BufferError:
                self._wait()
                self._producer.flush(0.05)
            except KafkaException as error:
                if error.args[0].code() in UNDELIVERABLE:
                    self._reasons[topic] = error.args[0].str()
                raise

    def _note_failure(self, error: KafkaError | None, message: Message) -> None:
        if error is not None and error.code() in UNDELIVERABLE:
            self._reasons[message.topic() or ""] = error.str()

    def _give_up(self, error: KafkaError) -> NoReturn:
        if error.fatal():
            raise StorageUnavailable(f"this dispatcher was replaced: {error.str()}")
        self._retried(lambda: self._producer.abort_transaction(ANSWER_WITHIN))
        self._producer.poll(0)
        if self._reasons:
            self._renew()
            raise Undeliverable(dict(self._reasons))
        raise TransactionAborted(error.str())

    def _renew(self) -> None:
        """After a record was refused, Kafka's client goes on with numbers that the partition does not expect, and the next
        transaction would fail for no fault of its own."""
        self.close()
        self._producer = Producer(self._settings)
        self.open()

    @staticmethod
    def _retried(call: Callable[[], object]) -> None:
        """Kafka's client says which calls may be made again as they are."""
        deadline = time.monotonic() + 3 * ANSWER_WITHIN
        while True:
            try:
                call()
                return
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
                log.info("kafka_is_asked_again", error=error.args[0].str())
            time.sleep(0.05)


def _by_second(timers: Iterable[HeldTimer]) -> tuple[tuple[int, tuple[str, ...]], ...]:
    seconds: dict[int, list[str]] = {}
    for held in timers:
        seconds.setdefault(held.second, []).append(held.token)
    return tuple((second, tuple(tokens)) for second, tokens in seconds.items())
