"""What arrives at a dispatcher: its shares of `timer-due`, and all of `timer-request` as it is written.

`timer-due` is shared by a consumer group; `timer-request` is followed by every dispatcher as a whole, because a cancel that
came a second before its timer has no time to go through the Spark job. Where a request lies does not tell whose it is: a
Kafka client puts it where it likes, by its second as a rule. So what is another dispatcher's is read, and passed over by its
token alone.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future as Promise
from contextlib import suppress
from typing import Any

import structlog
from confluent_kafka import OFFSET_END, Consumer, IsolationLevel, KafkaError, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from meantime.errors import StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.timers.dispatching.request_coverage import RequestCoverage
from meantime.timers.kafka_topics import headers_of, record_of, timers_config
from meantime.timers.model import Record
from meantime.timers.rules import share_of
from meantime.timers.topics import DUE, REQUEST

log = structlog.get_logger(__name__)

GROUP = "meantime-dispatcher"
ANSWER_WITHIN = 15.0
LEADERS_WITHIN = 1.0
SESSION_MS = 8_000
FETCHING = {"fetch.queue.backoff.ms": 10, "queued.max.messages.kbytes": 65_536}
"""The client has records ready, and does not rest for a second, as it would, whenever it has enough of them."""
DUE_WAIT_MS, REQUESTS_WAIT_MS = 500, 250
"""Brokers answer at once when there is something. When there is nothing, a client hears so late only where a partition is
new to it, or where it ends with the mark of a transaction."""
NAMING = ("token", "cancel")
"""The headers that name a timer."""
REMEDY = "start `meantime futures` with an empty checkpoint: pending timers come again, and what has ended does not"
_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]

# Naming a method for each of millions of records would cost as much as calling it.
_message: Any = Message
_partition, _offset, _key, _error = _message.partition, _message.offset, _message.key, _message.error

Begin = Callable[[int], int | None]
"""Called with a partition that is now ours; says where to read from, or that it is not to be read."""


class DueConsumer:
    """Our part of `timer-due`. Partitions come and go while `poll` is called."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._consumer = Consumer(
            timers_config(
                storage,
                **{
                    "group.id": GROUP,
                    "group.instance.id": name,
                    "partition.assignment.strategy": "cooperative-sticky",
                    "session.timeout.ms": SESSION_MS,
                    "heartbeat.interval.ms": 1_000,
                    "max.poll.interval.ms": 60_000,
                    "enable.auto.commit": False,
                    "isolation.level": "read_committed",
                    **FETCHING,
                    "fetch.wait.max.ms": DUE_WAIT_MS,
                },
            )
        )

    def subscribe(self, begin: Begin, leave: Callable[[int], None]) -> None:
        """`begin(partition)` says where to start with a new one, `leave(partition)` hears of one that is gone."""

        def assigned(_: Consumer, places: list[TopicPartition]) -> None:
            starts = {place.partition: begin(place.partition) for place in places}
            self._consumer.incremental_assign(
                [TopicPartition(DUE, partition, OFFSET_END if at is None else at) for partition, at in starts.items()]
            )

        def revoked(_: Consumer, places: list[TopicPartition]) -> None:
            for place in places:
                leave(place.partition)

        self._consumer.subscribe([DUE], on_assign=assigned, on_revoke=revoked, on_lost=revoked)

    def poll(self, most: int) -> list[Record]:
        """What has come, if anything."""
        first = self._consumer.poll(0)
        if first is None:
            return []
        return [record_of(message) for message in (first, *self._consumer.consume(most, 0)) if _is_record(message)]

    def span(self, partition: int) -> tuple[int, int]:
        """Where the partition was left, after whoever had it before has finished, or its oldest record; and its end."""
        (place,) = self._consumer.committed([TopicPartition(DUE, partition)], ANSWER_WITHIN)
        if place.error is not None:
            raise KafkaException(place.error)
        low, high = self._consumer.get_watermark_offsets(TopicPartition(DUE, partition), ANSWER_WITHIN)
        if 0 <= place.offset < low:
            # Nobody was there for longer than the topic is kept. The ledger knows these timers to be pending, and the Spark
            # job brings all of them again when it starts without its checkpoint.
            log.error("due_timers_expired", share=partition, records=low - place.offset, remedy=REMEDY)
        return max(int(low), int(place.offset)), int(high)

    def group(self) -> Any:
        """Who we are in the group; a transaction of somebody who has lost his partitions is refused by it."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        self._consumer.close()


class RequestConsumer:
    """All of `timer-request`, from given places on."""

    def __init__(self, storage: Storage) -> None:
        common = timers_config(storage)
        self._admin = AdminClient(common)
        self._consumer = Consumer(
            {
                **common,
                "group.id": f"{GROUP}-requests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                **FETCHING,
                "fetch.wait.max.ms": REQUESTS_WAIT_MS,
                "auto.offset.reset": "earliest",
            }
        )
        self._asking: tuple[int, dict[TopicPartition, Promise[Any]]] | None = None
        self.coverage = RequestCoverage()
        self.partitions = 0

    def start(self, partitions: int, places: Mapping[int, int], otherwise_ms: int) -> None:
        """Follow all partitions from `places`; from an instant where no place is known. Begins anew."""
        self.partitions, self.coverage = partitions, RequestCoverage()
        unknown = [TopicPartition(REQUEST, p, otherwise_ms) for p in range(partitions) if p not in places]
        by_time = self._consumer.offsets_for_times(unknown, ANSWER_WITHIN) if unknown else []
        known = [TopicPartition(REQUEST, p, place) for p, place in places.items() if p < partitions]
        self._consumer.assign([*known, *by_time])
        for place in known:
            self.coverage.reach(place.partition, place.offset)

    def poll(self, most: int, wait_for: float = 0.0) -> Iterator[list[Message]]:
        """What has come, if anything, or what comes first within some seconds; it counts as read when the caller is done
        with it."""
        messages = self._consumer.consume(most, 0)
        if not messages and wait_for and (first := self._consumer.poll(wait_for)) is not None:
            messages = [first, *self._consumer.consume(most, 0)]
        others = [(message, error) for message, error in zip(messages, map(_error, messages), strict=True) if error]
        records = [message for message in messages if message.error() is None] if others else messages
        if records:
            yield records
        # Of each partition the last one stays.
        for partition, offset in dict(zip(map(_partition, records), map(_offset, records), strict=True)).items():
            self.coverage.reach(partition, offset + 1)
        for message, error in others:
            if error.code() == KafkaError._PARTITION_EOF:
                self.coverage.reach(message.partition() or 0, message.offset() or 0)

    def ask_for_ends(self, now_ms: int, not_before_ms: int) -> None:
        """Ask where the partitions end, unless that has been asked at or after `not_before_ms`: the ends must not move on
        while the reading comes nearer to them."""
        if self._asking is None and self.coverage.asked_ms < not_before_ms:
            places = {TopicPartition(REQUEST, partition): _LATEST for partition in range(self.partitions)}
            isolation = IsolationLevel.READ_COMMITTED
            self._asking = now_ms, self._admin.list_offsets(places, isolation_level=isolation, request_timeout=5)

    @property
    def asking(self) -> bool:
        """Whether the ends have been asked for and are not known."""
        return self._asking is not None

    def covered_until(self) -> int:
        """The instant up to which all requests have been read."""
        if self._asking is not None and all(answer.done() for answer in self._asking[1].values()):
            (asked_ms, answers), self._asking = self._asking, None
            try:
                ends = {place.partition: answer.result().offset for place, answer in answers.items()}
            except KafkaException as error:
                log.info("ends_not_known", error=error.args[0].str())
                self._look_for_leaders()
            else:
                self.coverage.set_ends(asked_ms, ends)
        return self.coverage.covered_until()

    def has_grown(self) -> bool:
        """Whether there are more partitions than are followed; not if Kafka does not tell."""
        with suppress(KafkaException):
            return len(self._admin.list_topics(REQUEST, LEADERS_WITHIN).topics[REQUEST].partitions) > self.partitions
        return False

    def _look_for_leaders(self) -> None:
        """The admin client asks whom it knows to lead, and how often a new one had been elected then; once that is out of
        date, it is refused each time and does not look by itself."""
        with suppress(KafkaException):
            self._admin.list_topics(REQUEST, LEADERS_WITHIN)

    def close(self) -> None:
        self._consumer.close()


class RequestFilter:
    """What a dispatcher need not open of all that is requested: timers that are far, and those of others.

    Far ones are by far the most in a burst. They are left to the Spark job, unless they could be cancels. Keys of so many
    digits compare as numbers do; where they are no digits, there is nothing to be missed.
    """

    def __init__(self, shares: int, mine: Collection[int]) -> None:
        self._shares = shares
        self._mine = mine

    def records(self, messages: list[Message], near: int) -> Iterator[Record]:
        """Those that are due until `near`, and cancels, as far as they may be of our shares. A token that is none belongs to
        nobody, and is refused wherever it is looked at."""
        last, shares, mine = b"%d" % near, self._shares, self._mine
        for message, key, size in zip(messages, map(_key, messages), map(len, messages), strict=True):
            if size and key and len(key) == len(last) and key > last:
                continue
            headers = headers_of(message)
            if len(headers) == 1:
                name, token = headers[0]
                if token is not None and name in NAMING and share_of(token, shares) not in mine:
                    continue
            yield record_of(message, headers)


def _is_record(message: Message) -> bool:
    error = message.error()
    if error is None:
        return True
    # What comes with a message says by its code alone that there is no going on.
    if error.fatal() or error.code() == KafkaError._FATAL:
        raise StorageUnavailable(f"timer-due cannot be read: {error.str()}")
    return False
