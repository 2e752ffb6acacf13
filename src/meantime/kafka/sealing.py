"""Sealing a topic: from then on its storage refuses every write, whoever sends it and whatever they believe.

The seal is the topic's own `max.message.bytes`, set to a value below every record. That a partition is sealed is proved by a
probe that can never be stored: a record from the far future is refused with INVALID_TIMESTAMP while the topic is open and
with MSG_SIZE_TOO_LARGE once it is sealed, because the size is looked at first. Topics made here refuse such records from
the start; an adopted one that would take them is told to refuse them while the switch is prepared.
"""

import asyncio
import time
from collections.abc import Mapping, Sequence

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from meantime.errors import StorageUnavailable
from meantime.kafka.admin import Admin, Settings
from meantime.kafka.settings import Storage, client_config

log = structlog.get_logger(__name__)

SIZE_LIMIT = "max.message.bytes"
SEALED_BYTES = "0"
OPEN_AGAIN: dict[str, str | None] = {SIZE_LIMIT: None}

TIMESTAMP_TYPE = "message.timestamp.type"
TIMESTAMP_LIMIT = "message.timestamp.after.max.ms"
REFUSES_THE_FUTURE = {TIMESTAMP_TYPE: "CreateTime", TIMESTAMP_LIMIT: "3600000"}
"""Settings that every topic made here has, so that a probe is never stored."""

_AHEAD_MS = 180 * 24 * 3600 * 1000
_PROVE_FOR = 5.0
_OPEN_WITHIN = 5.0
_REACHES_BROKERS_WITHIN = 1.0
_OUT_OF_RANGE_WITHIN = 1.0


class Sealer:
    """Seals and proves topics of one storage."""

    def __init__(self, admin: Admin) -> None:
        self.admin = admin
        self._producer: Producer | None = None

    async def survey(self, topic: str) -> dict[str, str | None]:
        """The topic's own settings that a seal would change, to be put back if the switch fails. A seal that is still there
        is none of them: put back, it would stay for ever."""
        settings = await self.admin.topic_settings(topic)
        own = {name: settings[name][0] if settings[name][1] else None for name in _changes(settings)}
        return own | OPEN_AGAIN if own[SIZE_LIMIT] == SEALED_BYTES else own

    async def make_probeable(self, topic: str) -> None:
        """Tell a topic that would store a probe to refuse it, well before the first one is sent: a change reaches the
        brokers some time after it was accepted, and none of them says when."""
        if await self._refuses_the_future(topic):
            return
        await self.admin.change(topic, REFUSES_THE_FUTURE)
        await asyncio.sleep(_REACHES_BROKERS_WITHIN)
        if not await self._refuses_the_future(topic):
            raise StorageUnavailable(f"topic {topic!r} cannot be made to refuse probes", storage_id=self.admin.storage.id)

    async def rehearse(self, topic: str, partitions: int) -> None:
        """Open the connections that the proof will need. Only for a topic that refuses probes."""
        await asyncio.to_thread(self._probe, topic, list(range(partitions)))

    async def seal(self, topic: str) -> None:
        settings = await self.admin.topic_settings(topic)
        await self.admin.change(topic, _changes(settings))

    async def seal_surveyed(self, topic: str, surveyed: Mapping[str, str | None]) -> None:
        """As `seal`, when a survey has already told what has to be changed."""
        await self.admin.change(topic, {name: _SEAL[name] for name in surveyed})

    async def open_again(self, topic: str, surveyed: Settings) -> None:
        """Returns when its storage shows it, so that whoever surveys it next does not take the seal for its own."""
        await self.admin.change(topic, OPEN_AGAIN | dict(surveyed))
        deadline = time.monotonic() + _OPEN_WITHIN
        while (await self.admin.topic_settings(topic))[SIZE_LIMIT][0] == SEALED_BYTES:
            if time.monotonic() > deadline:
                raise StorageUnavailable(f"topic {topic!r} is not open yet", storage_id=self.admin.storage.id)
            await asyncio.sleep(0.02)

    async def prove(self, topic: str, partitions: int) -> None:
        """Return once every partition has refused a probe because of the seal."""
        deadline = time.monotonic() + _PROVE_FOR
        open_ones = list(range(partitions))
        while open_ones:
            answers = await asyncio.to_thread(self._probe, topic, open_ones)
            open_ones = [partition for partition in open_ones if answers.get(partition) != KafkaError.MSG_SIZE_TOO_LARGE]
            if open_ones and time.monotonic() > deadline:
                raise StorageUnavailable(
                    f"storage {self.admin.storage.id!r} did not seal partitions {open_ones} of topic {topic!r}",
                    storage_id=self.admin.storage.id,
                )

    async def ends(self, topic: str, partitions: int) -> list[int]:
        """Where each partition ends for now; not an answer yet, see `end`."""
        return await self.admin.end_offsets(topic, partitions)

    async def end(self, topic: str, partitions: int, before: list[int]) -> tuple[int, ...]:
        """The last offset of each partition of a sealed topic, -1 where nothing was ever written.

        What was accepted just before the seal may still be on its way to the replicas, so the end is taken only when it
        has been the same twice: now and `before`, which was looked at some milliseconds ago.
        """
        while (ends := await self.ends(topic, partitions)) != before:
            before = ends
            await asyncio.sleep(0.003)
        return tuple(end - 1 for end in ends)

    async def nothing_beyond(self, topic: str, ends: Sequence[int]) -> bool:
        """Whether the leaders have nothing behind these ends, not even what other replicas lack and nobody is shown. A
        leader says that an offset is out of range only if it is behind all that it has."""
        return await asyncio.to_thread(_all_out_of_range, self.admin.storage, topic, ends)

    async def _refuses_the_future(self, topic: str) -> bool:
        settings = await self.admin.topic_settings(topic)
        return set(_changes(settings)) == {SIZE_LIMIT}

    def _probe(self, topic: str, partitions: list[int]) -> dict[int, int]:
        """Runs in a thread, for some milliseconds: the error code by which each partition refused."""
        answers: dict[int, int] = {}

        def on_delivery(error: KafkaError | None, message: Message) -> None:
            partition = message.partition() or 0
            if error is None:
                log.error("probe_was_stored", topic=topic, partition=partition, offset=message.offset())
            else:
                answers[partition] = error.code()

        producer = self._prober()
        future_ms = int(time.time() * 1000) + _AHEAD_MS
        try:
            for partition in partitions:
                producer.produce(topic, b"probe", None, partition, on_delivery, timestamp=future_ms)
            producer.flush(_PROVE_FOR)
        except (KafkaException, BufferError) as error:
            raise StorageUnavailable(f"storage {self.admin.storage.id!r} cannot be probed: {error}") from error
        return answers

    def _prober(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(_probe_config(self.admin.storage))
        return self._producer


_SEAL: dict[str, str] = {SIZE_LIMIT: SEALED_BYTES, **REFUSES_THE_FUTURE}


def _changes(settings: Mapping[str, tuple[str, bool]]) -> dict[str, str]:
    """What sealing this topic takes."""
    refuses = settings[TIMESTAMP_TYPE][0] == "CreateTime" and int(settings[TIMESTAMP_LIMIT][0]) < _AHEAD_MS // 2
    return {SIZE_LIMIT: SEALED_BYTES} if refuses else dict(_SEAL)


def _probe_config(storage: Storage) -> dict[str, str | int]:
    return client_config(storage) | {
        "acks": "all",
        "retries": 0,
        "linger.ms": 0,
        "message.timeout.ms": int(_PROVE_FOR * 1000),
        "topic.metadata.refresh.fast.interval.ms": 20,
    }


def _all_out_of_range(storage: Storage, topic: str, ends: Sequence[int]) -> bool:
    """Runs in a thread. A last offset of n means that n + 1 is written next: n + 2 is out of range, unless that was."""
    unproved, reader = set(range(len(ends))), Consumer(_reader_config(storage))
    reader.assign([TopicPartition(topic, partition, end + 2) for partition, end in enumerate(ends)])
    give_up_at = time.monotonic() + _OUT_OF_RANGE_WITHIN
    try:
        while unproved and (left := give_up_at - time.monotonic()) > 0:
            answer = reader.poll(left)
            if answer is None:
                continue
            error, partition = answer.error(), answer.partition()
            if error is None:
                return False  # what was shown as the end is not it
            if error.code() == KafkaError._AUTO_OFFSET_RESET and partition is not None:
                unproved.discard(partition)
    except KafkaException as error:
        log.warning("end_not_proved", topic=topic, error=str(error))
        return False
    finally:
        reader.close()
    return not unproved


def _reader_config(storage: Storage) -> dict[str, str | int]:
    """It never reads a record, it only asks for what is not there."""
    return client_config(storage) | {
        "group.id": "meantime-seal",
        "enable.auto.commit": "false",
        "auto.offset.reset": "error",
        "fetch.wait.max.ms": 50,
        "topic.metadata.refresh.fast.interval.ms": 20,
    }
