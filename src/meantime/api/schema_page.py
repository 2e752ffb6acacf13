"""`/schema` as a page that needs nothing from outside: every operation, what it takes and what it answers."""

import json
from html import escape
from typing import Any

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1c2733}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem;border-bottom:1px solid #d5dde5}
code{font:13px ui-monospace,monospace}.m{display:inline-block;width:4.5rem;font-weight:600}
details{margin:.3rem 0}summary{cursor:pointer}table{border-collapse:collapse;margin:.4rem 0 .8rem 4.7rem}
td{padding:.1rem .8rem .1rem 0;vertical-align:top}p,pre{margin:.2rem 0 .2rem 4.7rem}pre{overflow:auto}
@media(prefers-color-scheme:dark){body{background:#14191f;color:#d8e0e8}h2{border-color:#333d48}}
"""


def page(document: dict[str, Any]) -> bytes:
    info = document["info"]
    schemas = document["components"]["schemas"]
    groups: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            groups.setdefault(operation["tags"][0], []).append(_operation(method, path, operation, schemas))
    sections = "".join(f"<h2>{escape(name)}</h2>{''.join(rows)}" for name, rows in groups.items())
    title = f"{escape(info['title'])} {escape(info['version'])}"
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
        f"<p style='margin-left:0'>For machines: <a href='/schema/openapi.json'>openapi.json</a></p>{sections}</html>"
    ).encode()


def _operation(method: str, path: str, operation: dict[str, Any], schemas: dict[str, Any]) -> str:
    rows = [
        _row(one["name"], one["schema"], one["required"], schemas, one["in"]) for one in operation.get("parameters") or []
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    if body is not None:
        rows += _fields(body, schemas)
    right = f"<p>Scope: <code>{escape(operation['x-scope'])}</code></p>" if "x-scope" in operation else ""
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code><td>{escape(answer['description'])}</tr>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<details><summary><span class=m>{method.upper()}</span><code>{escape(path)}</code>"
        f" {escape(operation['summary'])}</summary><p>{_marked(operation.get('description', ''))}</p>{right}"
        f"<table>{''.join(rows)}</table><table>{answers}</table></details>"
    )


def _marked(text: str) -> str:
    """What stands between backticks is code."""
    return "".join(
        f"<code>{escape(part)}</code>" if number % 2 else escape(part) for number, part in enumerate(text.split("`"))
    )


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> list[str]:
    """A row for each field of the body, those that are needed first."""
    found = _resolved(schema, schemas)
    if "properties" not in found:
        return [_row("the body", schema, True, schemas)]
    required = found.get("required", ())
    named = sorted(found["properties"].items(), key=lambda item: item[0] not in required)
    return [_row(name, one, name in required, schemas) for name, one in named]


def _row(name: str, schema: dict[str, Any], required: bool, schemas: dict[str, Any], place: str = "body") -> str:
    default = schema.get("default")
    remark = "required" if required else "" if default is None else f"default {json.dumps(default)}"
    return f"<tr><td><code>{escape(name)}</code><td>{place}<td>{escape(kind(schema, schemas))}<td>{escape(remark)}</tr>"


def kind(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """A schema in a few words. Null is the same as absent, so it is not worth one."""
    found = _resolved(schema, schemas)
    if "anyOf" in found:
        return " or ".join(kind(one, schemas) for one in found["anyOf"] if one.get("type") != "null")
    if "enum" in found:
        return " | ".join(str(one) for one in found["enum"])
    if "properties" in found:
        return "{" + ", ".join(found["properties"]) + "}"
    if "items" in found:
        return f"array{_bounds(found, 'minItems', 'maxItems')} of {kind(found['items'], schemas)}"
    bounds = _bounds(found, "minimum", "maximum") + _bounds(found, "minLength", "maxLength", " characters")
    return f"{_TYPES.get(found.get('type', ''), 'any JSON')}{bounds}"


_TYPES = {"string": "text", "integer": "integer", "number": "number", "boolean": "true or false", "object": "object"}


def _bounds(schema: dict[str, Any], lowest: str, highest: str, unit: str = "") -> str:
    least, most = schema.get(lowest), schema.get(highest)
    if least is None and most is None:
        return ""
    if least is None or most is None:
        return f" from {least:,}{unit}" if most is None else f" to {most:,}{unit}"
    return f" {least:,} to {most:,}{unit}"


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return schemas[name] if name else schema
