"""Storages over HTTP: the Kafka clusters that event types may be switched to."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from meantime.api.call import Answer, HttpCall
from meantime.names import IDENTIFIER
from meantime.streams.catalog.storages import show_storage

StorageType = Annotated[str, Meta(extra_json_schema={"enum": ["kafka"]})]


class KafkaForm(msgspec.Struct, kw_only=True):
    """`settings` are those of librdkafka that say how to reach a cluster."""

    bootstrap_servers: Annotated[str, Meta(min_length=1, examples=["broker-1:9092,broker-2:9092"])]
    settings: dict[str, str | int | float | bool | None] | None = {}


class StorageForm(msgspec.Struct, kw_only=True):
    id: Annotated[str, Meta(pattern=f"^{IDENTIFIER.pattern}$")]
    storage_type: StorageType | None = "kafka"
    kafka_configuration: KafkaForm


class KafkaView(msgspec.Struct, kw_only=True):
    bootstrap_servers: str
    settings: dict[str, str]


class StorageView(msgspec.Struct, kw_only=True):
    """A storage as it is shown; secrets among its settings are left out."""

    id: str
    storage_type: StorageType
    kafka_configuration: KafkaView
    default: bool


async def list_all(call: HttpCall[None, None]) -> list[dict[str, Any]]:
    """All storages"""
    return [show_storage(storage) for storage in await call.services.streams.storages.all()]


async def show(call: HttpCall[None, None]) -> dict[str, Any]:
    """One storage"""
    return show_storage(await call.services.streams.storages.get(call.names["storage_id"]))


async def register(call: HttpCall[dict[str, Any], None]) -> dict[str, Any]:
    """Register a storage

    It is probed first: 422 when it does not answer. 409 when the id is taken.
    """
    shown = show_storage(await call.services.streams.storages.register(call.form))
    call.act.target = f"storages/{shown['id']}"
    return shown


async def make_default(call: HttpCall[None, None]) -> dict[str, Any]:
    """Choose the storage of new event types"""
    return show_storage(await call.services.streams.storages.make_default(call.names["storage_id"]))


async def forget(call: HttpCall[None, None]) -> Answer:
    """Forget a storage

    403 while it is the default or used by a timeline.
    """
    await call.services.streams.storages.delete(call.names["storage_id"])
    return Answer(204)
