"""The ledger's reading of Kafka: `timer-request` and `timer-done`, each partition by one ledger of the group.

Places are kept in PostgreSQL, not in Kafka, so that they move together with the account.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from meantime.errors import Conflict, StorageUnavailable
from meantime.kafka.settings import ONE_AFTER_THE_OTHER, Storage
from meantime.timers.kafka_topics import record_of, timers_config
from meantime.timers.ledger.account import LedgerBatch, LedgerWriter
from meantime.timers.ledger.store import LedgerStore, Place
from meantime.timers.model import Record, TimerLimits, read_outcomes
from meantime.timers.reports import FuturesReport, LedgerReport
from meantime.timers.topics import DONE, REJECTED, REQUEST

log = structlog.get_logger(__name__)

GROUP = "meantime-ledger"
ANSWER_WITHIN = 15.0
SILENT_AFTER = 60.0
"""A Spark job that has said nothing for so long does not run, and needs no consideration."""


@dataclass(frozen=True, slots=True)
class LedgerOptions:
    limits: TimerLimits
    most: int = 5000
    """Most records at once; one record of `timer-done` holds many timers."""
    wait_for: float = 0.25
    share_of_time: float = 0.8
    """How much of the time may be spent on what has been read: firing comes first."""
    share_in_a_burst: float = 0.1
    """The same while the join has yet to take in more than `burst` requests: that comes first, too."""
    burst: int = 50_000


class LedgerReader:
    """Reads, rejects and writes, again and again."""

    def __init__(self, storage: Storage, ledger: LedgerWriter, store: LedgerStore, options: LedgerOptions) -> None:
        self._ledger = ledger
        self._store = store
        self._options = options
        self._places: dict[Place, int] = {}
        self._ends: dict[Place, int] = {}
        """Where partitions ended when they had been read to the end: marks of transactions lie behind their last records."""
        self._stale = True
        common = timers_config(storage)
        self._consumer = Consumer(
            {
                **common,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "session.timeout.ms": 8_000,
                "partition.assignment.strategy": "range",
                "queued.max.messages.kbytes": 32_768,
                "fetch.wait.max.ms": 1_000,
                "auto.offset.reset": "earliest",
            }
        )
        self._producer = Producer({**common, **ONE_AFTER_THE_OTHER, "linger.ms": 5})

    async def run(self) -> None:
        """For ever."""
        self._consumer.subscribe([REQUEST, DONE], on_assign=self._assigned, on_revoke=self._revoked)
        while True:
            try:
                await self.run_once()
            except (Conflict, StorageUnavailable) as error:
                log.warning("ledger_restarted", error=error.detail)
                self._stale = True
                await asyncio.sleep(0.5)

    async def run_once(self) -> int:
        """Read some, write it down; the number of records."""
        messages = await asyncio.to_thread(self._consumer.consume, self._options.most, self._options.wait_for)
        if self._stale:
            await self._go_to_places()
            return 0
        began = asyncio.get_running_loop().time()
        batch, ends = LedgerBatch(), dict[Place, int]()
        for message in messages:
            error = message.error()
            if error is None:
                self._note(batch, message)
            elif error.code() == KafkaError._PARTITION_EOF:
                ends[_place(message)] = message.offset() or 0
        if batch.places:
            await asyncio.to_thread(self._reject, batch.rejected)
            await self._ledger.write(batch)
            self._places |= {place: next_offset for place, (_, next_offset) in batch.places.items()}
            await self._rest(asyncio.get_running_loop().time() - began, len(messages))
        self._ends |= ends
        return len(messages)

    async def report(self) -> LedgerReport:
        ends = {
            place: self._consumer.get_watermark_offsets(TopicPartition(*place), cached=True)[1] for place in self._places
        }
        read = {place: max(offset, self._ends.get(place, 0)) for place, offset in self._places.items()}
        return LedgerReport(sum(max(0, ends[place] - offset) for place, offset in read.items()))

    def close(self) -> None:
        self._consumer.close()

    def _note(self, batch: LedgerBatch, message: Message) -> None:
        record, place = record_of(message), _place(message)
        if place not in self._places or record.offset < self._places[place]:
            return
        if place[0] == REQUEST:
            batch.note_request(record, self._options.limits)
        else:
            self._note_outcomes(batch, record)
        batch.note_place(place, self._places[place], record.offset + 1)

    @staticmethod
    def _note_outcomes(batch: LedgerBatch, record: Record) -> None:
        outcomes = read_outcomes(record.value)
        if outcomes is None:
            log.warning("outcome_not_understood", topic=DONE, partition=record.partition, offset=record.offset)
        else:
            batch.note_outcomes(outcomes)

    def _assigned(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._stale = True

    def _revoked(self, _: Consumer, __: list[TopicPartition]) -> None:
        self._stale, self._places, self._ends = True, {}, {}

    async def _go_to_places(self) -> None:
        """Start where the tables say, whoever wrote them last."""
        mine: list[Place] = [(place.topic, place.partition) for place in self._consumer.assignment()]
        await self._store.begin_progress(mine)
        known = await self._store.progress()
        self._places, self._ends = {place: known[place] for place in mine}, {}
        for (topic, partition), offset in self._places.items():
            try:
                self._consumer.seek(TopicPartition(topic, partition, offset))
            except KafkaException as error:
                if error.args[0].code() != KafkaError._STATE:
                    raise
                return
        self._stale = False

    def _reject(self, rejected: list[tuple[Record, str]]) -> None:
        for record, reason in rejected:
            headers = [*record.headers, ("reason", reason)]
            self._producer.produce(REJECTED, record.value, record.key, headers=headers)
        if rejected and self._producer.flush(ANSWER_WITHIN):
            raise StorageUnavailable("Kafka does not take rejected requests")

    async def _rest(self, worked_for: float, records: int) -> None:
        if records >= self._options.most // 2:
            busy = await self.join_lag() > self._options.burst
            share = self._options.share_in_a_burst if busy else self._options.share_of_time
            await asyncio.sleep(worked_for * (1 / share - 1))

    async def join_lag(self) -> int:
        """How many requests of our partitions the Spark job has not taken in; none while it does not say how far it is."""
        for said in await self._store.reports(FuturesReport, round((time.time() - SILENT_AFTER) * 1000)):
            if isinstance(said.report, FuturesReport):
                return self._behind(said.report.places)
        return 0

    def _behind(self, reached: Mapping[int, int]) -> int:
        ends = {
            number: self._consumer.get_watermark_offsets(TopicPartition(topic, number), cached=True)[1]
            for topic, number in self._places
            if topic == REQUEST
        }
        return sum(max(0, end - reached.get(number, 0)) for number, end in ends.items())


def _place(message: Message) -> Place:
    return message.topic() or "", message.partition() or 0
