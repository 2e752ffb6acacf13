"""What requests carry, for the OpenAPI document.

Handlers decode bodies themselves, so that each entry of a batch is judged alone and nothing is decoded twice. This table
says the same in JSON Schema, for readers and for generators of clients.
"""

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
FLAG: Schema = {"type": "boolean"}
ANYTHING: Schema = {}
NAMES: Schema = {"type": "array", "items": TEXT}
FIELDS: Schema = {"type": "object"}


def _object(*required: str, **fields: Schema) -> Schema:
    return {"type": "object", "properties": fields} | ({"required": list(required)} if required else {})


def _array(items: Schema, most: int | None = None) -> Schema:
    return {"type": "array", "items": items} | ({"minItems": 1, "maxItems": most} if most else {})


CURSOR = _object("partition", "offset", partition=TEXT, offset=TEXT)
SUBSCRIBED_CURSOR = _object(
    "partition", "offset", "event_type", partition=TEXT, offset=TEXT, event_type=TEXT, cursor_token=TEXT
)
INSTANT: dict[str, Schema] = {"at_ms": NUMBER, "after_ms": NUMBER}
MOVE = _object(version=NUMBER, **INSTANT)
LEASES = _object(
    "consumer_id",
    "leases",
    consumer_id=TEXT,
    leases=_array(_object("id", "version", id=TEXT, version=NUMBER, **INSTANT), 10_000),
)
EVENT_TYPE = _object(
    "name",
    "owning_application",
    "category",
    "schema",
    name=TEXT,
    owning_application=TEXT,
    category={"type": "string", "enum": ["undefined", "business", "data"]},
    schema=_object("type", "schema", type={"type": "string", "enum": ["json_schema"]}, schema=TEXT),
    partition_strategy={"type": "string", "enum": ["random", "hash", "user_defined"]},
    partition_key_fields=NAMES,
    enrichment_strategies=NAMES,
    default_statistic=_object(
        messages_per_minute=NUMBER, message_size=NUMBER, read_parallelism=NUMBER, write_parallelism=NUMBER
    ),
    options=_object(retention_time=NUMBER),
    cleanup_policy={"type": "string", "enum": ["delete", "compact"]},
    compatibility_mode={"type": "string", "enum": ["fixed", "compatible", "none"]},
    adopt_topic=TEXT,
    adopt_storage_id=TEXT,
)
SUBSCRIPTION = _object(
    "owning_application",
    "event_types",
    owning_application=TEXT,
    event_types=NAMES,
    consumer_group=TEXT,
    read_from={"type": "string", "enum": ["begin", "end", "cursors"]},
    initial_cursors=_array(SUBSCRIBED_CURSOR),
)
TIMER = _object(
    "callback_topic",
    at={"type": "number"},
    after={"type": "number"},
    callback_topic=TEXT,
    callback_key=TEXT,
    callback=ANYTHING,
    callback_b64=TEXT,
    token=TEXT,
)

BODIES: dict[tuple[str, str], Schema] = {
    ("post", "/event-types"): EVENT_TYPE,
    ("put", "/event-types/{name}"): EVENT_TYPE,
    ("post", "/event-types/{name}/events"): _array(FIELDS),
    ("post", "/event-types/{name}/cursor-distances"): _array(
        _object("initial_cursor", "final_cursor", initial_cursor=CURSOR, final_cursor=CURSOR)
    ),
    ("post", "/event-types/{name}/shifted-cursors"): _array(
        _object("partition", "offset", partition=TEXT, offset=TEXT, shift=NUMBER)
    ),
    ("post", "/event-types/{name}/cursors-lag"): _array(CURSOR),
    ("post", "/event-types/{name}/timelines"): _object("storage_id", storage_id=TEXT, force=FLAG),
    ("post", "/storages"): _object(
        "id",
        "storage_type",
        "kafka_configuration",
        id=TEXT,
        storage_type={"type": "string", "enum": ["kafka"]},
        kafka_configuration=_object("bootstrap_servers", bootstrap_servers=TEXT, settings=FIELDS),
        default=FLAG,
    ),
    ("post", "/subscriptions"): SUBSCRIPTION,
    ("put", "/subscriptions/{id}"): SUBSCRIPTION,
    ("post", "/subscriptions/{id}/events"): _object(
        partitions=_array(_object("partition", "event_type", partition=TEXT, event_type=TEXT)),
        batch_limit=NUMBER,
        stream_limit=NUMBER,
        batch_flush_timeout=NUMBER,
        stream_timeout=NUMBER,
        stream_keep_alive_limit=NUMBER,
        max_uncommitted_events=NUMBER,
        commit_timeout=NUMBER,
    ),
    ("post", "/subscriptions/{id}/cursors"): _object("items", items=_array(SUBSCRIBED_CURSOR)),
    ("patch", "/subscriptions/{id}/cursors"): _object("items", items=_array(SUBSCRIBED_CURSOR)),
    ("put", "/topics/{topic}"): _object(
        bucket_count=NUMBER,
        max_future_ms=NUMBER,
        max_lease_ms=NUMBER,
        max_body_bytes=NUMBER,
        max_attempts=NUMBER,
        dead_letter_topic=TEXT,
        dedupe_ms=NUMBER,
    ),
    ("post", "/topics/{topic}/messages"): _object(
        "messages", messages=_array(_object(id=TEXT, body=ANYTHING, body_b64=TEXT, **INSTANT), 10_000)
    ),
    ("patch", "/topics/{topic}/messages/{message_id}"): MOVE,
    ("patch", "/topics/{topic}/messages/delete"): MOVE,
    ("post", "/topics/{topic}/messages/delete"): _object("ids", ids=_array(TEXT, 10_000)),
    ("post", "/topics/{topic}/leases"): _object(
        "consumer_id", consumer_id=TEXT, limit=NUMBER, lease_ms=NUMBER, wait_ms=NUMBER
    ),
    ("post", "/topics/{topic}/leases/extend"): LEASES,
    ("post", "/topics/{topic}/leases/release"): LEASES,
    ("post", "/topics/{topic}/leases/delete"): LEASES,
    ("post", "/topics/{topic}/redrive"): _object(to=TEXT, limit=NUMBER),
    ("post", "/timers"): {"oneOf": [TIMER, _object("timers", timers=_array(TIMER))]},
    ("put", "/apps/{app}/queues/{queue}/last"): _object("cursor", cursor=TEXT),
}
OPTIONAL = {("post", "/subscriptions/{id}/events"), ("put", "/topics/{topic}"), ("post", "/topics/{topic}/redrive")}


def with_bodies(document: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI document with what each operation reads."""
    paths = {
        path: {
            method: operation | _body(method, path) if isinstance(operation, dict) else operation
            for method, operation in item.items()
        }
        for path, item in document.get("paths", {}).items()
    }
    return document | {"paths": paths}


def _body(method: str, path: str) -> dict[str, Any]:
    schema = BODIES.get((method, path))
    if schema is None:
        return {}
    content = {"application/json": {"schema": schema}}
    return {"requestBody": {"content": content, "required": (method, path) not in OPTIONAL}}
