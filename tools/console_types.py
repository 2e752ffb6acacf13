"""Writes console/src/api/types.ts: what the console knows of the API, from the same table that nodes route by.

`make docs` runs it; a unit test fails while the committed file differs from what the code says, and then the type check of
the console shows what has to follow. Fields that an answer may leave out are optional in TypeScript too.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from meantime.api.openapi import document
from meantime.api.table import TABLE

FILE = Path(__file__).parents[1] / "console" / "src" / "api" / "types.ts"
NOTE = "// Written by `make docs` from the table of the API. Do not edit it here."
PLAIN = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}

Schema = dict[str, Any]


def module() -> str:
    """The whole file."""
    described = document(TABLE)
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    ]
    schemas = described["components"]["schemas"]
    lines = [NOTE, "// deno-fmt-ignore-file", ""]
    for name in _wanted(operations, schemas):
        lines += [f"export type {name} = {_type(schemas[name])};", ""]
    lines += ["export interface Operations {"]
    lines += [line for name, operation in operations for line in _operation(name, operation)]
    return "\n".join([*lines, "}", ""])


def _wanted(operations: list[tuple[str, Schema]], schemas: dict[str, Schema]) -> list[str]:
    """The schemas that operations name, and those that these name."""
    found: set[str] = set()
    ahead = set(_references(operations))
    while ahead:
        name = ahead.pop()
        found.add(name)
        ahead |= set(_references(schemas[name])) - found
    return sorted(found)


def _references(part: Any) -> Iterator[str]:
    yield from re.findall(r'"#/components/schemas/(\w+)"', json.dumps(part))


def _operation(name: str, operation: Schema) -> Iterator[str]:
    yield f"  {json.dumps(name)}: {{"
    for place in ("path", "query"):
        given = [one for one in operation.get("parameters", ()) if one["in"] == place]
        fields = [f"{_key(one['name'])}{'' if one.get('required') else '?'}: {_type(one['schema'])}" for one in given]
        yield f"    {place}: {{ {'; '.join(fields)} }};" if fields else f"    {place}: Record<never, never>;"
    body = operation.get("requestBody")
    yield f"    body: {_type(body['content']['application/json']['schema']) if body else 'undefined'};"
    yield f"    answer: {_answer(operation['responses'])};"
    yield "  };"


def _answer(responses: Schema) -> str:
    """Of what went well; 207 and the like have the form of what went well in part."""
    contents = [answer.get("content") for status, answer in responses.items() if status.startswith("2")]
    kinds = [_type(one["schema"]) for content in contents for one in (content or {}).values()]
    kinds += ["undefined"] * (None in contents)
    return " | ".join(dict.fromkeys(kinds))


def _type(schema: Schema) -> str:
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "enum" in schema:
        return " | ".join(json.dumps(value) for value in schema["enum"])
    if choices := schema.get("anyOf"):
        kinds = dict.fromkeys(_type(one) for one in choices if one.keys() - {"required"})
        return " | ".join(kinds) if kinds else "unknown"
    if schema.get("type") == "array":
        return _array(schema)
    if schema.get("type") == "object":
        return _object(schema)
    return PLAIN.get(str(schema.get("type")), "unknown")


def _array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"[{', '.join(_type(one) for one in schema['prefixItems'])}]"
    return f"Array<{_type(schema.get('items', {}))}>"


def _object(schema: Schema) -> str:
    required = set(schema.get("required", ()))
    properties = schema.get("properties", {})
    fields = [f"{_key(name)}{'' if name in required else '?'}: {_type(one)}" for name, one in properties.items()]
    if fields:
        return f"{{ {'; '.join(fields)} }}"
    rest = schema.get("additionalProperties")
    return f"Record<string, {_type(rest) if isinstance(rest, dict) else 'unknown'}>"


def _key(name: str) -> str:
    return name if name.isidentifier() else json.dumps(name)


def main() -> None:
    text = module()
    if not FILE.exists() or FILE.read_text("utf-8") != text:
        FILE.parent.mkdir(parents=True, exist_ok=True)
        FILE.write_text(text, "utf-8")
        print(f"wrote {FILE.name}")


if __name__ == "__main__":
    main()
