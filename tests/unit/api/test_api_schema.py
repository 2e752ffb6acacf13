"""The OpenAPI document: whatever reads a body says what it reads."""

from types import SimpleNamespace
from typing import Any

import pytest

from meantime.api.app import Services, create_app
from meantime.api.openapi import BODIES, with_bodies

WITHOUT_BODY = {
    ("put", "/storages/default/{storage_id}"),
    ("post", "/apps/{app}/pause"),
    ("post", "/apps/{app}/resume"),
    ("post", "/apps/{app}/queues/{queue}/pause"),
    ("post", "/apps/{app}/queues/{queue}/resume"),
}


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    nothing: Any = SimpleNamespace(reading=None, subscriptions=None)
    schema = create_app(Services(*[nothing] * len(Services.__slots__))).openapi_schema.to_schema()
    return with_bodies(schema)


def test_every_operation_that_takes_a_body_describes_it(document: dict[str, Any]) -> None:
    writing = {
        (method, path) for path, item in document["paths"].items() for method in item if method in ("post", "put", "patch")
    }
    described = {key for key in writing if "requestBody" in document["paths"][key[1]][key[0]]}
    assert writing - described == WITHOUT_BODY
    assert described == set(BODIES)


def test_an_event_type_needs_its_name(document: dict[str, Any]) -> None:
    body = document["paths"]["/event-types"]["post"]["requestBody"]
    assert body["required"] is True
    assert "name" in body["content"]["application/json"]["schema"]["required"]
