"""Deep and broken JSON is refused on every route that reads JSON, in bodies, headers and queries, and never breaks a node.

What is read is found in the OpenAPI document, so a new route is covered by itself.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import api_document
import api_world
import pytest
from api_document import Operation, Place, build, choices, with_value
from api_requests import REQUESTS
from api_world import NOTHING, ApiRequest, ApiWorld

pytestmark = [pytest.mark.takes(seconds=70), pytest.mark.timeout(300)]
world, operations = api_world.world, api_document.operations

MOST_DEEP = 200
Nested = Callable[[int], bytes]


def arrays(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


def objects(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def mixed(depth: int) -> bytes:
    return b'{"a":[' * (depth // 2) + arrays(depth % 2) + b"]}" * (depth // 2)


SHAPES: tuple[Nested, ...] = (arrays, objects, mixed)
NOT_JSON = (b"NaN", b"Infinity", b"-", b"01", b"'a'", b'"\xff"', b'"\xed\xa0\x80"', b'"\\x"', b'"a', b"tru", b"[1,]")
UNREADABLE = (b"NaN", b'"\xff"', b'"\xed\xa0\x80"')
PERHAPS_JSON = (b'"\\ud800"', b'"\\udc00\\ud800"', b"9" * 5000, b"1e400", b"-1e400", b'"\\u0000"', b"1e-400")
"""What readers of JSON disagree about: it may be refused or kept, if only it breaks nothing."""
HUGE = 300_000
HERE = "put-it-here"


def test_a_body_that_is_not_json_is_refused(world: ApiWorld, operations: list[Operation]) -> None:
    failures = []
    for operation, request in with_bodies(world, operations):
        whole = json.dumps(request.body).encode()
        broken = [whole[: len(whole) // 2], whole[:-1], whole + b"x", b"\xff", b"\x00", b"{", b"[", b'"', *NOT_JSON]
        broken += [shape(depth) for shape in SHAPES for depth in (MOST_DEEP + 1, 20_000)]
        broken += [shape(20_000)[:20_000] for shape in SHAPES]
        broken += [text for content in UNREADABLE for text in with_content(operation, request, content)]
        for content in broken:
            status = sent(world, operation, request, content=content)
            if status != 400:
                failures.append(f"{operation} {content[:100]!r}: {status}")
    assert not failures, "\n".join(failures)


def test_a_huge_body_that_is_not_json_is_refused_and_any_other_breaks_nothing(
    world: ApiWorld, operations: list[Operation]
) -> None:
    failures = []
    for operation, request in with_bodies(world, operations):
        whole = json.dumps(request.body).encode()
        broken = [
            b"[" * HUGE,
            b'{"a":' * (HUGE // 5),
            b'"' + b"x" * HUGE,
            b" " * HUGE + whole[:-1],
            whole + b" " * HUGE + b"x",
        ]
        broken += [b"[" + b"[]," * (HUGE // 3), b"{" + b'"a":{},' * (HUGE // 7), b"[" + b"{},{}," * (HUGE // 6) + b"\xff]"]
        odd = [
            b"9" * HUGE,
            b'"' + b"x" * HUGE + b'"',
            b"[" + b"{}," * (HUGE // 3) + b"{}]",
            b'{"a":[' + b"1," * HUGE + b"1]}",
        ]
        odd += [b"{" + b'"a":{},' * (HUGE // 7) + b'"a":{}}']
        for content in broken + odd:
            status = sent(world, operation, request, content=content)
            if status != 400 and (content in broken or status >= 500):
                failures.append(f"{operation} {content[:20]!r} … {content[-20:]!r}: {status}")
    assert not failures, "\n".join(failures)


def test_what_readers_of_json_disagree_about_breaks_nothing(world: ApiWorld, operations: list[Operation]) -> None:
    failures = []
    for operation, request in with_bodies(world, operations):
        contents = [b"", *PERHAPS_JSON, *(text for one in PERHAPS_JSON for text in with_content(operation, request, one))]
        for content in contents:
            status = sent(world, operation, request, content=content)
            if status >= 300 and status not in (400, 401, 409, 422):
                failures.append(f"{operation} {content[:100]!r}: {status}")
    assert not failures, "\n".join(failures)


def test_where_any_json_is_taken_it_may_be_as_deep_as_the_limit_and_no_deeper(
    world: ApiWorld, operations: list[Operation]
) -> None:
    failures, tried = [], 0
    for operation in operations:
        for number, shown in enumerate(REQUESTS[str(operation)](world)):
            for place in (found for found in operation.places(shown.body) if is_any_json(operation, found)):
                for shape in SHAPES if not is_object(operation, place) else (objects,):
                    for depth, wanted in ((MOST_DEEP, (200, 299)), (MOST_DEEP + 1, (400, 400)), (20_000, (400, 400))):
                        tried += 1
                        request = with_value(REQUESTS[str(operation)](world)[number], place.path, HERE)
                        nested = shape(depth - (len(place.path) - 1))
                        content = json.dumps(request.body).encode().replace(json.dumps(HERE).encode(), nested)
                        status = sent(world, operation, request, content=content)
                        if not wanted[0] <= status <= wanted[1]:
                            failures.append(f"{operation} {place} {depth} deep {nested[:10]!r}: {status}")
    assert not failures, "\n".join(failures)
    assert tried > 50


def test_json_in_headers_and_queries_is_refused_alike(world: ApiWorld, operations: list[Operation]) -> None:
    failures, tried = [], 0
    broken = [b"{", b"[", b"[1", b"[1]", b"{}", b"5", *NOT_JSON, *(b"[%b]" % one for one in NOT_JSON)]
    broken += [shape(depth) for shape in SHAPES for depth in (MOST_DEEP + 1, 2 * MOST_DEEP, 4000)]
    for operation in operations:
        for place in (found for found in operation.parameters() if is_json_text(found)):
            (request,) = REQUESTS[str(operation)](world)
            for content in [*broken, *PERHAPS_JSON]:
                tried += 1
                status = sent_in(world, operation, request, place, content)
                if status != 400:
                    failures.append(f"{operation} {place} {content[:60]!r}: {status}")
    assert not failures, "\n".join(failures)
    assert tried > 50


def with_bodies(world: ApiWorld, operations: list[Operation]) -> Iterator[tuple[Operation, ApiRequest]]:
    for operation in operations:
        for request in REQUESTS[str(operation)](world):
            if operation.body is not None:
                assert request.body is not NOTHING, f"{operation} takes a body, and its request has none"
                yield operation, request


def with_content(operation: Operation, request: ApiRequest, content: bytes) -> Iterator[bytes]:
    """The body with this in a field that nobody knows, and wherever any JSON is taken."""
    bodies = []
    if isinstance(request.body, dict):
        bodies.append({**request.body, "unknown": HERE})
    if isinstance(request.body, list) and isinstance(request.body[0], dict):
        bodies.append([{**request.body[0], "unknown": HERE}])
    for place in operation.places(request.body):
        if is_any_json(operation, place) and not is_object(operation, place):
            bodies.append(with_value(request, place.path, HERE).body)
    for body in bodies:
        yield json.dumps(body).encode().replace(json.dumps(HERE).encode(), content)


def is_any_json(operation: Operation, place: Place) -> bool:
    if place.path[0] != "body" or len(place.path) == 1:
        return False
    found = choices(operation.document, place.schema)
    return any("type" not in one and "enum" not in one for one in found) or is_object(operation, place)


def is_object(operation: Operation, place: Place) -> bool:
    """Whether it is an object of anything."""
    found = choices(operation.document, place.schema)
    return any(one.get("type") == "object" and not {"properties", "additionalProperties"} & set(one) for one in found)


def is_json_text(place: Place) -> bool:
    return any(str(one).startswith(("[", "{")) for one in place.schema.get("examples", ()))


def sent(world: ApiWorld, operation: Operation, request: ApiRequest, **more: Any) -> int:
    answer = world.http.send(build(world.http, operation, request, **more), stream=True)
    answer.close()
    return answer.status_code


def sent_in(world: ApiWorld, operation: Operation, request: ApiRequest, place: Place, content: bytes) -> int:
    name = str(place.path[1])
    if place.path[0] == "header":
        return sent(world, operation, with_value(request, place.path, NOTHING), headers={name: content})
    return sent(world, operation, with_value(request, place.path, content))
