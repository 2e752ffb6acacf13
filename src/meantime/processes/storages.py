"""Which storages a process knows: those it is configured with, and those that are registered in PostgreSQL.

A configured one is known without PostgreSQL, and its configuration counts. Another one, secrets included, is known once it
is registered.
"""

import asyncio

import structlog

from meantime.config import Config
from meantime.database.pool import Database
from meantime.errors import NotFound, StorageUnavailable
from meantime.kafka.settings import Storage, configured_storages
from meantime.streams.catalog.store import Store

log = structlog.get_logger(__name__)

LOOK_EVERY = 1.0


def storages_of(config: Config) -> list[Storage]:
    return configured_storages(config.kafka_clusters(), config.kafka_settings)


async def timers_storage(config: Config, database: Database) -> Storage:
    """Where timers live, waited for until a storage of that name is registered."""
    while True:
        try:
            return await _timers_storage(config, database)
        except (NotFound, StorageUnavailable) as error:
            log.warning("timers_storage_unknown", error=error.detail)
            await asyncio.sleep(LOOK_EVERY)


async def _timers_storage(config: Config, database: Database) -> Storage:
    for storage in storages_of(config):
        if storage.id == config.timers_storage:
            return storage
    for storage in await Store(database).storages():
        if storage.id == config.timers_storage:
            return storage
    raise NotFound(f"timers_storage names {config.timers_storage!r}, and no such storage is registered")
