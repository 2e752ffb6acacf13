"""Event types over HTTP: declare, look at, change and delete them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from meantime.access.authorization import OF_EVENT_TYPES, check_authorization, is_listed
from meantime.access.scopes import Identity
from meantime.api.call import Answer, HttpCall
from meantime.names import EVENT_TYPE
from meantime.streams.catalog.compatibility import MODES
from meantime.streams.catalog.declarations import (
    CLEANUP_POLICIES,
    ENRICHMENT,
    LONGEST_RETENTION_MS,
    MAX_PARTITIONS,
    TOPIC,
    TWO_DAYS_MS,
)
from meantime.streams.model import CATEGORIES, RANDOM, STRATEGIES, UNDEFINED


def _one_of(words: tuple[str, ...]) -> Meta:
    return Meta(extra_json_schema={"enum": list(words)})


Name = Annotated[str, Meta(pattern=f"^{EVENT_TYPE.pattern}$", max_length=255)]
Category = Annotated[str, _one_of(CATEGORIES)]
Strategy = Annotated[str, _one_of(STRATEGIES)]
Mode = Annotated[str, _one_of(MODES)]
CleanupPolicy = Annotated[str, _one_of(CLEANUP_POLICIES)]
Enrichment = Annotated[str, _one_of((ENRICHMENT,))]
SchemaType = Annotated[str, _one_of(("json_schema",))]
KeyFields = list[Annotated[str, Meta(min_length=1)]]
Parallelism = Annotated[int, Meta(ge=1, le=MAX_PARTITIONS)]
Retention = Annotated[
    int,
    Meta(
        ge=1000, le=LONGEST_RETENTION_MS, description="Milliseconds; the node's setting `min_retention_ms` may ask for more."
    ),
]


class SchemaForm(msgspec.Struct, kw_only=True):
    """`schema` is a JSON schema, as text or as it is; it refers to no other document."""

    type: SchemaType | None = "json_schema"
    schema: str | dict[str, Any] | None = "{}"


class StatisticForm(msgspec.Struct, kw_only=True):
    """An event type has as many partitions as the greater parallelism."""

    messages_per_minute: int | None = None
    message_size: int | None = None
    read_parallelism: Parallelism | None = 1
    write_parallelism: Parallelism | None = 1


class OptionsForm(msgspec.Struct, kw_only=True):
    retention_time: Retention | None = TWO_DAYS_MS


class AuthorizationAttribute(msgspec.Struct, kw_only=True):
    """Keys whose name is `value`; `*` and `*` are all keys."""

    data_type: Annotated[str, Meta(min_length=1)]
    value: Annotated[str, Meta(min_length=1)]


Attributes = Annotated[list[AuthorizationAttribute], Meta(min_length=1)]


class EventTypeAuthorization(msgspec.Struct, kw_only=True):
    """Who of those whose scopes allow it may: `readers` read, `writers` publish. `admins` may change and delete it."""

    admins: Attributes
    readers: Attributes
    writers: Attributes


class KeptAsGiven(msgspec.Struct, kw_only=True):
    """What is kept and shown, and not looked at."""

    ordering_key_fields: Any = None
    ordering_instance_ids: Any = None
    audience: Any = None
    annotations: Any = None
    labels: Any = None
    event_owner_selector: Any = None


class EventTypeForm(KeptAsGiven, kw_only=True):
    """Other fields are ignored. `hash` needs `partition_key_fields`, and `adopt_storage_id` needs `adopt_topic`."""

    name: Name
    authorization: EventTypeAuthorization | None = None
    owning_application: str | None = ""
    category: Category | None = UNDEFINED
    enrichment_strategies: list[Enrichment] | None = None
    partition_strategy: Strategy | None = RANDOM
    partition_key_fields: KeyFields | None = []
    compatibility_mode: Mode | None = "forward"
    cleanup_policy: CleanupPolicy | None = "delete"
    schema: SchemaForm | None = None
    default_statistic: StatisticForm | None = None
    options: OptionsForm | None = None
    adopt_topic: Annotated[str, Meta(pattern=f"^{TOPIC.pattern}$")] | None = None
    adopt_storage_id: str | None = None


class OptionsChange(msgspec.Struct, kw_only=True):
    retention_time: Retention | None = None


class EventTypeChange(KeptAsGiven, kw_only=True):
    """What is absent or null stays as it is. `name`, `category` and `cleanup_policy` may be repeated, not changed."""

    name: Name | None = None
    authorization: EventTypeAuthorization | None = None
    owning_application: str | None = None
    category: Category | None = None
    enrichment_strategies: list[Enrichment] | None = None
    partition_strategy: Strategy | None = None
    partition_key_fields: KeyFields | None = None
    compatibility_mode: Mode | None = None
    cleanup_policy: CleanupPolicy | None = None
    schema: SchemaForm | None = None
    default_statistic: StatisticForm | None = None
    options: OptionsChange | None = None


class SchemaView(msgspec.Struct, kw_only=True):
    type: SchemaType
    schema: str
    version: str
    created_at: str


class StatisticView(msgspec.Struct, kw_only=True):
    messages_per_minute: int | msgspec.UnsetType = msgspec.UNSET
    message_size: int | msgspec.UnsetType = msgspec.UNSET
    read_parallelism: int
    write_parallelism: int


class OptionsView(msgspec.Struct, kw_only=True):
    retention_time: int


class EventTypeDocument(KeptAsGiven, kw_only=True):
    """An event type as it is shown."""

    name: str
    authorization: Any = None
    owning_application: str
    category: Category
    enrichment_strategies: list[Enrichment]
    partition_strategy: Strategy
    partition_key_fields: list[str]
    compatibility_mode: Mode
    cleanup_policy: CleanupPolicy
    schema: SchemaView
    default_statistic: StatisticView
    options: OptionsView
    created_at: str
    updated_at: str
    adopt_topic: str | msgspec.UnsetType = msgspec.UNSET
    adopt_storage_id: str | msgspec.UnsetType | None = msgspec.UNSET


async def list_all(call: HttpCall[None, None]) -> list[dict[str, Any]]:
    """All event types

    With authentication on, those that the key may read or publish to; with `look` all.
    """
    identity = call.identity
    found = await call.services.streams.event_types.all()
    return [document for document in found if _may_see(identity, document["name"], document.get("authorization"))]


def _may_see(identity: Identity, name: str, authorization: Any) -> bool:
    if identity.may("look"):
        return True
    listed = authorization is None or is_listed(identity, authorization, *OF_EVENT_TYPES)
    return listed and (identity.may("read", name) or identity.may("publish", name))


async def show(call: HttpCall[None, None]) -> dict[str, Any]:
    """One event type"""
    return (await call.services.streams.event_types.get(call.names["name"])).document


async def create(call: HttpCall[dict[str, Any], None]) -> dict[str, Any]:
    """Declare an event type

    409 when the name is taken, 422 when the declaration is not valid. `adopt_topic` serves an existing topic of the
    storage `adopt_storage_id`, or of the default one, and the event type shows which.
    """
    check_authorization(call.form.get("authorization"), OF_EVENT_TYPES)
    made = (await call.services.streams.event_types.create(call.form)).document
    call.act.target = f"event-types/{made['name']}"
    return made


async def update(call: HttpCall[dict[str, Any], None]) -> dict[str, Any]:
    """Change an event type

    What is not mentioned stays as it is. Name, category, clean-up policy and partitions cannot be changed (422). The admins
    of its `authorization` may change and delete it too.
    """
    check_authorization(call.form.get("authorization"), OF_EVENT_TYPES)
    return (await call.services.streams.event_types.update(call.names["name"], call.form)).document


async def delete(call: HttpCall[None, None]) -> Answer:
    """Delete an event type and its events

    409 while subscriptions exist. Open streams end; the name is free at once.
    """
    await call.services.streams.event_types.delete(call.names["name"])
    return Answer(200)


async def list_partition_strategies(_: HttpCall[None, None]) -> list[str]:
    """The partition strategies that there are"""
    return list(STRATEGIES)


async def list_enrichment_strategies(_: HttpCall[None, None]) -> list[str]:
    """The enrichment strategies that there are"""
    return [ENRICHMENT]
