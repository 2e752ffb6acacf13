"""Administration of a storage: its topics, their settings and where they end.

All calls are asynchronous and bounded; a cluster that does not answer becomes `StorageUnavailable`, naming the storage.
"""

import asyncio
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import TypeVar

from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from meantime.errors import Conflict, Invalid, NotFound, StorageUnavailable
from meantime.kafka.settings import Storage, client_config

T = TypeVar("T")

_LATEST = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_EARLIEST = OffsetSpec.earliest()  # type: ignore[no-untyped-call]

Settings = Mapping[str, str | None]
"""Topic settings to change; None takes a setting back to the cluster's default."""


class Admin:
    def __init__(self, storage: Storage, *, timeout: float = 10.0) -> None:
        self.storage = storage
        self._timeout = timeout
        try:
            self._client = AdminClient(client_config(storage))
        except (KafkaException, ValueError, TypeError) as error:
            raise Invalid(f"storage {storage.id!r} has settings that Kafka's client refuses: {_said(error)}") from error

    async def reach(self, timeout: float | None = None) -> None:
        """Fail unless a broker answers."""
        await self._answer(self._client.describe_cluster(request_timeout=timeout or self._timeout), timeout)

    async def partitions(self, topic: str, timeout: float | None = None) -> int | None:
        """How many partitions the topic has, each of them with a leader; None when there is no such topic."""
        futures = self._client.describe_topics(TopicCollection([topic]), request_timeout=timeout or self._timeout)
        try:
            described = await self._answer(futures[topic], timeout)
        except NotFound:
            return None
        led = [partition for partition in described.partitions if partition.leader is not None]
        return len(described.partitions) if len(led) == len(described.partitions) else 0

    async def topics(self) -> set[str]:
        return set((await asyncio.to_thread(self._client.list_topics, timeout=self._timeout)).topics)

    async def create(self, topic: str, partitions: int, settings: Mapping[str, str]) -> None:
        new = NewTopic(topic, num_partitions=partitions, replication_factor=-1, config=dict(settings))
        futures = self._client.create_topics([new], request_timeout=self._timeout, operation_timeout=self._timeout)
        await self._answer(futures[topic])
        await self._until_led(topic, partitions)

    async def _until_led(self, topic: str, partitions: int) -> None:
        """A new topic can be written to once every partition has its leader; brokers offer no call that waits for it."""
        for pause in (0.005, 0.01, 0.02, 0.05, *([0.1] * 50)):
            if await self.partitions(topic) == partitions:
                return
            await asyncio.sleep(pause)
        raise StorageUnavailable(f"storage {self.storage.id!r} finds no leader for a new topic", storage_id=self.storage.id)

    async def drop(self, topic: str) -> None:
        """Gone afterwards, also when it was not there before."""
        with suppress(NotFound):
            await self._answer(self._client.delete_topics([topic], request_timeout=self._timeout)[topic])

    async def topic_settings(self, topic: str) -> dict[str, tuple[str, bool]]:
        """Every setting in force, and whether it is the topic's own."""
        resource = ConfigResource(ResourceType.TOPIC, topic)
        futures = self._client.describe_configs([resource], request_timeout=self._timeout)
        found = await self._answer(futures[resource])
        own = ConfigSource.DYNAMIC_TOPIC_CONFIG.value
        return {name: (entry.value, entry.source == own) for name, entry in found.items()}

    async def change(self, topic: str, settings: Settings) -> None:
        entries = [
            ConfigEntry(
                name,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for name, value in settings.items()
        ]
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=entries)
        futures = self._client.incremental_alter_configs([resource], request_timeout=self._timeout)
        await self._answer(futures[resource])

    async def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """Where the next record of each partition would go."""
        return await self._offsets(topic, range(partitions), _LATEST)

    async def start_offsets(self, topic: str, partitions: int) -> list[int]:
        return await self._offsets(topic, range(partitions), _EARLIEST)

    async def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> list[int]:
        """A broker that leads a partition only since a moment may not know it yet, so it is asked again."""
        wanted = {TopicPartition(topic, partition): spec for partition in partitions}
        for pause in (0.01, 0.02, 0.05, 0.1, 0.2, 0.4):
            try:
                return await self._ask_offsets(wanted)
            except StorageUnavailable as error:
                if not _leader_is_moving(error.__cause__):
                    raise
            await asyncio.sleep(pause)
        return await self._ask_offsets(wanted)

    async def _ask_offsets(self, wanted: dict[TopicPartition, OffsetSpec]) -> list[int]:
        futures = self._client.list_offsets(wanted, request_timeout=self._timeout)
        found = {place.partition: await self._answer(future) for place, future in futures.items()}
        return [found[partition].offset for partition in sorted(found)]

    async def _answer(self, future: "Future[T]", timeout: float | None = None) -> T:
        try:
            async with asyncio.timeout((timeout or self._timeout) + 1.0):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise StorageUnavailable(f"storage {self.storage.id!r} does not answer", storage_id=self.storage.id) from None
        except KafkaException as error:
            raise self._translated(error) from error

    def _translated(self, error: KafkaException) -> Exception:
        match error.args[0].code():
            case KafkaError.UNKNOWN_TOPIC_OR_PART:
                return NotFound(f"storage {self.storage.id!r} has no such topic")
            case KafkaError.TOPIC_ALREADY_EXISTS:
                return Conflict(f"storage {self.storage.id!r} has such a topic already")
            case KafkaError.INVALID_CONFIG | KafkaError.POLICY_VIOLATION | KafkaError.TOPIC_EXCEPTION:
                return Invalid(f"storage {self.storage.id!r} refuses the topic: {_said(error)}")
            case _:
                return StorageUnavailable(
                    f"storage {self.storage.id!r} does not answer: {_said(error)}", storage_id=self.storage.id
                )


def _leader_is_moving(cause: BaseException | None) -> bool:
    moving = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
    return isinstance(cause, KafkaException) and cause.args[0].code() in moving


def _said(error: Exception) -> str:
    first = error.args[0] if error.args else None
    return first.str() if isinstance(first, KafkaError) else str(error)


class Admins:
    """One administration per storage, made when first needed and made anew when the storage's settings change."""

    def __init__(self) -> None:
        self._admins: dict[str, Admin] = {}

    def of(self, storage: Storage) -> Admin:
        known = self._admins.get(storage.id)
        if known is None or client_config(known.storage) != client_config(storage):
            known = self._admins[storage.id] = Admin(storage)
        return known
