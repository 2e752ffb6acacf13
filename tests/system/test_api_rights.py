"""Every row of the table asks for its right, and for no other: with exactly the scope that it names a key may, with all
scopes but that one it may not, and without a key nobody may. A row with a right of its own kind has to be entered here."""

from collections.abc import Iterator
from typing import Any

import api_world
import httpx
import pytest
from api_document import Operation, build
from api_requests import REQUESTS, commit_of
from api_world import GROUP, ApiRequest, ApiWorld, new_name

from meantime.access.scopes import NAMED, PLAIN
from meantime.api.rights import (
    KNOWN,
    MESSAGE_READER,
    MESSAGES_CHANGER,
    MESSAGES_READER,
    PRODUCER,
    READ_ALL,
    READ_ALL_PLACES,
    READ_EVENTS,
    READ_PLACES,
    READER_OR_PUBLISHER,
    SCHEDULE_CHANGER,
    SCHEDULE_VIEWER,
    SCHEDULES_CHANGER,
    SCHEDULES_VIEWER,
    TIMER_SETTER,
    TOPIC_MAKER,
    TOPIC_VIEWER,
    TOPICS_VIEWER,
    looked_at,
)
from meantime.api.routing import Route, Scope
from meantime.api.table import ADMIN, APPS, LOOK, METRICS, TABLE, TIMERS

pytestmark = [pytest.mark.takes(seconds=40), pytest.mark.timeout(300)]
world = api_world.world

EVERY = [*(f"{verb}:*" for verb in NAMED), *(verb for verb in PLAIN if verb != "admin")]
"""All that a key can have; an admin may do everything."""

ANY_TOPIC = ("produce:anybody", "consume:any", "operate:any")
ENOUGH: dict[str, tuple[str, ...]] = {
    KNOWN.text: ("timers", "apps", "consume:nothing", "look"),
    PRODUCER.text: ("produce:owners",),
    MESSAGE_READER.text: ("produce:owners",),
    MESSAGES_READER.text: ("produce:owners",),
    MESSAGES_CHANGER.text: ("produce:owners",),
    READ_ALL.text: ("read:{event_type}",),
    SCHEDULES_VIEWER.text: ("schedules:anything", "look", "look:bodies"),
    SCHEDULE_VIEWER.text: ("schedules:{id}", "look", "look:bodies"),
    SCHEDULE_CHANGER.text: ("schedules:{id} produce:owners",),
    SCHEDULES_CHANGER.text: ("schedules:* produce:owners",),
    READ_ALL_PLACES.text: ("read:{event_type}", "look", "look:bodies"),
    READ_EVENTS.text: ("read:{name}", "look:bodies"),
    READ_PLACES.text: ("read:{name}", "look", "look:bodies"),
    READER_OR_PUBLISHER.text: ("read:{name}", "publish:{name}", "look", "look:bodies"),
    LOOK.text: ("look", "look:bodies"),
    looked_at(ADMIN).text: ("admin", "look", "look:bodies"),
    looked_at(TIMERS).text: ("timers", "look", "look:bodies"),
    looked_at(APPS).text: ("apps", "look", "look:bodies"),
    looked_at(METRICS).text: ("metrics", "look", "look:bodies"),
    TIMER_SETTER.text: ("timers callback:{callback_topic}",),
    TOPIC_MAKER.text: ("admin",),
    TOPICS_VIEWER.text: (*ANY_TOPIC, "look", "look:bodies"),
    TOPIC_VIEWER.text: ("produce:anybody", "consume:{topic}", "operate:{topic}", "look", "look:bodies"),
}
"""Scopes each of which is enough, for rights that are more than a verb and a name in the path; with a space between, those
that are enough together."""

COMMIT = ("POST", "/subscriptions/{id}/cursors")

OF_ANY_NAME = {
    KNOWN.text: EVERY,
    SCHEDULES_VIEWER.text: ["schedules:x"],
    SCHEDULES_CHANGER.text: ["schedules:x"],
    TOPICS_VIEWER.text: ["produce:x", "consume:x", "operate:x"],
    TOPIC_VIEWER.text: ["produce:x"],
}
"""Scopes that are enough whatever their name is."""


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
            if (route.method, route.path) == COMMIT:  # what a stream has sent is committed by the key that opened it
                request = commit_of(world.committing_with(world.committing[2]["event_type"], **key))
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


def test_onlookers_change_nothing_by_any_route(world: ApiWorld, document: dict[str, Any]) -> None:
    """Whatever they may see: no call that is not a GET does anything for them, as sent by a program and by a browser."""
    failures = []
    key = world.key("look", "look:bodies")
    for route, _ in guarded():
        if route.method == "GET" or route.path == "/schedules/preview":  # which stores nothing
            continue
        status = asked(world, document, route, request_of(world, route), key)
        if status != 403:
            failures.append(f"{route.method} {route.path}: {status}")
    assert not failures, "\n".join(failures)


def test_onlookers_may_make_every_call_that_shows_something_to_operators(world: ApiWorld, document: dict[str, Any]) -> None:
    """All but what takes something away, what has bodies in it, and what is for admins."""
    refused = set()
    for route, _ in guarded():
        if route.method == "GET" and asked(world, document, route, request_of(world, route), world.key("look")) == 403:
            refused.add(route.path)
    assert refused == {
        "/event-types/{name}/events",
        "/subscriptions/{id}/events",
        "/topics/{topic}/leases",
        "/topics/{topic}/messages",  # asked for as a group, which onlookers are not
        "/topics/{topic}/messages/{message_id}",
        "/keys",
        "/audit",
    }


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


def test_operators_of_a_topic_see_the_messages_of_all_groups_and_nobody_else_does(world: ApiWorld) -> None:
    """Also its dead letters, which they may send back; into another topic only where they are operators, too."""
    dead, topic, other = world.new_topic(), new_name("topic"), world.new_topic()
    world.make("PUT", f"/topics/{topic}", {"max_attempts": 1, "dead_letter_topic": dead})
    world.make("POST", f"/topics/{topic}/messages", {"messages": [{"id": "m", "after_ms": 0}]}, **GROUP)
    (lease,) = world.make("POST", f"/topics/{topic}/leases", {"consumer_id": "c"})["leases"]
    claim = {"id": "m", "version": lease["version"], "reason": "no such user"}
    world.make("POST", f"/topics/{topic}/leases/release", {"consumer_id": "c", "leases": [claim]})
    http, messages = world.http, f"/topics/{dead}/messages"
    key, stranger = world.key(f"operate:{dead}"), world.key("produce:on-call", f"consume:{dead}", f"operate:{topic}")
    for path in (messages, f"{messages}/m"):
        refused = http.get(path, params={"all": "true"}, headers=stranger)
        assert (refused.status_code, refused.json()["required_scope"]) == (403, f"operate:{dead}")
        assert http.get(path, headers=key | {"X-Producer-Group": "owners"}).status_code == 403
    (letter,) = http.get(messages, params={"all": "true"}, headers=key).json()["messages"]
    assert (letter["id"], letter["dead_letter"]["reason"]) == ("m", "no such user")
    assert http.get(f"{messages}/m", params={"all": "true"}, headers=key).json() == letter
    assert http.post(f"/topics/{dead}/redrive", headers=stranger).json()["required_scope"] == f"operate:{dead}"
    elsewhere = http.post(f"/topics/{dead}/redrive", json={"to": other}, headers=key)
    assert (elsewhere.status_code, elsewhere.json()["required_scope"]) == (403, f"operate:{other}")
    assert http.post(f"/topics/{dead}/redrive", headers=key).json()["moved"] == 1


def test_who_changes_a_schedule_needs_the_right_to_its_target_before_and_after(world: ApiWorld) -> None:
    name, http = world.schedule(), world.http
    form = {"cron": "0 0 1 1 *", "target": {"topic": world.topic, "group": "owners"}}
    theirs = {"cron": "0 0 1 1 *", "target": {"topic": world.topic, "group": "thieves"}}
    thief = world.key("schedules:*", "produce:thieves")
    assert http.get(f"/schedules/{name}", headers=thief).status_code == 200
    for method, path, body in (
        ("PUT", "", form),
        ("PUT", "", theirs),
        ("DELETE", "", None),
        ("POST", "/fire", {}),
        ("POST", "/pause", {}),
        ("POST", "/resume", None),
        ("POST", "/backfill", {"from_ms": 0, "to_ms": 1}),
    ):
        refused = http.request(method, f"/schedules/{name}{path}", json=body, headers=thief)
        assert (refused.status_code, refused.json().get("required_scope")) == (403, "produce:owners"), (method, path)
    assert http.post("/schedules/pause", json={"prefix": name}, headers=thief).status_code == 403
    assert http.get(f"/schedules/{name}").json()["version"] == 1


def test_a_schedule_is_no_detour_to_a_target(world: ApiWorld) -> None:
    def status(scopes: str, **target: str) -> tuple[int, str | None]:
        body = {"cron": "0 0 1 1 *", "target": target, "body": {}}
        answer = world.http.put(f"/schedules/{new_name('detour')}", json=body, headers=world.key(*scopes.split()))
        return answer.status_code, answer.json().get("required_scope")

    calls, event_type = world.callback_topic, world.read
    assert status("schedules:*", topic=world.topic, group="owners") == (403, "produce:owners")
    assert status("schedules:* produce:owners", topic="billing.periodic", group="owners") == (403, None)
    assert status("schedules:*", event_type=event_type) == (403, f"publish:{event_type}")
    assert status(f"schedules:* callback:{calls}", kafka_topic=calls) == (403, "timers")
    assert status("schedules:* timers", kafka_topic=calls) == (403, f"callback:{calls}")
    assert status(f"schedules:* timers callback:{calls}", kafka_topic=calls)[0] == 201
    assert status(f"schedules:* publish:{event_type}", event_type=event_type)[0] == 201


def test_a_list_of_schedules_shows_only_those_that_a_key_may_see(world: ApiWorld) -> None:
    name = world.schedule()
    world.schedule()
    shown = world.http.get("/schedules", headers=world.key(f"schedules:{name}")).json()
    assert [one["id"] for one in shown["schedules"]] == [name]


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
    if scope.text in PLAIN:
        return (scope.text,)
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
