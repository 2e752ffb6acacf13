"""The OpenAPI document, made from the table: nothing in it is written by hand a second time."""

import inspect
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from meantime import __version__
from meantime.api.problems import MEDIA_TYPE
from meantime.api.routing import Route

Schema = dict[str, Any]

REFERENCE = "#/components/schemas/{name}"
PROBLEM = MEDIA_TYPE.decode()


class Problem(msgspec.Struct):
    """What went wrong (RFC 9457). `code` never changes; more fields say what the caller needs next."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    retryable: bool


def document(routes: Sequence[Route]) -> Schema:
    """The whole API."""
    kinds = _kinds(routes)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=REFERENCE)
    by_kind = {repr(kind): schema for kind, schema in zip(kinds, schemas, strict=True)}
    paths: dict[str, Schema] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, by_kind)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Meantime", "version": __version__, "description": "An event broker with a sense of time."},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _kinds(routes: Sequence[Route]) -> list[Any]:
    found: dict[str, Any] = {repr(Problem): Problem}
    for route in routes:
        answers = [kind for choices in route.answers.values() for kind in _choices(choices)]
        for kind in (*answers, *_choices(route.takes and route.takes.type)):
            found[repr(kind)] = kind
    return list(found.values())


def _choices(kind: Any) -> tuple[Any, ...]:
    """Several where the client may choose among media types."""
    return kind if isinstance(kind, tuple) else () if kind is None else (kind,)


def _operation(route: Route, schemas: dict[str, Schema]) -> Schema:
    summary, description = words(route)
    operation: Schema = {"tags": [tag(route)], "summary": summary, "operationId": operation_id(route)}
    if description:
        operation["description"] = description
    if route.scope is not None:
        operation["x-scope"] = route.scope.text
        operation["security"] = [{"key": []}]
    if parameters := [*_path_parameters(route), *_described(route.query, "query"), *_described(route.headers, "header")]:
        operation["parameters"] = parameters
    if route.takes is not None:
        content = {"application/json": {"schema": schemas[repr(route.takes.type)]}}
        operation["requestBody"] = {"content": content, "required": not route.takes.optional}
    operation["responses"] = _responses(route, schemas)
    return operation


def words(route: Route) -> tuple[str, str]:
    """The summary and the description, which the handler's docstring has."""
    summary, _, description = (inspect.getdoc(route.handler) or "").partition("\n")
    return summary.rstrip("."), " ".join(description.split())


def tag(route: Route) -> str:
    return route.handler.__module__.removeprefix("meantime.api.").split(".")[0]


def operation_id(route: Route) -> str:
    module = route.handler.__module__.removeprefix("meantime.api.")
    return f"{module}.{route.handler.__qualname__}".replace(".", "_")


def _path_parameters(route: Route) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in re.findall(r"\{(\w+)\}", route.path)
    ]


def _described(kind: type[msgspec.Struct] | None, place: str) -> list[Schema]:
    """The fields of a struct as parameters."""
    if kind is None:
        return []
    (_,), components = msgspec.json.schema_components([kind], ref_template=REFERENCE)
    schema = components[kind.__name__]
    required = set(schema.get("required", ()))
    return [
        {"name": name, "in": place, "required": name in required, "schema": _without_null(one)}
        for name, one in schema["properties"].items()
    ]


def _without_null(schema: Schema) -> Schema:
    """A parameter is there or not; JSON's null cannot be said in an address."""
    choices = [one for one in schema.get("anyOf", ()) if one.get("type") != "null"]
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if rest.get("default", ...) is None:
        del rest["default"]
    return rest | (choices[0] if len(choices) == 1 else {"anyOf": choices}) if choices else rest


def _responses(route: Route, schemas: dict[str, Schema]) -> Schema:
    responses: Schema = {}
    for status, kind in route.answers.items():
        answer: Schema = {"description": "A stream that does not end by itself." if route.streams else "Done."}
        for choice in _choices(kind):
            schema = schemas[repr(choice)]
            plain = "text/plain" if choice is str else "application/json"
            media_type = route.streams or schema.get("contentMediaType", plain)
            answer.setdefault("content", {})[media_type] = {"schema": schema}
        responses[str(status)] = answer
    problem = {PROBLEM: {"schema": schemas[repr(Problem)]}}
    refusals = {400: "The request cannot be read."}
    if route.scope is not None:
        refusals |= {401: "Say who you are.", 403: f"The key lacks the right: {route.scope.text}."}
    responses |= {str(status): {"description": why, "content": problem} for status, why in refusals.items()}
    responses["default"] = {"description": "What went wrong.", "content": problem}
    return responses
