"""Storages: Kafka clusters that timelines may live in, registered at run time and probed when added. Secrets go in and
never come out."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import structlog

from meantime.clock import Clock
from meantime.errors import Conflict, Forbidden, Invalid, NotFound, StorageUnavailable
from meantime.kafka.admin import Admin
from meantime.kafka.settings import Storage, checked_settings, is_secret
from meantime.names import is_identifier
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.catalog.storage_store import StorageStore

log = structlog.get_logger(__name__)

SERVERS = re.compile(r"[^\s,:]+(:\d{1,5})?(,[^\s,:]+(:\d{1,5})?)*|(\[[0-9a-fA-F:]+\]:\d{1,5},?)+")

PROBE_FOR = 5.0


class KafkaConfiguration(msgspec.Struct, kw_only=True):
    bootstrap_servers: str
    settings: dict[str, str | int | float | bool] = {}


class StorageDocument(msgspec.Struct, kw_only=True):
    id: str
    storage_type: str = "kafka"
    kafka_configuration: KafkaConfiguration


def read_storage(given: Mapping[str, Any]) -> Storage:
    """A storage as a client describes it; `Invalid` says what to change."""
    if given.get("storage_type") not in (None, "kafka"):
        raise Invalid(f"storage_type {given['storage_type']!r} is unknown; use 'kafka'")
    try:
        document = msgspec.convert(_without_nulls(given), StorageDocument)
    except msgspec.ValidationError as error:
        raise Invalid(f"the storage makes no sense: {error}") from error
    if not is_identifier(document.id):
        raise Invalid(f"{document.id!r} cannot name a storage: use 1 to 128 characters of 0-9 A-Z a-z . _ : @ -")
    configuration = document.kafka_configuration
    servers = re.sub(r"\s*,\s*", ",", configuration.bootstrap_servers.strip())
    if not SERVERS.fullmatch(servers):
        raise Invalid("kafka_configuration.bootstrap_servers must be host:port,host:port")
    return Storage(document.id, servers, checked_settings(configuration.settings, "kafka_configuration.settings"))


def show_storage(storage: Storage) -> dict[str, Any]:
    """A storage as clients see it."""
    shown = {name: value for name, value in storage.settings.items() if not is_secret(name)}
    return {
        "id": storage.id,
        "storage_type": storage.storage_type,
        "kafka_configuration": {"bootstrap_servers": storage.bootstrap_servers, "settings": shown},
        "default": storage.default,
    }


def _without_nulls(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, dict) else value for key, value in given.items() if value is not None
    }


class Storages:
    """`needed`: storages that nobody may delete, each with what it is needed for."""

    def __init__(self, store: StorageStore, catalog: Catalog, clock: Clock, needed: Mapping[str, str]) -> None:
        self._store = store
        self._catalog = catalog
        self._clock = clock
        self._needed = needed

    async def all(self) -> list[Storage]:
        return list(await self._catalog.reload_storages())

    async def get(self, id: str) -> Storage:
        await self._catalog.reload_storages()
        return self._catalog.storage(id)

    async def register(self, given: Mapping[str, Any]) -> Storage:
        storage = read_storage(given)
        if storage.id in {known.id for known in await self.all()}:
            raise _duplicate(storage.id)
        await self._probe(storage)
        if not await self._store.insert(storage, self._clock.now_ms()):
            raise _duplicate(storage.id)
        log.info("storage_registered", storage_id=storage.id, bootstrap_servers=storage.bootstrap_servers)
        return storage

    async def _probe(self, storage: Storage) -> None:
        try:
            await Admin(storage).reach(PROBE_FOR)
        except StorageUnavailable as error:
            raise Invalid(f"the storage cannot be reached: {error.detail}") from error

    async def delete(self, id: str) -> None:
        if use := self._needed.get(id):
            raise Forbidden(f"storage {id!r} cannot be deleted: it is {use}")
        outcome = await self._store.delete(id)
        if outcome is None:
            raise NotFound(f"storage {id!r} does not exist")
        if outcome:
            raise Forbidden(f"storage {id!r} cannot be deleted: it is {outcome}")
        log.info("storage_deleted", storage_id=id)

    async def make_default(self, id: str) -> Storage:
        if not await self._store.make_default(id):
            raise NotFound(f"storage {id!r} does not exist")
        log.info("default_storage_changed", storage_id=id)
        return await self.get(id)

    async def register_configured(self, configured: Iterable[Storage]) -> None:
        """The clusters that the node was started with, with their present addresses and settings."""
        for storage in configured:
            await self._store.keep(storage, self._clock.now_ms())
        await self._catalog.reload_storages()


def _duplicate(id: str) -> Conflict:
    return Conflict(f"storage {id!r} exists already")
