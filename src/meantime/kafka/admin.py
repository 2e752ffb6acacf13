"""Administration of a storage: its topics, their settings and where they end.

All calls are asynchronous and bounded; a cluster that does not answer becomes `StorageUnavailable`, naming the storage.

A broker that was restarted and a partition that got another leader are no reason to fail: what can be asked twice is asked
again for a while. The client does not look by itself who leads a partition now. It asks whom it knows, naming the epoch
of that leader, and is refused each time; so it is told to look.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from itertools import chain, repeat
from typing import Any, TypeVar

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

LEADER_MOVED = frozenset(
    {
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError._NOENT,  # "no leaders found"
    }
)
_RETURNING = frozenset(
    {
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.LISTENER_NOT_FOUND,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.NOT_CONTROLLER,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError._TRANSPORT,
        KafkaError._ALL_BROKERS_DOWN,
    }
)
"""What brokers say, or a broken connection, while one of them comes back."""
_PASSING = LEADER_MOVED | _RETURNING
ASK_AGAIN_FOR = 5.0
"""Seconds for which something is asked again that a broker which comes back refuses."""
MISSING_FOR = 1.0
"""Seconds after which a topic that such a broker does not know does not exist."""
_PAUSES = (0.01, 0.02, 0.05, 0.1, 0.2)


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

        async def ask() -> Any:
            futures = self._client.describe_topics(TopicCollection([topic]), request_timeout=timeout or self._timeout)
            return await self._answer(futures[topic], timeout)

        try:
            described = await self._repeated(ask)
        except NotFound:
            return None
        led = [partition for partition in described.partitions if partition.leader is not None]
        return len(described.partitions) if len(led) == len(described.partitions) else 0

    async def missing(self, topics: Collection[str], timeout: float | None = None) -> set[str]:
        """Those of these topics, at least one, that do not exist. Asking makes none."""
        asked = TopicCollection(list(topics))
        futures = self._client.describe_topics(asked, request_timeout=timeout or self._timeout)
        missing = set()
        for topic, future in futures.items():
            try:
                await self._answer(future, timeout)
            except NotFound:
                missing.add(topic)
        return missing

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

        async def ask() -> None:
            await self._answer(self._client.delete_topics([topic], request_timeout=self._timeout)[topic])

        with suppress(NotFound):
            await self._repeated(ask)

    async def topic_settings(self, topic: str) -> dict[str, tuple[str, bool]]:
        """Every setting in force, and whether it is the topic's own."""
        resource = ConfigResource(ResourceType.TOPIC, topic)

        async def ask() -> Any:
            return await self._answer(self._client.describe_configs([resource], request_timeout=self._timeout)[resource])

        found = await self._repeated(ask)
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

        async def ask() -> None:
            await self._answer(self._client.incremental_alter_configs([resource], request_timeout=self._timeout)[resource])

        await self._repeated(ask)

    async def end_offsets(self, topic: str, partitions: int) -> list[int]:
        """Where the next record of each partition would go."""
        return await self._offsets(topic, range(partitions), _LATEST)

    async def start_offsets(self, topic: str, partitions: int) -> list[int]:
        return await self._offsets(topic, range(partitions), _EARLIEST)

    async def offsets_from(self, topic: str, partitions: int, written_from_ms: int) -> list[int]:
        """The first record of each partition that was written then or later; -1 where there is none."""
        return await self._offsets(topic, range(partitions), OffsetSpec.for_timestamp(written_from_ms))

    async def _offsets(self, topic: str, partitions: Iterable[int], spec: OffsetSpec) -> list[int]:
        wanted = {TopicPartition(topic, partition): spec for partition in partitions}

        async def ask() -> list[int]:
            futures = self._client.list_offsets(wanted, request_timeout=self._timeout)
            found = {place.partition: await self._answer(future) for place, future in futures.items()}
            return [found[partition].offset for partition in sorted(found)]

        return await self._repeated(ask, topic)

    async def offsets_of(self, topics: Mapping[str, int], *, latest: bool) -> dict[tuple[str, int], int]:
        """Where the partitions of many topics, given with their numbers, begin or end: one question for all. Partitions of
        which nobody knows it at the moment are left out."""
        places = [TopicPartition(topic, partition) for topic, count in topics.items() for partition in range(count)]
        if not places:
            return {}
        spec = _LATEST if latest else _EARLIEST
        futures = self._client.list_offsets(dict.fromkeys(places, spec), request_timeout=self._timeout)
        found, moved = {}, False
        for place, future in futures.items():
            try:
                found[place.topic, place.partition] = (await self._answer(future)).offset
            except (StorageUnavailable, NotFound, Invalid) as error:
                moved = moved or _code(error.__cause__) in LEADER_MOVED
        if moved:
            with suppress(KafkaException):
                await asyncio.to_thread(self._client.list_topics, timeout=ASK_AGAIN_FOR)
        return found

    async def _repeated(self, ask: Callable[[], Awaitable[T]], topic: str | None = None) -> T:
        """Ask, and ask again while brokers come back. Only for what may be asked twice. With a topic it is a question to
        those who lead its partitions, who are looked up anew when they have moved; there is such a topic."""
        began, pauses = time.monotonic(), chain(_PAUSES, repeat(_PAUSES[-1]))
        while True:
            try:
                return await ask()
            except (StorageUnavailable, NotFound) as error:
                code = _code(error.__cause__)
                ask_for = MISSING_FOR if topic and isinstance(error, NotFound) else ASK_AGAIN_FOR if code in _PASSING else 0
                if time.monotonic() - began >= ask_for:
                    raise
            await asyncio.sleep(next(pauses))
            if topic and code in LEADER_MOVED:
                await asyncio.to_thread(self._look_for_leaders, topic)

    def _look_for_leaders(self, topic: str) -> None:
        with suppress(KafkaException):
            self._client.list_topics(topic, timeout=ASK_AGAIN_FOR)

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


def _code(cause: BaseException | None) -> int | None:
    return cause.args[0].code() if isinstance(cause, KafkaException) else None


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

    def keep(self, storage_ids: Collection[str]) -> None:
        """Let go of all other storages; the clients close when nobody uses them any more."""
        self._admins = {id: admin for id, admin in self._admins.items() if id in storage_ids}
