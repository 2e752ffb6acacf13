"""JSON schemas of event types: read from declarations, compiled once.

An event has an *envelope*, fixed by its category (metadata, and for `data` what is around the data), and a *payload*, which
the declared schema is about: all of an `undefined` event, a `business` event without its metadata, what is below `data`
in a `data` event. Keeping them apart leaves references and closed objects of the declared schema their meaning. A schema
never reaches out: references to other documents are refused.
"""

from typing import Any

import jsonschema_rs
import msgspec

from meantime.errors import Invalid
from meantime.streams.model import BUSINESS, DATA, UNDEFINED, EventType

Validator = Any
"""One of the validators of jsonschema_rs; they share no typed base."""


def check_schema(event_type: EventType) -> None:
    """Refuse a declared schema that cannot be compiled."""
    compile_schema(payload_schema(declared_schema(event_type.document), event_type.category))


def declared_schema(document: dict[str, Any]) -> Any:
    """The schema of a declaration, which carries it as text."""
    text = document["schema"]["schema"]
    try:
        schema = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise Invalid(f"schema.schema is not JSON: {error}") from error
    if not isinstance(schema, dict):
        raise Invalid("schema.schema must be a JSON object")
    return schema


def compile_schema(schema: dict[str, Any]) -> Validator:
    """Schemas of every draft are read; one that does not name its draft may use what draft 7 or draft 4 allow."""
    options: dict[str, Any] = {"validate_formats": True, "offline": True}
    try:
        if "$schema" in schema:
            return jsonschema_rs.validator_for(schema, **options)
        return _compile_undated(schema, options)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
        raise Invalid(f"schema.schema is not a valid JSON schema: {first_line(error)}") from error


def _compile_undated(schema: dict[str, Any], options: dict[str, Any]) -> Validator:
    try:
        return jsonschema_rs.Draft7Validator(schema, **options)
    except jsonschema_rs.ValidationError:
        try:
            return jsonschema_rs.Draft4Validator(schema, **options)
        except jsonschema_rs.ValidationError:
            pass
        raise


def payload_schema(declared: dict[str, Any], category: str) -> dict[str, Any]:
    """The declared schema, without what it says of the metadata of a business event."""
    if category != BUSINESS:
        return declared
    schema = dict(declared)
    if isinstance(schema.get("properties"), dict):
        schema["properties"] = {key: value for key, value in schema["properties"].items() if key != "metadata"}
    if isinstance(schema.get("required"), list):
        schema["required"] = [key for key in schema["required"] if key != "metadata"]
    return schema


def envelope_schema(category: str, name: str) -> dict[str, Any]:
    if category == UNDEFINED:
        return {}
    envelope: dict[str, Any] = {"type": "object", "properties": {"metadata": _metadata(name)}, "required": ["metadata"]}
    if category == DATA:
        envelope["properties"] |= {
            "data_op": {"type": "string", "enum": ["C", "U", "D", "S"]},
            "data_type": {"type": "string"},
            "data": {},
        }
        envelope["required"] = ["data_op", "data_type", "data", "metadata"]
        envelope["additionalProperties"] = False
    return envelope


def _metadata(name: str) -> dict[str, Any]:
    text = {"type": "string"}
    return {
        "type": "object",
        "properties": {
            "eid": {"type": "string", "minLength": 1},
            "occurred_at": {"type": "string", "format": "date-time"},
            "event_type": {"enum": [name]},
            "parent_eids": {"type": "array", "items": text},
            "flow_id": text,
            "partition": text,
            "partition_compaction_key": text,
        },
        "required": ["eid", "occurred_at"],
    }


def first_line(error: Exception) -> str:
    return str(getattr(error, "message", error)).split("\n", maxsplit=1)[0]
