"""What the OpenAPI document says is what a running node does.

Every enum, default, limit, pattern and required field of every query, header and body is tried: with requests that are
valid but for this one place, at the limits of what the document allows and beyond them. What is outside is refused as a
problem and changes nothing. Every answer is as the document says.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import api_document
import httpx
import msgspec
import pytest
from api_document import Operation, Place, build, value_at, with_value
from api_requests import REQUESTS
from api_world import NOTHING, ApiRequest, ApiWorld, open_world

pytestmark = [pytest.mark.takes(seconds=90), pytest.mark.timeout(600)]
operations = api_document.operations


@dataclass(frozen=True)
class Rule:
    """What the document says in words, because it is a rule between fields or about what there is.

    `instead` are the values inside to try, `also` what else has to change with them; `statuses` are refusals that an
    allowed value may get.
    """

    why: str
    instead: Any = None
    also: dict[str, Any] = field(default_factory=dict)
    statuses: tuple[int, ...] = ()


EVENT_TYPE = "PUT /event-types/{name}"
FIXED = "an event type keeps its name, category and clean-up policy"
SUBSCRIPTION = "PUT /subscriptions/{id}"
KEPT = "a subscription keeps what makes it this one"
MESSAGE = "/topics/{topic}/messages/{message_id}"
NOT_THEIRS = "the message belongs to another group, or is not leased by this consumer"
NO_SUCH_TIMER = "there is no timer at that second"
FAR = {"query.to": 10**12, "query.step": 10**12}

SCHEDULE, PREVIEW = "PUT /schedules/{id}", "POST /schedules/preview"
ONE_CALENDAR, ONE_KIND = "one of cron, every_ms and at_ms", "a target is of one of three kinds, and has to be there"
SCHEDULES = {
    "cron": Rule(ONE_CALENDAR, instead=[]),
    "every_ms": Rule(ONE_CALENDAR, instead=[]),
    "phase_ms": Rule("less than every_ms", instead=[]),
    "at_ms": Rule(f"{ONE_CALENDAR}; a second apart", instead=[]),
    "at_ms[]": Rule("one is still to come", instead=[]),
    "time_zone": Rule("the zone has to be there", instead=[None, "Europe/Berlin"]),
    "target": Rule(ONE_KIND, instead=[]),
    "target.topic": Rule(ONE_KIND, instead=[]),
    "target.group": Rule(ONE_KIND, instead=["owners"]),
    "target.event_type": Rule(ONE_KIND, instead=[None]),
    "target.kafka_topic": Rule(ONE_KIND, instead=[None]),
    "target.key": Rule("only a Kafka topic has one", instead=[None]),
    "starts_at_ms": Rule("not after its last instant", instead=[None, 0]),
    "ends_at_ms": Rule("after its start and its next instant", instead=[None, 4_000_000_000_001]),
    "body_b64": Rule("body or body_b64", instead=[None, ""]),
}
MANY = "POST /topics/{topic}/messages"
CONDITION = "a filter without a condition needs expect"
STATUSES = ["waiting", "processing", "available", "dead"]

RULES: dict[str, Rule] = {
    f"{MANY}/move body.after_ms": Rule("at_ms or after_ms", instead=[]),
    f"{MANY}/move body.filter.status": Rule(CONDITION, instead=STATUSES),
    f"{MANY}/move body.filter.ids": Rule(CONDITION, instead=[["a"], ["a"] * 10_000]),
    f"{MANY}/delete body.ids": Rule("ids or a filter", instead=[["a"]]),
    f"{MANY}/delete body.filter": Rule("ids or a filter", instead=[{"status": "dead"}]),
    f"{MANY}/delete body.filter.status": Rule(CONDITION, instead=STATUSES),
    f"{MANY}/delete body.filter.ids": Rule(CONDITION, instead=[["a"], ["a"] * 10_000]),
    f"{EVENT_TYPE} body.name": Rule(FIXED, instead=[None]),
    f"{EVENT_TYPE} body.category": Rule(FIXED, instead=[None, "undefined"]),
    f"{EVENT_TYPE} body.cleanup_policy": Rule(FIXED, instead=[None, "delete"]),
    f"{EVENT_TYPE} body.default_statistic.read_parallelism": Rule("the number of partitions is fixed", instead=[1, 2]),
    f"{EVENT_TYPE} body.default_statistic.write_parallelism": Rule("the number of partitions is fixed", instead=[1, 2]),
    f"{EVENT_TYPE} body.compatibility_mode": Rule("compatible stays so", instead=[None, "none", "forward", "compatible"]),
    "POST /event-types body.adopt_topic": Rule(
        "the topic has to be there", instead=lambda world: [None, world.adopted_topic]
    ),
    "POST /event-types/{name}/shifted-cursors body[].shift": Rule("before the beginning is nothing", instead=[None, 10**17]),
    "POST /subscriptions body.initial_cursors": Rule("one for each partition", instead=[]),
    f"{SUBSCRIPTION} body.owning_application": Rule(KEPT, instead=[]),
    f"{SUBSCRIPTION} body.consumer_group": Rule(KEPT, instead=[None, "default"]),
    f"{SUBSCRIPTION} body.initial_cursors": Rule("read_from cursors needs some", instead=lambda _: [[{}], [{}] * 1000]),
    "POST /subscriptions/{id}/events body.partitions": Rule("each partition once", instead=[None, []]),
    "POST /storages body.kafka_configuration.bootstrap_servers": Rule("a storage has to answer", instead=[]),
    "PUT /topics/{topic} body.dead_letter_topic": Rule(
        "the topic has to be there", instead=lambda world: [None, world.topic]
    ),
    f"GET {MESSAGE} header.X-Producer-Group": Rule(NOT_THEIRS, statuses=(403,)),
    f"GET {MESSAGE} query.consumer_id": Rule(NOT_THEIRS, statuses=(403,)),
    f"PATCH {MESSAGE} header.X-Producer-Group": Rule(NOT_THEIRS, statuses=(403,)),
    f"DELETE {MESSAGE} header.X-Producer-Group": Rule(NOT_THEIRS, statuses=(403,)),
    f"PATCH {MESSAGE} body.after_ms": Rule("at_ms or after_ms", instead=[]),
    "POST /timers body.at": Rule("at or after", instead=[0]),
    "POST /timers body.callback_topic": Rule("the topic has to be there", instead=[]),
    "POST /timers body.timers[].at": Rule("at or after", instead=[0]),
    "POST /timers body.timers[].callback_topic": Rule("the topic has to be there", instead=[]),
    "GET /timers/load query.at": Rule(NO_SUCH_TIMER, statuses=(404,)),
    "GET /timers/load query.from": Rule("not after to, and not too many slots", also=FAR),
    "GET /timers/load query.to": Rule("not too many slots", also={"query.step": 10**12}),
    "GET /timers/status query.at": Rule(NO_SUCH_TIMER, statuses=(404,)),
    "GET /timers/{token} query.at": Rule(NO_SUCH_TIMER, statuses=(404,)),
    "DELETE /timers/{token} query.at": Rule("within the horizon, and there is no timer", statuses=(404, 409, 422)),
    **{f"{form} body.{place}": rule for form in (SCHEDULE, PREVIEW) for place, rule in SCHEDULES.items()},
    f"{SCHEDULE} body.version": Rule("that of the schedule", instead=[None]),
    "POST /schedules/{id}/fire body.at_ms": Rule("not after now", instead=[None, 0]),
    "POST /schedules/{id}/backfill body.from_ms": Rule("before to_ms, not too many", instead=[1_600_000_000_000]),
    "POST /schedules/{id}/backfill body.to_ms": Rule("after from_ms, not after now", instead=[1_600_000_060_000]),
    "PUT /apps/{app}/queues/{queue}/last body.cursor": Rule("a cursor of the partition", instead=["BEGIN"]),
}

ENTRIES = {
    "POST /topics/{topic}/messages": "body.messages[]",
    "POST /topics/{topic}/messages/delete": "body.ids[]",
    "POST /topics/{topic}/leases/extend": "body.leases[]",
    "POST /topics/{topic}/leases/release": "body.leases[]",
    "POST /topics/{topic}/leases/delete": "body.leases[]",
}
"""Entries that are judged alone: what is wrong with one is said in its result."""


@pytest.fixture(scope="module")
def world(node_of: Any) -> Iterator[ApiWorld]:
    with node_of(MEANTIME_AUTH="true", MEANTIME_MIN_RETENTION_MS="1000") as places, open_world(places) as world:
        yield world


def ask(world: ApiWorld, operation: Operation, request: ApiRequest, **more: Any) -> tuple[httpx.Response, str]:
    """The answer, and in which way it is not as the document says. Of a stream only the beginning is read. A node that
    is degraded for a moment, which this test is not about, has changed nothing: it is asked when it is ready, as it says."""
    answer = world.http.send(build(world.http, operation, request, **more), stream=True)
    if answer.status_code == 503 and (problem := msgspec.json.decode(answer.read()))["code"] == "degraded":
        print(f"degraded at {request}: {problem}")
        answer.close()
        wait_until_ready(world)
        answer = world.http.send(build(world.http, operation, request, **more), stream=True)
    try:
        if not (operation.streams and answer.is_success):
            answer.read()
            return answer, operation.fault_of(answer)
        return answer, operation.fault_of(answer, b"")
    finally:
        answer.close()


def wait_until_ready(world: ApiWorld, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while world.http.get("/ready").status_code != 200 and time.monotonic() < deadline:
        time.sleep(0.2)


def test_every_operation_has_a_request_that_succeeds_as_the_document_says(
    world: ApiWorld, operations: list[Operation]
) -> None:
    assert {str(operation) for operation in operations} == set(REQUESTS)
    failures = []
    for operation in operations:
        for request in REQUESTS[str(operation)](world):
            answer, fault = ask(world, operation, request)
            if fault or not answer.is_success:
                failures.append(f"{operation}: {fault or answer.text}")
    assert not failures, "\n".join(failures)


def test_every_place_in_a_body_is_shown_by_a_request(world: ApiWorld, operations: list[Operation]) -> None:
    """What no request shows would not be tried by the tests below."""
    missing = []
    for operation in operations:
        shown = {str(place) for one in REQUESTS[str(operation)](world) for place in operation.places(one.body)}
        missing += [f"{operation} {place}" for place in operation.nested(operation.body) if place not in shown]
    assert not missing, "\n".join(missing)


def test_what_the_document_does_not_allow_is_refused_and_changes_nothing(
    world: ApiWorld, operations: list[Operation]
) -> None:
    failures, tried = [], 0
    for operation in operations:
        for request in REQUESTS[str(operation)](world):
            before = state(world)
            for place, value in outside(operation, request):
                tried += 1
                answer, fault = ask(world, operation, with_value(request, place.path, value))
                if fault or not is_refused(operation, place, answer):
                    said = fault or f"{answer.status_code} {answer.text[:200]}"
                    failures.append(f"{operation} {place} = {shortly(value)}: {said}")
            if state(world) != before:
                failures.append(f"{operation}: something changed")
    assert not failures, "\n".join(failures)
    assert tried > 700


def test_what_the_document_allows_is_taken(world: ApiWorld, operations: list[Operation]) -> None:
    failures, tried = [], 0
    for operation in operations:
        for number, shown in enumerate(REQUESTS[str(operation)](world)):
            for place in operation.places(shown.body):
                rule = RULES.get(f"{operation} {place}", Rule(""))
                if not str(place).startswith(shown.about):
                    continue
                for value in allowed(world, operation, place, value_at(shown, place.path), rule):
                    tried += 1
                    request = with_value(REQUESTS[str(operation)](world)[number], place.path, value)
                    for other, changed in rule.also.items():
                        request = with_value(request, tuple(other.split(".")), changed)
                    answer, fault = ask(world, operation, request)
                    if fault or not (answer.is_success or answer.status_code in rule.statuses):
                        failures.append(f"{operation} {place} = {shortly(value)}: {fault or answer.text[:300]}")
    assert not failures, "\n".join(failures)
    assert tried > 200


def test_what_is_left_out_is_as_the_default_says(world: ApiWorld, operations: list[Operation]) -> None:
    """Wherever the answer shows what was sent."""
    failures, compared = [], 0
    for operation in operations:
        if str(operation) not in ("POST /event-types", "POST /subscriptions", "POST /storages", "PUT /topics/{topic}"):
            continue
        (request,) = REQUESTS[str(operation)](world)
        places = list(operation.places(request.body))
        for place in sorted(places, key=lambda place: len(place.path), reverse=True):
            is_entry = isinstance(place.path[-1], int)
            if not (place.required or is_entry or len(place.path) == 1) and value_at(request, place.path) is not NOTHING:
                request = with_value(request, place.path, NOTHING)
        answer, fault = ask(world, operation, request)
        assert answer.status_code == 201, answer.text
        assert not fault
        shown = ApiRequest(body=answer.json())
        for place in [*places, *operation.answered(201)]:
            default, found = place.schema.get("default"), value_at(shown, place.path)
            if default is not None and found is not NOTHING:
                compared += 1
                failures += [f"{operation} {place}: {found!r}, not {default!r}"] if found != default else []
    assert not failures, "\n".join(failures)
    assert compared > 15


def outside(operation: Operation, request: ApiRequest) -> Iterator[tuple[Place, Any]]:
    for place in operation.places(request.body):
        if not str(place).startswith(request.about):
            continue
        present = value_at(request, place.path)
        for value in operation.outside(place, present):
            if value is not NOTHING or present is not NOTHING:
                yield place, value


def allowed(world: ApiWorld, operation: Operation, place: Place, present: Any, rule: Rule) -> list[Any]:
    if rule.instead is None:
        return operation.inside(place, present)
    found: list[Any] = rule.instead(world) if callable(rule.instead) else rule.instead
    return found


def is_refused(operation: Operation, place: Place, answer: httpx.Response) -> bool:
    entries = ENTRIES.get(str(operation))
    if entries is not None and str(place).startswith(entries) and answer.is_success:
        return bool(answer.json()["results"][0]["status"] not in ("ok", "created"))
    who = 401 if place.path[-1] in ("X-Producer-Group", "consumer_id") else 400
    return answer.status_code in (400, 422, who) and answer.headers["Content-Type"] == "application/problem+json"


def state(world: ApiWorld) -> list[Any]:
    """All that requests could change."""
    pages = [
        "/event-types",
        "/topics",
        "/subscriptions?limit=1000",
        "/storages",
        f"/topics/{world.topic}/count",
        "/schedules?limit=1000",
        f"/event-types/{world.read}/partitions",
        f"/event-types/{world.switched}/timelines",
        f"/apps/{world.running_app['app']}/queues",
    ]
    return [world.make("GET", page) for page in pages]


def shortly(value: object) -> str:
    return "nothing" if value is NOTHING else repr(value)[:80]
