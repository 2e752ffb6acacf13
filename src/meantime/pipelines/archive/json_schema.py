"""The JSON schema of an event type as Spark's types, as far as they can say the same.

What has no counterpart — unions, free-form objects, anything undeclared — stays JSON text, so nothing is lost.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

TEXT = "string"
METADATA = (
    "struct<eid:string,event_type:string,occurred_at:string,received_at:string,partition:string,flow_id:string,"
    "version:string>"
)
_SIMPLE = {"string": TEXT, "integer": "bigint", "number": "double", "boolean": "boolean"}


def fields_type(category: str, schema: str) -> str | None:
    """The type of a whole event as a Spark DDL string; None where the schema names no property."""
    try:
        declared = spark_type(msgspec.json.decode(schema))
    except msgspec.DecodeError:
        return None
    known = declared if declared.startswith("struct<") else None
    if category == "data":
        return f"struct<data:{declared},data_op:string,data_type:string,metadata:{METADATA}>"
    if category == "business" and known and "`metadata`" not in known:
        return f"struct<metadata:{METADATA},{known.removeprefix('struct<')}"
    return known


def spark_type(schema: Any) -> str:
    if not isinstance(schema, Mapping):
        return TEXT
    kind = schema.get("type")
    if isinstance(kind, list):
        kinds = [one for one in kind if one != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind == "object" or (kind is None and "properties" in schema):
        return _struct(schema.get("properties"))
    if kind == "array":
        return f"array<{spark_type(schema.get('items'))}>"
    return _SIMPLE.get(str(kind), TEXT)


def _struct(properties: Any) -> str:
    if not isinstance(properties, Mapping) or not properties:
        return TEXT
    names = {str(name).lower() for name in properties}
    if len(names) < len(properties):
        return TEXT  # Spark does not tell names apart by case
    return f"struct<{','.join(f'{_quoted(name)}:{spark_type(one)}' for name, one in properties.items())}>"


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
