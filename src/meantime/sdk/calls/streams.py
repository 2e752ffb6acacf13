"""Calls of streams: event types, events, cursors, storages, timelines."""

from collections.abc import Sequence
from typing import Any

import msgspec

from meantime.errors import MeantimeError, PublishFailed
from meantime.sdk.calls.call import JSON, Call, Response, body, fields, fresh_id, nothing, path, reading
from meantime.sdk.instants import Duration, Instant, milliseconds, unix_ms
from meantime.sdk.model import Event, EventType, Partition, PublishedItem, Schema, Statistic, Storage, Switch, Timeline

read_event_type = reading(EventType)
read_timeline = reading(Timeline)


def event_types() -> Call[list[EventType]]:
    """All event types."""
    return Call("GET", path("event-types"), reading(list[EventType]))


def event_type(name: str) -> Call[EventType]:
    """One event type; NotFound if there is none of that name."""
    return Call("GET", path("event-types", name), read_event_type)


def create_event_type(
    event_type: EventType | str,
    *,
    partitions: int | None = None,
    schema: dict[str, Any] | None = None,
    retention_for: Duration | None = None,
    adopt_topic: str | None = None,
) -> Call[None]:
    """Declare an event type, by its name or in full; Conflict if the name is taken.

    >>> client.create_event_type("orders", partitions=4, retention_for="7d")
    >>> client.create_event_type(EventType("users", category="business", partition_strategy="hash",
    ...                                    partition_key_fields=["id"]), partitions=8)
    """
    declared = EventType(event_type) if isinstance(event_type, str) else event_type
    declared = _completed(declared, partitions, schema, retention_for)
    if adopt_topic is not None:
        declared = msgspec.structs.replace(declared, adopt_topic=adopt_topic)
    return Call("POST", path("event-types"), nothing, body(declared), JSON, repeatable=False)


def _completed(
    declared: EventType, partitions: int | None, schema: dict[str, Any] | None, retention_for: Duration | None
) -> EventType:
    owner = declared.owning_application or "meantime"
    category = declared.category or "undefined"
    text = msgspec.json.encode(schema if schema is not None else {}).decode()
    changes = fields(
        owning_application=owner,
        category=category,
        schema=Schema(type="json_schema", schema=text) if schema is not None or declared.schema is None else None,
        default_statistic=Statistic(read_parallelism=partitions, write_parallelism=partitions) if partitions else None,
        options={"retention_time": milliseconds(retention_for)} if retention_for is not None else None,
    )
    return msgspec.structs.replace(declared, **changes)


def update_event_type(event_type: EventType) -> Call[None]:
    """Change a declaration: read it, change it with `msgspec.structs.replace`, send it back."""
    return Call("PUT", path("event-types", event_type.name), nothing, body(event_type), JSON)


def delete_event_type(name: str) -> Call[None]:
    """Delete an event type and its events; Conflict while subscriptions exist."""
    return Call("DELETE", path("event-types", name), nothing)


def publish(event_type: str, events: Sequence[Event] | Event) -> Call[None]:
    """Publish one event or a batch; returns when all are safely written.

    Raises PublishFailed when any was not; its `extras["items"]` says for each event what became of it, and
    `extras["written"]` how many were written all the same (0 when the batch was refused as a whole).

    >>> client.publish("orders", [{"id": 1}, {"id": 2}])
    """
    batch = [events] if isinstance(events, dict) else list(events)
    target = path("event-types", event_type, "events")
    return Call("POST", target, _published, body(batch), JSON, repeatable=False, refusal=_refused)


def publish_encoded(event_type: str, array: bytes) -> Call[None]:
    """Publish a batch that is JSON already: the bytes of an array."""
    target = path("event-types", event_type, "events")
    return Call("POST", target, _published, array, JSON, repeatable=False, refusal=_refused)


def _published(answer: Response) -> None:
    if answer.status == 207 and (error := _refused(answer)):
        raise error


def _refused(answer: Response) -> MeantimeError | None:
    """422 and 207 carry one item per event; any other refusal is a problem document."""
    try:
        items = msgspec.json.decode(answer.content, type=list[PublishedItem])
    except msgspec.MsgspecError:
        return None
    bad = [item for item in items if item.publishing_status != "submitted"]
    culprit = next((item for item in bad if item.publishing_status == "failed"), bad[0] if bad else None)
    why = f": {culprit.step}: {culprit.detail}" if culprit else ""
    return PublishFailed(
        f"{len(bad)} of {len(items)} events were not published{why}", items=items, written=len(items) - len(bad)
    )


def partitions(event_type: str, *, written_from: Instant | None = None) -> Call[list[Partition]]:
    """The partitions with their oldest and newest cursor. With `written_from`, `start_after` is the cursor after which the
    first event lies that was written then or later, and `unconsumed_events` how many there are from there."""
    query = None if written_from is None else {"written_from_ms": max(0, unix_ms(written_from))}
    return Call("GET", path("event-types", event_type, "partitions", query=query), reading(list[Partition]))


def storages() -> Call[list[Storage]]:
    """The registered Kafka clusters."""
    return Call("GET", path("storages"), reading(list[Storage]))


def storage(id: str) -> Call[Storage]:
    """One registered Kafka cluster."""
    return Call("GET", path("storages", id), reading(Storage))


def create_storage(id: str, bootstrap_servers: str, *, settings: dict[str, str] | None = None) -> Call[None]:
    """Register a Kafka cluster; it is asked for an answer before it is taken.

    >>> client.create_storage("east", "kafka-1:9092,kafka-2:9092")
    """
    kafka = fields(bootstrap_servers=bootstrap_servers, settings=settings)
    document = {"id": id, "storage_type": "kafka", "kafka_configuration": kafka}
    return Call("POST", path("storages"), nothing, body(document), JSON, repeatable=False)


def delete_storage(id: str) -> Call[None]:
    """Forget a Kafka cluster; Forbidden while it is used or the default."""
    return Call("DELETE", path("storages", id), nothing)


def use_storage_by_default(id: str) -> Call[None]:
    """New event types go to this storage from now on."""
    return Call("PUT", path("storages", "default", id), nothing)


def timelines(event_type: str) -> Call[list[Timeline]]:
    """The timelines of an event type, oldest first; the last one takes the writes."""
    return Call("GET", path("event-types", event_type, "timelines"), reading(list[Timeline]))


def switch(event_type: str, storage_id: str, *, force: bool = False, key: str | None = None) -> Call[Timeline]:
    """Move an event type to a storage, live, and return its new timeline.

    Repeatable: the call carries an idempotency key, made up unless you give one. `force` leaves a storage that is dead.

    >>> client.switch("orders", "east").order
    2
    """
    headers = {**JSON, "Idempotency-Key": key or fresh_id()}
    document = {"storage_id": storage_id} | ({"force": True} if force else {})
    return Call(
        "POST",
        path("event-types", event_type, "timelines"),
        read_timeline,
        body(document),
        headers,
        wait_for=60.0,
    )


def switches(event_type: str) -> Call[list[Switch]]:
    """The switches of an event type, with state and measured stall."""
    return Call("GET", path("event-types", event_type, "switches"), reading(list[Switch]))
