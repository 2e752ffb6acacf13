"""The table and the OpenAPI document that comes of it."""

import inspect
from typing import Any

import pytest

from meantime.api.openapi import document, operation_id, words
from meantime.api.schema import prefers_json, schema_routes
from meantime.api.schema_page import page
from meantime.api.table import TABLE

WITHOUT_BODY = {
    ("post", "/console/logout"),
    ("put", "/storages/default/{storage_id}"),
    ("post", "/apps/{app}/pause"),
    ("post", "/schedules/{id}/resume"),
    ("post", "/apps/{app}/resume"),
    ("post", "/apps/{app}/queues/{queue}/pause"),
    ("post", "/apps/{app}/queues/{queue}/resume"),
}
PUBLIC = {
    *("/health", "/ready", "/clock", "/schema", "/schema/openapi.json"),
    *("/console/login", "/console/logout", "/console/session"),
}
ROUTES = [*TABLE, *schema_routes(TABLE)]


@pytest.fixture(scope="module")
def described() -> dict[str, Any]:
    return document(ROUTES)


def test_every_operation_that_takes_a_body_describes_it(described: dict[str, Any]) -> None:
    writing = {
        (method, path) for path, item in described["paths"].items() for method in item if method in ("post", "put", "patch")
    }
    assert {key for key in writing if "requestBody" not in described["paths"][key[1]][key[0]]} == WITHOUT_BODY


def test_an_event_type_needs_its_name(described: dict[str, Any]) -> None:
    body = described["paths"]["/event-types"]["post"]["requestBody"]
    assert body["required"] is True
    name = body["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
    assert described["components"]["schemas"][name]["required"] == ["name"]


def test_only_what_everybody_may_see_asks_for_no_key() -> None:
    assert {route.path for route in ROUTES if route.scope is None} == PUBLIC


def test_every_row_has_words_and_an_operation_of_its_own() -> None:
    assert [route.path for route in ROUTES if not words(route)[0]] == []
    assert len({operation_id(route) for route in ROUTES}) == len(ROUTES)


def test_no_handler_stands_outside_of_the_table() -> None:
    """What looks like a handler and has no row would be dead, or a way past the table."""
    named = {route.handler for route in TABLE}
    modules = {inspect.getmodule(handler) for handler in named}
    handlers = {
        found
        for module in modules
        for name, found in inspect.getmembers(module, inspect.iscoroutinefunction)
        if found.__module__ == module.__name__
        and not name.startswith("_")  # type: ignore[union-attr]
        and list(inspect.signature(found).parameters) == ["call"]
    }
    assert handlers - named == set()


def test_the_page_shows_every_operation(described: dict[str, Any]) -> None:
    html = page(described).decode()
    assert html.count("<details>") == len(ROUTES)


@pytest.mark.parametrize(
    ("accept", "wanted"),
    [
        ("application/json", True),
        ("Application/JSON; charset=utf-8", True),
        ("application/vnd.oai.openapi+json", True),
        ("application/json, text/plain, */*", True),
        ("text/html;q=0.5, application/json", True),
        ("application/json, text/html", True),
        ("", False),
        ("*/*", False),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", False),
        ("text/html, application/json", False),
        ("application/json;q=0", False),
        ("application/json;q=much", False),
        (",;q=,", False),
    ],
)
def test_the_schema_is_json_for_who_asks_for_json(accept: str, wanted: bool) -> None:
    assert prefers_json(accept) is wanted


def test_the_document_names_both_forms_of_the_schema(described: dict[str, Any]) -> None:
    assert set(described["paths"]["/schema"]["get"]["responses"]["200"]["content"]) == {"text/html", "application/json"}
