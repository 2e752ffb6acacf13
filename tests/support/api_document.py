"""The OpenAPI document as tests use it: its operations, every constrained place in what they take, values inside and outside
of what it says about a place, and whether an answer is as it says."""

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import quote

import httpx
import jsonschema_rs
import pytest
from api_world import NOTHING, ApiRequest, ApiWorld

Schema = dict[str, Any]
Path = tuple[str | int, ...]

IDENTIFIER = "^[0-9A-Za-z._:@-]{1,128}$"
PATTERNS = {
    IDENTIFIER: (["a", "A.b_c:d@e-1", "x" * 128], ["a b", "\u00fc", "x" * 129]),
    "^[a-zA-Z][-0-9a-zA-Z_]*(\\.[0-9a-zA-Z][-0-9a-zA-Z_]*)*$": (
        ["a", "a.b-c_1", "a.0"],
        ["", "1a", "a..b", "a.", "a b", "\u00e9"],
    ),
    "^[a-zA-Z0-9._-]{1,249}$": ([], ["", "a b", "a" * 250]),
}
"""Texts that fit each pattern of the document, and texts that do not."""

WRONG = {"string": "no", "integer": 5, "number": 1.5, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True)
class Place:
    """Where something may stand in a request: in `query`, `header` or `body`, and what the document says about it."""

    path: Path
    schema: Schema
    required: bool

    def __str__(self) -> str:
        return "".join("[]" if isinstance(part, int) else f".{part}" for part in self.path).removeprefix(".")


class Operation:
    def __init__(self, document: Schema, method: str, path: str) -> None:
        self.document = document
        self.method = method
        self.path = path
        self.described = document["paths"][path][method.lower()]

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def streams(self) -> bool:
        media_types = self.described["responses"].get("200", {}).get("content", {})
        return bool({"application/x-json-stream", "application/x-ndjson", "text/event-stream"} & set(media_types))

    @property
    def body(self) -> Schema | None:
        body = self.described.get("requestBody")
        return body and body["content"]["application/json"]["schema"]

    def parameters(self) -> Iterator[Place]:
        for one in self.described.get("parameters", ()):
            if one["in"] != "path":
                yield Place((one["in"], one["name"]), one["schema"], one["required"])

    def places(self, body: Any) -> Iterator[Place]:
        """Every place in the query, the headers and this body. What the body does not show is not gone into."""
        yield from self.parameters()
        if self.body is not None:
            yield Place(("body",), self.body, required=self.described["requestBody"]["required"])
            yield from self._inside(("body",), self.body, body)

    def _inside(self, path: Path, schema: Schema, value: Any) -> Iterator[Place]:
        for one in choices(self.document, schema):
            if "properties" in one and isinstance(value, dict):
                for name, found in one["properties"].items():
                    yield Place((*path, name), found, name in one.get("required", ()))
                    yield from self._inside((*path, name), found, value.get(name, NOTHING))
            if "items" in one and isinstance(value, list) and value:
                yield Place((*path, 0), one["items"], required=False)
                yield from self._inside((*path, 0), one["items"], value[0])

    def answered(self, status: int) -> Iterator[Place]:
        """What an answer with a JSON object may have in it."""
        schema = self.described["responses"][str(status)]["content"]["application/json"]["schema"]
        for one in choices(self.document, schema):
            for name, found in one["properties"].items():
                yield Place(("body", name), found, required=False)

    def nested(self, schema: Schema | None, path: str = "body") -> Iterator[str]:
        """Every place that there may be in a body, whether an example shows it or not."""
        for one in choices(self.document, schema) if schema is not None else ():
            yield path
            for name, found in one.get("properties", {}).items():
                yield from self.nested(found, f"{path}.{name}")
            if "items" in one:
                yield from self.nested(one["items"], f"{path}[]")

    def inside(self, place: Place, value: Any) -> list[Any]:
        """Values that the document allows, at the limits of what it allows."""
        found: list[Any] = [None] if place.path[0] == "body" and self._may_be_null(place) else []
        if place.schema.get("default") is not None:
            found.append(place.schema["default"])
        for one in choices(self.document, place.schema):
            found += one.get("enum", [])
            found += [one[name] for name in ("minimum", "maximum") if name in one]
            found += [True, False] if one.get("type") == "boolean" else []
            found += PATTERNS[one["pattern"]][0] if "pattern" in one else []
            found += ["a" * one[name] for name in ("minLength", "maxLength") if name in one]
            if isinstance(value, list) and value:
                found += [_repeated(value[0], one[name]) for name in ("minItems", "maxItems") if name in one]
        return found

    def outside(self, place: Place, value: Any) -> list[Any]:
        """Values that the document does not allow. NOTHING is a required one that is missing."""
        found: list[Any] = [NOTHING] if place.required else []
        if place.path[0] == "body":
            found += self._of_wrong_types(place)
        for one in choices(self.document, place.schema):
            found += ["no-such-word"] if "enum" in one else []
            found += [one["minimum"] - 1] if "minimum" in one else []
            found += [one["maximum"] + 1] if "maximum" in one else []
            found += [one["exclusiveMaximum"]] if "exclusiveMaximum" in one else []
            found += [one["exclusiveMinimum"]] if "exclusiveMinimum" in one else []
            found += PATTERNS[one["pattern"]][1] if "pattern" in one else []
            found += ["a" * (one["maxLength"] + 1)] if "maxLength" in one else []
            found += ["a" * (one["minLength"] - 1)] if "minLength" in one else []
            if isinstance(value, list) and value:
                found += [_repeated(value[0], one["maxItems"] + 1)] if "maxItems" in one else []
                found += [[]] if one.get("minItems") else []
            if place.path[0] == "query":
                found += {"integer": ["x", "", "1.5"], "boolean": ["maybe", ""]}.get(one.get("type", ""), [])
        return found

    def _of_wrong_types(self, place: Place) -> list[Any]:
        types = {one.get("type") for one in choices(self.document, place.schema)}
        if None in types:
            return []
        types |= {"integer"} if "number" in types else set()
        wrong = [value for kind, value in WRONG.items() if kind not in types]
        return wrong if self._may_be_null(place) else [*wrong, None]

    def _may_be_null(self, place: Place) -> bool:
        return any(one.get("type", "null") == "null" for one in choices(self.document, place.schema))

    def fault_of(self, answer: httpx.Response, body: bytes | None = None) -> str:
        """In which way an answer is not as the document says; nothing if it is. `body` is one line of a stream."""
        status, responses = answer.status_code, self.described["responses"]
        if status >= 500:
            return f"{status}"
        if answer.is_success and str(status) not in responses:
            return f"the document does not name the status {status}"
        if body is None:
            body = answer.content
        contents = [one.get("content", {}) for one in (responses.get(str(status)), responses["default"]) if one is not None]
        if answer.is_success and not contents[0]:
            return f"{status} has a body" if body else ""
        media_type = answer.headers.get("Content-Type", "").partition(";")[0]
        schemas = [content[media_type]["schema"] for content in contents if media_type in content]
        if not schemas:
            return f"{status} is of type {media_type!r}"
        if not media_type.endswith("json") or body == b"":
            return ""
        errors = [_validator(json.dumps(self._whole(schema))).iter_errors(json.loads(body)) for schema in schemas]
        faults = [[f"{one.message} at {one.instance_path}" for one in found] for found in errors]
        return "" if not all(faults) else f"{status}: {faults[0][:3]} in {body[:300]!r}"

    def _whole(self, schema: Schema) -> Schema:
        return {**schema, "components": self.document["components"]}


@cache
def _validator(schema: str) -> Any:
    return jsonschema_rs.Draft202012Validator(json.loads(schema))


def choices(document: Schema, schema: Schema) -> list[Schema]:
    """What a schema allows, each with everything that is said about it in one place."""
    while "$ref" in schema:
        found = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
        schema = {**found, **{key: value for key, value in schema.items() if key != "$ref"}}
    if "anyOf" not in schema or "properties" in schema:
        return [schema]
    rest = {key: value for key, value in schema.items() if key not in ("anyOf", "default")}
    return [{**rest, **one} for choice in schema["anyOf"] for one in choices(document, choice)]


def with_value(request: ApiRequest, path: Path, value: Any) -> ApiRequest:
    """The same request with this in that place; NOTHING takes it out."""
    if path[0] == "query":
        return replace(request, query=_changed(request.query, path[1:], value))
    if path[0] == "header":
        return replace(request, headers=_changed(request.headers, path[1:], value))
    return replace(request, body=_changed(request.body, path[1:], value))


def _repeated(entry: Any, times: int) -> list[Any]:
    """So many entries; texts, and what has an id, are different each time."""
    if isinstance(entry, dict) and "id" in entry:
        return [entry, *({**entry, "id": f"{entry['id']}-{number}"} for number in range(1, times))]
    return [entry, *(f"{entry}-{number}" for number in range(1, times))] if isinstance(entry, str) else [entry] * times


def value_at(request: ApiRequest, path: Path) -> Any:
    found: Any = {"query": request.query, "header": request.headers, "body": request.body}[str(path[0])]
    for part in path[1:]:
        try:
            found = found[part]
        except (KeyError, IndexError, TypeError):
            return NOTHING
    return found


def _changed(whole: Any, path: Path, value: Any) -> Any:
    if not path:
        return value
    whole = copy.deepcopy(whole)
    parent = whole
    for part in path[:-1]:
        parent = parent[part]
    if value is NOTHING:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    return whole


def build(client: httpx.Client, operation: Operation, request: ApiRequest, **more: Any) -> httpx.Request:
    """`more` may have the body's bytes as `content`, or headers that are added."""
    path = operation.path
    for name, value in request.names.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    headers = {name: value.encode() for name, value in request.headers.items()} | more.pop("headers", {})
    if "content" not in more and request.body is not NOTHING:
        more["content"] = json.dumps(request.body).encode()
    return client.build_request(operation.method, path, params=request.query, headers=headers, **more)


@pytest.fixture(scope="module")
def operations(world: ApiWorld) -> list[Operation]:
    """All that there are; a file that uses it names it as its own."""
    document = world.http.get("/schema/openapi.json").json()
    return [Operation(document, method.upper(), path) for path, found in document["paths"].items() for method in found]
