"""Every row of the table asks for its right, and for no other: with exactly the scope that it names a key may, with all
scopes but that one it may not, and without a key nobody may. A row with a right of its own kind has to be entered here."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from api_document import Operation, build
from api_requests import REQUESTS
from api_world import ApiRequest, ApiWorld, open_world

from meantime.access.scopes import NAMED, PLAIN
from meantime.api.rights import (
    KNOWN,
    MESSAGE_READER,
    PRODUCER,
    READ_ALL,
    READER_OR_PUBLISHER,
    TIMER_SETTER,
    TOPIC_MAKER,
    TOPIC_VIEWER,
    TOPICS_VIEWER,
)
from meantime.api.routing import Route, Scope
from meantime.api.table import TABLE

pytestmark = [pytest.mark.takes(seconds=40), pytest.mark.timeout(300)]

EVERY = [*(f"{verb}:*" for verb in NAMED), *(verb for verb in PLAIN if verb != "admin")]
"""All that a key can have; an admin may do everything."""

ANY_TOPIC = ("produce:anybody", "consume:any")
ENOUGH: dict[str, tuple[str, ...]] = {
    KNOWN.text: ("timers", "apps", "consume:nothing"),
    PRODUCER.text: ("produce:owners",),
    MESSAGE_READER.text: ("produce:owners",),
    READ_ALL.text: ("read:{event_type}",),
    READER_OR_PUBLISHER.text: ("read:{name}", "publish:{name}"),
    TIMER_SETTER.text: ("timers callback:{callback_topic}",),
    TOPIC_MAKER.text: ("admin",),
    TOPICS_VIEWER.text: ANY_TOPIC,
    TOPIC_VIEWER.text: ("produce:anybody", "consume:{topic}"),
}
"""Scopes each of which is enough, for rights that are more than a verb and a name in the path; with a space between, those
that are enough together."""

OF_ANY_NAME = {KNOWN.text: EVERY, TOPICS_VIEWER.text: ["produce:x", "consume:x"], TOPIC_VIEWER.text: ["produce:x"]}
"""Scopes that are enough whatever their name is."""


@pytest.fixture(scope="module")
def world(node_of: Any) -> Iterator[ApiWorld]:
    with node_of(MEANTIME_AUTH="true") as places, open_world(places) as world:
        yield world


@pytest.fixture(scope="module")
def document(world: ApiWorld) -> dict[str, Any]:
    found: dict[str, Any] = world.http.get("/schema/openapi.json").json()
    return found


def guarded() -> Iterator[tuple[Route, Scope]]:
    for route in TABLE:
        if route.scope is not None:
            yield route, route.scope


def test_without_a_key_only_what_everybody_may_see_is_answered(world: ApiWorld, document: dict[str, Any]) -> None:
    found = {}
    for route in TABLE:
        request = request_of(world, route)
        found[f"{route.method} {route.path}"] = (asked(world, document, route, request, {}), route.scope is None)
    wrong = {name: status for name, (status, public) in found.items() if (status == 401) == public or status >= 500}
    assert wrong == {}


def test_a_key_with_the_scope_of_a_row_may(world: ApiWorld, document: dict[str, Any]) -> None:
    failures = []
    for route, scope in guarded():
        for one in enough(scope):
            request = request_of(world, route)
            key = world.key(*filled(one, world, request).split())
            status = asked(world, document, route, request, key)
            if not 200 <= status < 300:
                failures.append(f"{route.method} {route.path} with {one}: {status}")
    assert not failures, "\n".join(failures)


def test_a_key_with_every_other_scope_may_not(world: ApiWorld, document: dict[str, Any]) -> None:
    failures = []
    for route, scope in guarded():
        if scope.text == KNOWN.text:
            continue  # any key will do
        request = request_of(world, route)
        status = asked(world, document, route, request, world.key(*others(scope)))
        if status != 403:
            failures.append(f"{route.method} {route.path} without {enough(scope)}: {status}")
    assert not failures, "\n".join(failures)


def test_an_application_makes_the_topics_of_its_retries_and_no_others(world: ApiWorld) -> None:
    key = world.key("produce:billing")
    made = {
        name: world.http.put(f"/topics/{name}", headers=key).status_code
        for name in ("billing.retry", "billing.dead", "billing.other", "billing", "other.retry", ".retry")
    }
    assert made == {
        "billing.retry": 201,
        "billing.dead": 201,
        "billing.other": 403,
        "billing": 403,
        "other.retry": 403,
        ".retry": 403,
    }


def test_who_reads_a_message_as_a_consumer_needs_the_scope_of_consumers(world: ApiWorld) -> None:
    def status(*scopes: str, **headers: str) -> int:
        key = world.key(*scopes)
        lease = world.lease(**key) if "consume:*" in scopes else world.lease()
        path = f"/topics/{lease['topic']}/messages/{lease['id']}"
        return world.http.get(path, params={"consumer_id": "holder"}, headers=key | headers).status_code

    owner = {"X-Producer-Group": "owners"}
    assert status("consume:*") == 200
    assert status("produce:owners") == 403
    assert status("produce:owners", **owner) == 403
    assert status("consume:*", **owner) == 403
    assert status("consume:*", "produce:owners", **owner) == 200


def test_lists_show_only_what_a_key_may_read(world: ApiWorld) -> None:
    other, subscribed = world.event_type(), world.subscription()
    key = world.key(f"read:{other}")
    assert [one["name"] for one in world.http.get("/event-types", headers=key).json()] == [other]
    assert world.http.get("/subscriptions", headers=key).json()["items"] == []
    shown = world.http.get("/subscriptions", headers=world.key(f"read:{world.read}")).json()["items"]
    assert subscribed in [one["id"] for one in shown]


def request_of(world: ApiWorld, route: Route) -> ApiRequest:
    return REQUESTS[f"{route.method} {route.path}"](world)[0]


def enough(scope: Scope) -> tuple[str, ...]:
    """Each of these scopes is enough. A text that is not a plain scope has to stand in the table above."""
    if scope.text in ENOUGH:
        return ENOUGH[scope.text]
    verb, _, name = scope.text.partition(":")
    assert verb in NAMED + PLAIN, f"say which scopes are enough for {scope.text!r}"
    assert bool(name) == (verb in NAMED), f"say which scopes are enough for {scope.text!r}"
    return (scope.text,)


def others(scope: Scope) -> list[str]:
    """Every scope but those that are enough; where a name matters, that of something else."""
    verbs = {part.partition(":")[0] for one in enough(scope) for part in one.split()}
    of_any_name = {one.partition(":")[0] for one in OF_ANY_NAME.get(scope.text, ())}
    left = [one for one in EVERY if one.partition(":")[0] not in verbs]
    return left + [f"{verb}:something-else" for verb in sorted(verbs - of_any_name) if verb in NAMED]


def filled(text: str, world: ApiWorld, request: ApiRequest) -> str:
    event_type = world.committing[2]["event_type"] if request.names.get("id") == world.committing[0] else world.read
    return text.format(event_type=event_type, callback_topic=world.callback_topic, **request.names)


def asked(world: ApiWorld, document: dict[str, Any], route: Route, request: ApiRequest, key: dict[str, str]) -> int:
    built = build(world.http, Operation(document, route.method, route.path), request, headers=key)
    if not key:
        del built.headers["Authorization"]
    answer: httpx.Response = world.http.send(built, stream=True)
    answer.close()
    return answer.status_code
