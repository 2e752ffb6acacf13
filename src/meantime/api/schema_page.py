"""`/schema` as a page that needs nothing from outside: every operation, what it takes and what it answers."""

import json
from html import escape
from typing import Any

from litestar.connection import Request
from litestar.openapi.plugins import JsonRenderPlugin, OpenAPIRenderPlugin

from meantime.api.openapi import with_bodies

_STYLE = """
body{font:15px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#1c2733}
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem;border-bottom:1px solid #d5dde5}
code{font:13px ui-monospace,monospace}.m{display:inline-block;width:4.5rem;font-weight:600}
details{margin:.3rem 0}summary{cursor:pointer}table{border-collapse:collapse;margin:.4rem 0 .8rem 4.7rem}
td{padding:.1rem .8rem .1rem 0;vertical-align:top}p{margin:.2rem 0 .2rem 4.7rem}
@media(prefers-color-scheme:dark){body{background:#14191f;color:#d8e0e8}h2{border-color:#333d48}}
"""


class SchemaPage(OpenAPIRenderPlugin):
    def __init__(self) -> None:
        super().__init__(path="/")

    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        info = openapi_schema["info"]
        groups: dict[str, list[str]] = {}
        for path, operations in with_bodies(openapi_schema)["paths"].items():
            for method, operation in operations.items():
                if isinstance(operation, dict) and "responses" in operation:
                    group = (operation.get("tags") or ["other"])[0]
                    groups.setdefault(group, []).append(_operation(method, path, operation))
        sections = "".join(f"<h2>{escape(name)}</h2>{''.join(rows)}" for name, rows in sorted(groups.items()))
        title = f"{escape(info['title'])} {escape(info['version'])}"
        return (
            f"<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
            f"<title>{title}</title><style>{_STYLE}</style><h1>{title}</h1>"
            f"<p style='margin-left:0'>For machines: <a href='/schema/openapi.json'>openapi.json</a></p>{sections}</html>"
        ).encode()


class SchemaDocument(JsonRenderPlugin):
    def render(self, request: Request[Any, Any, Any], openapi_schema: dict[str, Any]) -> bytes:
        return super().render(request, with_bodies(openapi_schema))


def _operation(method: str, path: str, operation: dict[str, Any]) -> str:
    about = escape(operation.get("summary") or "")
    detail = escape(operation.get("description") or "")
    parameters = "".join(
        f"<tr><td><code>{escape(parameter['name'])}</code><td>{escape(parameter['in'])}"
        f"<td>{'required' if parameter.get('required') else ''}<td>{escape(parameter.get('description') or '')}</tr>"
        for parameter in operation.get("parameters") or []
    )
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    carried = f"<p>Body: <code>{escape(json.dumps(body))}</code></p>" if body else ""
    answers = "".join(
        f"<tr><td><code>{escape(str(status))}</code><td>{escape(answer.get('description') or '')}</tr>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<details><summary><span class=m>{escape(method.upper())}</span><code>{escape(path)}</code> {about}</summary>"
        f"<p>{detail}</p>{carried}<table>{parameters}</table><table>{answers}</table></details>"
    )
