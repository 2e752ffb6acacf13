"""`/schema`: the API as a page for people and as an OpenAPI document for machines."""

from collections.abc import Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from meantime.api.call import Answer, HttpCall
from meantime.api.openapi import document
from meantime.api.routing import Route
from meantime.api.schema_page import page

HTML = Annotated[str, msgspec.Meta(extra_json_schema={"contentMediaType": "text/html"})]


def schema_routes(routes: Sequence[Route]) -> list[Route]:
    """The routes that show the others, and themselves. What they show is made when it is first asked for."""

    @lru_cache(maxsize=1)
    def described() -> dict[str, Any]:
        return document([*routes, *shown])

    async def schema_document(call: HttpCall[None, None]) -> Answer:
        """The API as an OpenAPI document"""
        return Answer(200, msgspec.json.encode(described()))

    async def schema_page(call: HttpCall[None, None]) -> Answer:
        """The API as a page, or as an OpenAPI document for who asks for JSON by `Accept`"""
        vary = {"Vary": "Accept"}
        if prefers_json(call.header(b"accept") or ""):
            return Answer(200, msgspec.json.encode(described()), headers=vary)
        return Answer(200, page(described()), headers=vary, media_type=b"text/html; charset=utf-8")

    shown = [
        Route("GET", "/schema", None, schema_page, {200: (HTML, dict[str, Any])}),
        Route("GET", "/schema/openapi.json", None, schema_document, {200: dict[str, Any]}),
    ]
    return shown


def prefers_json(accept: str) -> bool:
    """Whether JSON is wanted more than a page; of two that are wanted alike, the first."""
    wanted = [(_weight(parameters), name.strip().lower()) for name, _, parameters in _parts(accept)]
    found = [(weight, name) for weight, name in wanted if weight > 0 and (name == "text/html" or _is_json(name))]
    return bool(found) and _is_json(max(found, key=lambda one: one[0])[1])


def _parts(accept: str) -> list[tuple[str, str, str]]:
    return [one.partition(";") for one in accept.split(",")]


def _is_json(media_type: str) -> bool:
    return media_type == "application/json" or media_type.endswith("+json")


def _weight(parameters: str) -> float:
    for one in parameters.split(";"):
        name, _, value = one.partition("=")
        if name.strip().lower() == "q":
            try:
                return float(value)
            except ValueError:
                return 0.0
    return 1.0
