"""`meantime event-types`: declare, look at and remove event types."""

from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from meantime.cli.instants import clock_time, human, seconds
from meantime.cli.output import print_json, print_line, print_table, say
from meantime.cli.session import ClusterSession, EventTypeName, Yes, confirm, on_cluster
from meantime.errors import Invalid
from meantime.unknown_fields import known_fields, unknown_fields

app = typer.Typer(no_args_is_help=True, help="Event types: declare, look at, change and remove them.")

Partitions = Annotated[int | None, typer.Option("--partitions", "-p", min=1, max=32, help="Number of partitions.")]
Category = Annotated[str | None, typer.Option("--category", help="undefined, business or data.")]
Strategy = Annotated[str | None, typer.Option("--strategy", help="random, hash or user_defined.")]
KeyField = Annotated[
    list[str] | None, typer.Option("--key-field", "-k", help="Field that hash looks at; repeat for several.")
]
SchemaFile = Annotated[Path | None, typer.Option("--schema", help="File with the JSON schema of the events.")]
Retention = Annotated[str | None, typer.Option("--retention", help="How long events are kept, like 12h or 7d.")]
Owner = Annotated[str | None, typer.Option("--owner", help="Owning application.")]
Declaration = Annotated[Path | None, typer.Option("--file", "-f", help="The whole declaration as JSON; flags override it.")]


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="event-types", rich_help_panel="Streams")


@app.command("list")
@on_cluster
def list_all(session: ClusterSession) -> None:
    """List all event types.

    Example: meantime event-types list
    """
    found = session.client.event_types()
    if session.json:
        print_json(found)
        return
    rows = [
        [
            event_type.name,
            event_type.category,
            event_type.partition_strategy,
            _partitions(event_type),
            _retention(event_type),
            event_type.owning_application,
        ]
        for event_type in found
    ]
    print_table(["name", "category", "strategy", "partitions", "retention", "owner"], rows)


@app.command()
@on_cluster
def show(session: ClusterSession, name: EventTypeName) -> None:
    """Show one event type with its partitions and timelines.

    Example: meantime event-types show orders
    """
    client = session.client
    event_type, partitions, timelines = client.event_type(name), client.partitions(name), client.timelines(name)
    if session.json:
        document = msgspec.to_builtins(event_type)
        print_json(document | {"partitions": partitions, "timelines": timelines})
        return
    details: list[list[object]] = [
        ["category", event_type.category],
        ["strategy", event_type.partition_strategy],
        ["key fields", ", ".join(event_type.partition_key_fields or [])],
        ["retention", _retention(event_type)],
        ["owner", event_type.owning_application],
    ]
    print_table([event_type.name, ""], details)
    print_line("")
    print_table(
        ["partition", "oldest", "newest"],
        [[p.partition, p.oldest_available_offset, p.newest_available_offset] for p in partitions],
    )
    print_line("")
    print_table(
        ["timeline", "storage", "topic", "switched at", "latest position"],
        [[t.order, t.storage_id, t.topic, _instant(t.switched_at), _position(t.latest_position)] for t in timelines],
    )


@app.command()
@on_cluster
def create(
    session: ClusterSession,
    name: EventTypeName,
    partitions: Partitions = None,
    category: Category = None,
    strategy: Strategy = None,
    key_field: KeyField = None,
    schema: SchemaFile = None,
    retention: Retention = None,
    owner: Owner = None,
    adopt_topic: Annotated[
        str | None, typer.Option("--adopt-topic", help="Serve this Kafka topic, which exists already.")
    ] = None,
    file: Declaration = None,
) -> None:
    """Declare an event type. Only the name is needed.

    Example: meantime event-types create orders --partitions 4 --strategy hash --key-field id --retention 7d
    """
    declared = _declared(name, file, _given(category, strategy, key_field, owner))
    session.client.create_event_type(
        declared,
        partitions=partitions,
        schema=_json_file(schema) if schema else None,
        retention_for=seconds(retention) if retention else None,
        adopt_topic=adopt_topic,
    )
    _done(session, "created", name)


@app.command()
@on_cluster
def update(
    session: ClusterSession,
    name: EventTypeName,
    schema: SchemaFile = None,
    retention: Retention = None,
    owner: Owner = None,
    file: Declaration = None,
) -> None:
    """Change an event type. What is not given stays as it is; name and category cannot change.

    Example: meantime event-types update orders --retention 14d
    """
    from meantime.sdk.model import Schema

    current = session.client.event_type(name)
    changes = _given(None, None, None, owner)
    if schema:
        text = msgspec.json.encode(_json_file(schema)).decode()
        changes["schema"] = Schema(type="json_schema", schema=text)
    if retention:
        changes["options"] = (current.options or {}) | {"retention_time": round(seconds(retention) * 1000)}
    declared = _declared(name, file, {}) if file else current
    session.client.update_event_type(msgspec.structs.replace(declared, **changes))
    _done(session, "updated", name)


@app.command()
@on_cluster
def delete(session: ClusterSession, name: EventTypeName, yes: Yes = False) -> None:
    """Delete an event type and all its events.

    Example: meantime event-types delete orders --yes
    """
    confirm(f"Delete the event type {name!r} and all its events?", yes)
    session.client.delete_event_type(name)
    _done(session, "deleted", name)


def _given(category: str | None, strategy: str | None, key_fields: list[str] | None, owner: str | None) -> dict[str, Any]:
    values = {
        "category": category,
        "partition_strategy": strategy or ("hash" if key_fields else None),
        "partition_key_fields": key_fields or None,
        "owning_application": owner,
    }
    return {name: value for name, value in values.items() if value is not None}


def _declared(name: str, file: Path | None, given: dict[str, Any]) -> Any:
    from meantime.sdk.model import EventType

    read = _json_file(file) if file else {}
    if ignored := list(unknown_fields(read, known_fields(EventType))):
        say(f"warning: {file} has what nobody knows, and it is ignored: {', '.join(ignored)}")
    try:
        return msgspec.convert({**read, "name": name, **given}, EventType)
    except msgspec.ValidationError as error:
        raise Invalid(f"{file} is not the declaration of an event type: {error}") from error


def _json_file(file: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, Any])
    except OSError as error:
        raise Invalid(f"cannot read {file}: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise Invalid(f"{file} is not a JSON object: {error}") from error


def _partitions(event_type: Any) -> int:
    statistic = event_type.default_statistic
    return max(statistic.read_parallelism or 1, statistic.write_parallelism or 1) if statistic else 1


def _retention(event_type: Any) -> str:
    kept_ms = (event_type.options or {}).get("retention_time")
    return human(kept_ms / 1000) if kept_ms else ""


def _instant(text: str | None) -> str:
    return clock_time(datetime.fromisoformat(text).timestamp() * 1000) if text else ""


def _position(position: dict[str, Any] | None) -> str:
    return ", ".join(str(offset) for offset in (position or {}).get("offsets", []))


def _done(session: ClusterSession, verb: str, name: str) -> None:
    if session.json:
        print_json({verb: name})
    else:
        say(f"{verb} {name}")
