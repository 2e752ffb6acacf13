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
    parameters = "".join(
        f"<tr><td><code>{escape(one['name'])}</code><td>{escape(one['in'])}"
        f"<td>{'required' if one.get('required') else ''}<td>{escape(_short(one['schema'], schemas))}</tr>"
        for one in operation.get("parameters") or []
    )
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    taken = f"<p>Body:</p><pre>{escape(_fields(body, schemas))}</pre>" if body is not None else ""
    right = f"<p>Scope: <code>{escape(operation['x-scope'])}</code></p>" if "x-scope" in operation else ""
    answers = "".join(
        f"<tr><td><code>{escape(status)}</code><td>{escape(answer['description'])}</tr>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<details><summary><span class=m>{method.upper()}</span><code>{escape(path)}</code>"
        f" {escape(operation['summary'])}</summary><p>{escape(operation.get('description', ''))}</p>{right}{taken}"
        f"<table>{parameters}</table><table>{answers}</table></details>"
    )


def _fields(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    """The fields of a body, one a line."""
    found = _resolved(schema, schemas)
    if "properties" not in found:
        return _short(schema, schemas)
    required = set(found.get("required", ()))
    return "\n".join(
        f"{name}{' (required)' if name in required else ''}: {_short(one, schemas)}"
        for name, one in found["properties"].items()
    )


def _short(schema: dict[str, Any], schemas: dict[str, Any]) -> str:
    found = {key: value for key, value in _resolved(schema, schemas).items() if key not in ("title", "description")}
    if "anyOf" in found:
        found = {"any of": [_short(one, schemas) for one in found["anyOf"]]} | (
            {"default": d} if (d := found.get("default")) else {}
        )
    if "properties" in found:
        return "{" + ", ".join(found["properties"]) + "}"
    if "items" in found:
        return f"[{_short(found['items'], schemas)}]" + (f", at most {found['maxItems']}" if "maxItems" in found else "")
    return json.dumps(found)


def _resolved(schema: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return schemas[name] if name else schema
