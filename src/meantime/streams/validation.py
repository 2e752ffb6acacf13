"""Whether an event is what its event type promised, decided by one JSON schema compiled once per declaration.

The schema that events are held against is made of the declared one: for `business` it gains the event's metadata, for
`data` it describes what is below `data`. `undefined` events are held against the declared schema alone. A schema never
reaches out: references to other documents are refused.
"""

import copy
from typing import Any

import jsonschema_rs
import msgspec

from meantime.errors import Invalid
from meantime.streams.model import EventType

UNDEFINED = "undefined"
BUSINESS = "business"
DATA = "data"
CATEGORIES = (UNDEFINED, BUSINESS, DATA)

Validator = Any
"""One of the validators of jsonschema_rs; they share no typed base."""

_ANYTHING: tuple[dict[str, Any], ...] = (
    {},
    {"type": "object"},
    {"additionalProperties": True},
    {"type": "object", "additionalProperties": True},
)


class Validation:
    """The compiled rules of one event type. `trivial` tells that every object is fine, so none has to be looked at."""

    def __init__(self, event_type: EventType) -> None:
        declared = declared_schema(event_type.document)
        self.trivial = event_type.category == UNDEFINED and without_notes(declared) in _ANYTHING
        self._validator = compile_schema(effective_schema(declared, event_type.category, event_type.name))

    def fault(self, event: dict[str, Any]) -> str | None:
        """What is wrong with the event, or None."""
        if self.trivial or self._validator.is_valid(event):
            return None
        for error in self._validator.iter_errors(event):
            place = "/".join(str(step) for step in error.instance_path)
            return f"#/{place}: {error.message}"
        return None


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


def without_notes(schema: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key not in ("$schema", "$id", "title", "description", "$comment")}


def compile_schema(schema: dict[str, Any]) -> Validator:
    """Schemas of every draft are read; one that does not name its draft may use what draft 7 or draft 4 allow."""
    options: dict[str, Any] = {"validate_formats": True, "offline": True}
    try:
        if "$schema" in schema:
            return jsonschema_rs.validator_for(schema, **options)
        return _compile_undated(schema, options)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError, RecursionError) as error:
        raise Invalid(f"schema.schema is not a valid JSON schema: {_first_line(error)}") from error


def _compile_undated(schema: dict[str, Any], options: dict[str, Any]) -> Validator:
    try:
        return jsonschema_rs.Draft7Validator(schema, **options)
    except jsonschema_rs.ValidationError:
        try:
            return jsonschema_rs.Draft4Validator(schema, **options)
        except jsonschema_rs.ValidationError:
            pass
        raise


def effective_schema(declared: dict[str, Any], category: str, name: str) -> dict[str, Any]:
    if category == BUSINESS:
        return _with_metadata(declared, name)
    if category == DATA:
        return _around_data(declared, name)
    return declared


def _with_metadata(declared: dict[str, Any], name: str) -> dict[str, Any]:
    schema = copy.deepcopy(declared)
    schema["properties"] = {**_object(schema, "properties"), "metadata": _metadata(name)}
    required = schema.get("required", [])
    if not isinstance(required, list):
        raise Invalid("schema.schema is not a valid JSON schema: 'required' must be an array")
    schema["required"] = [*required, *([] if "metadata" in required else ["metadata"])]
    return schema


def _around_data(declared: dict[str, Any], name: str) -> dict[str, Any]:
    """`$defs` and `definitions` stay at the top, where references look for them."""
    data = copy.deepcopy(declared)
    shared: dict[str, Any] = {key: data.pop(key) for key in ("$schema", "$defs", "definitions") if key in data}
    return {
        **shared,
        "type": "object",
        "properties": {
            "data_op": {"type": "string", "enum": ["C", "U", "D", "S"]},
            "data_type": {"type": "string"},
            "data": data,
            "metadata": _metadata(name),
        },
        "required": ["data_op", "data_type", "data", "metadata"],
        "additionalProperties": False,
    }


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


def _object(schema: dict[str, Any], key: str) -> dict[str, Any]:
    value = schema.get(key, {})
    if not isinstance(value, dict):
        raise Invalid(f"schema.schema is not a valid JSON schema: {key!r} must be an object")
    return value


def _first_line(error: Exception) -> str:
    return str(getattr(error, "message", error)).split("\n", maxsplit=1)[0]
