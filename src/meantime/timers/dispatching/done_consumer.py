"""Which timers of a partition have ended, read from `timer-done` when the partition comes to this dispatcher.

It is read after Kafka has settled whatever the previous owner had begun, so it is complete. The window counts back from the
last thing that ended, not from now: while nobody fired, nothing is missing.
"""

from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from meantime.errors import StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.timers.dispatching.ended_timers import EndedTimers
from meantime.timers.kafka_topics import timers_config
from meantime.timers.model import TimerOutcomes, read_outcomes
from meantime.timers.topics import DONE

ANSWER_WITHIN = 15.0
SKEW_MS = 2_000
"""Producers' clocks may differ by so much from cluster time."""


class DoneConsumer:
    def __init__(self, storage: Storage) -> None:
        self._consumer = Consumer(
            timers_config(
                storage,
                **{
                    "group.id": "meantime-dispatcher-memory",
                    "enable.auto.commit": False,
                    "enable.partition.eof": True,
                    # The end is told by an empty answer; do not wait long for it.
                    "fetch.wait.max.ms": 10,
                    "isolation.level": "read_committed",
                },
            )
        )

    def rebuild(self, share: int, remember_ms: int, now_ms: int) -> tuple[EndedTimers, int]:
        """The timers that have ended, and the offset of `timer-done` from which on they are complete."""
        place = TopicPartition(DONE, share)
        low, high = self._consumer.get_watermark_offsets(place, ANSWER_WITHIN)
        newest_ms = self._newest_ms(share, low, high)
        if newest_ms is None:
            return EndedTimers(0 if low == 0 else now_ms), low
        start = self._since(share, newest_ms - remember_ms, low)
        ended_timers = EndedTimers(0 if start == 0 else newest_ms - remember_ms + SKEW_MS)
        for outcomes in self._read(share, start):
            ended_timers.add_outcomes(outcomes)
        return ended_timers, start

    def _newest_ms(self, share: int, low: int, high: int) -> int | None:
        """When the last timer ended. Looks back from the end, further and further: transactions take offsets, too."""
        back = 50
        while high > low:
            start = max(low, high - back)
            instants = [outcomes.at_ms for outcomes in self._read(share, start)]
            if instants or start == low:
                return max(instants, default=None)
            back *= 10
        return None

    def _since(self, share: int, at_ms: int, low: int) -> int:
        (place,) = self._consumer.offsets_for_times([TopicPartition(DONE, share, max(0, at_ms))], ANSWER_WITHIN)
        return max(low, place.offset)

    def _read(self, share: int, start: int) -> Iterator[TimerOutcomes]:
        self._consumer.assign([TopicPartition(DONE, share, start)])
        while True:
            message = self._consumer.poll(ANSWER_WITHIN)
            if message is None:
                raise StorageUnavailable("Kafka does not let timer-done be read")
            error = message.error()
            if error is None:
                outcomes = read_outcomes(message.value())
                if outcomes is not None:
                    yield outcomes
            elif error.code() == KafkaError._PARTITION_EOF:
                self._consumer.unassign()
                return
            elif not error.retriable():
                raise KafkaException(error)

    def close(self) -> None:
        self._consumer.close()
