"""Declarations of event types: from what a client sends to what is kept, as pure decisions.

Unknown and read-only fields are ignored, `null` counts as absent, an update keeps what it does not mention. What cannot
be changed (name, category, number of partitions, clean-up policy, what a compatible schema promised) is refused rather than
ignored.
"""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from meantime.clock import rfc3339
from meantime.errors import Invalid
from meantime.names import check_event_type, has_nul
from meantime.streams.catalog.compatibility import MODES, check_change
from meantime.streams.catalog.schemas import check_schema, declared_schema
from meantime.streams.model import CATEGORIES, HASH, RANDOM, STRATEGIES, UNDEFINED, EventType

MAX_PARTITIONS = 32
TWO_DAYS_MS = 2 * 24 * 3600 * 1000
LONGEST_RETENTION_MS = 10 * 366 * 24 * 3600 * 1000
CLEANUP_POLICIES = ("delete", "compact", "compact_and_delete")
ENRICHMENT = "metadata_enrichment"

TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")

KEPT_AS_GIVEN = (
    "ordering_key_fields",
    "ordering_instance_ids",
    "authorization",
    "audience",
    "annotations",
    "labels",
    "event_owner_selector",
)


class Schema(msgspec.Struct, kw_only=True):
    type: str = "json_schema"
    schema: str | dict[str, Any] = "{}"


class Statistic(msgspec.Struct, kw_only=True):
    messages_per_minute: int | None = None
    message_size: int | None = None
    read_parallelism: int = 1
    write_parallelism: int = 1


class EventTypeOptions(msgspec.Struct, kw_only=True):
    retention_time: int | None = None


class Declaration(msgspec.Struct, kw_only=True):
    """The fields that decisions need; the types of the others are not looked at."""

    name: str
    owning_application: str = ""
    category: str = UNDEFINED
    enrichment_strategies: list[str] | None = None
    partition_strategy: str = RANDOM
    partition_key_fields: list[str] = []
    compatibility_mode: str = "forward"
    cleanup_policy: str = "delete"
    schema: Schema = msgspec.field(default_factory=Schema)
    default_statistic: Statistic | None = None
    options: EventTypeOptions = msgspec.field(default_factory=EventTypeOptions)
    adopt_topic: str | None = None
    adopt_storage_id: str | None = None


def declare(given: Mapping[str, Any], now_ms: int, min_retention_ms: int) -> EventType:
    """A new event type; `Invalid` says what to change. The partitions of an adopted topic are found out later."""
    fields = _without_nulls(given)
    declaration = _convert(fields)
    check_event_type(declaration.name)
    return _event_type(declaration, fields, now_ms, min_retention_ms, None)


def redeclare(current: EventType, given: Mapping[str, Any], now_ms: int, min_retention_ms: int) -> EventType:
    """An updated event type."""
    fields = _without_nulls(given)
    for fixed in ("name", "category", "cleanup_policy"):
        if fields.get(fixed, current.document[fixed]) != current.document[fixed]:
            raise Invalid(f"{fixed} cannot be changed: it is {current.document[fixed]!r}")
    for read_only in ("adopt_topic", "adopt_storage_id"):
        fields.pop(read_only, None)
    merged = current.document | fields
    if isinstance(fields.get("options"), dict):
        merged["options"] = current.document["options"] | fields["options"]
    updated = _event_type(_convert(merged), merged, now_ms, min_retention_ms, current)
    if updated.partitions != current.partitions:
        raise Invalid(f"the number of partitions cannot be changed: it is {current.partitions}")
    check_change(
        current.document["compatibility_mode"],
        updated.document["compatibility_mode"],
        declared_schema(current.document),
        declared_schema(updated.document),
    )
    return updated


def _convert(fields: dict[str, Any]) -> Declaration:
    if has_nul(fields):
        raise Invalid("the event type has a text with the character U+0000, which cannot be stored")
    try:
        return msgspec.convert(fields, Declaration)
    except msgspec.ValidationError as error:
        raise Invalid(f"the event type makes no sense: {error}") from error


def _without_nulls(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_nulls(value) if isinstance(value, dict) and key not in KEPT_AS_GIVEN else value
        for key, value in given.items()
        if value is not None
    }


def _event_type(
    declaration: Declaration, fields: dict[str, Any], now_ms: int, min_retention_ms: int, current: EventType | None
) -> EventType:
    _check_words(declaration)
    event_type = EventType(
        name=declaration.name,
        category=declaration.category,
        partition_strategy=declaration.partition_strategy,
        partition_key_fields=tuple(declaration.partition_key_fields),
        partitions=_partitions(declaration, current),
        retention_ms=_retention(declaration, min_retention_ms),
        cleanup_policy=declaration.cleanup_policy,
        adopt_topic=current.adopt_topic if current else declaration.adopt_topic,
        document=_document(declaration, fields, now_ms, current),
        version=current.version if current else 1,
        adopt_storage_id=current.adopt_storage_id if current else declaration.adopt_storage_id,
        created_at_ms=current.created_at_ms if current else now_ms,
        updated_at_ms=now_ms,
    )
    check_schema(event_type)
    return event_type


def _check_words(declaration: Declaration) -> None:
    _check_word("category", declaration.category, CATEGORIES)
    _check_word("partition_strategy", declaration.partition_strategy, STRATEGIES)
    _check_word("cleanup_policy", declaration.cleanup_policy, CLEANUP_POLICIES)
    _check_word("compatibility_mode", declaration.compatibility_mode, MODES)
    _check_word("schema.type", declaration.schema.type, ("json_schema",))
    for strategy in declaration.enrichment_strategies or ():
        _check_word("enrichment_strategies", strategy, (ENRICHMENT,))
    if declaration.partition_strategy == HASH and not declaration.partition_key_fields:
        raise Invalid("partition_strategy 'hash' needs partition_key_fields")
    if declaration.adopt_topic is not None and not TOPIC.fullmatch(declaration.adopt_topic):
        raise Invalid(f"adopt_topic {declaration.adopt_topic!r} cannot be a Kafka topic")
    if declaration.adopt_storage_id is not None and declaration.adopt_topic is None:
        raise Invalid("adopt_storage_id says where a topic is adopted from: name it with adopt_topic")
    if not all(declaration.partition_key_fields):
        raise Invalid("partition_key_fields must not be empty")


def _check_word(field: str, word: str, allowed: tuple[str, ...]) -> None:
    if word not in allowed:
        raise Invalid(f"{field} {word!r} is unknown; use one of: {', '.join(allowed)}")


def _partitions(declaration: Declaration, current: EventType | None) -> int:
    statistic = declaration.default_statistic
    if statistic is None or (current is not None and current.adopt_topic is not None):
        return current.partitions if current else 1
    if min(statistic.read_parallelism, statistic.write_parallelism) < 1:
        raise Invalid("read_parallelism and write_parallelism must be at least 1")
    partitions = max(statistic.read_parallelism, statistic.write_parallelism)
    if partitions > MAX_PARTITIONS:
        raise Invalid(f"an event type has at most {MAX_PARTITIONS} partitions, not {partitions}")
    return partitions


def _retention(declaration: Declaration, min_retention_ms: int) -> int:
    retention_ms = declaration.options.retention_time
    if retention_ms is None:
        return max(TWO_DAYS_MS, min_retention_ms)
    if not min_retention_ms <= retention_ms <= LONGEST_RETENTION_MS:
        raise Invalid(f"options.retention_time must be between {min_retention_ms} and {LONGEST_RETENTION_MS} ms")
    return retention_ms


def _document(declaration: Declaration, fields: dict[str, Any], now_ms: int, current: EventType | None) -> dict[str, Any]:
    """The declaration as it is shown."""
    document: dict[str, Any] = {
        "name": declaration.name,
        "owning_application": declaration.owning_application,
        "category": declaration.category,
        "enrichment_strategies": _enrichment(declaration),
        "partition_strategy": declaration.partition_strategy,
        "partition_key_fields": declaration.partition_key_fields,
        "compatibility_mode": declaration.compatibility_mode,
        "cleanup_policy": declaration.cleanup_policy,
        "schema": _schema(declaration.schema, now_ms, current),
        "default_statistic": _statistic(declaration, current),
        "options": {"retention_time": declaration.options.retention_time or TWO_DAYS_MS},
        "created_at": current.document["created_at"] if current else rfc3339(now_ms),
        "updated_at": rfc3339(now_ms),
    }
    return document | {key: fields[key] for key in KEPT_AS_GIVEN if key in fields}


def _enrichment(declaration: Declaration) -> list[str]:
    if declaration.category == UNDEFINED:
        return []
    return [ENRICHMENT]


def _statistic(declaration: Declaration, current: EventType | None) -> dict[str, int]:
    statistic = declaration.default_statistic or Statistic()
    shown = {key: value for key, value in msgspec.structs.asdict(statistic).items() if value is not None}
    if declaration.default_statistic is None and current is not None:
        return dict(current.document["default_statistic"])
    return shown


def _schema(schema: Schema, now_ms: int, current: EventType | None) -> dict[str, Any]:
    """A changed schema gets a new version and date."""
    text = schema.schema if isinstance(schema.schema, str) else msgspec.json.encode(schema.schema).decode()
    if current is not None and current.document["schema"]["schema"] == text:
        return dict(current.document["schema"])
    version = "1.0.0" if current is None else _next(current.document["schema"]["version"])
    return {"type": schema.type, "schema": text, "version": version, "created_at": rfc3339(now_ms)}


def _next(version: str) -> str:
    major, minor, _ = version.split(".")
    return f"{major}.{int(minor) + 1}.0"
