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
        """The API as a page"""
        return Answer(200, page(described()), media_type=b"text/html; charset=utf-8")

    shown = [
        Route("GET", "/schema", None, schema_page, {200: HTML}),
        Route("GET", "/schema/openapi.json", None, schema_document, {200: dict[str, Any]}),
    ]
    return shown
