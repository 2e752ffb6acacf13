"""A field that nobody knows never passes in silence: it is refused with the name that was meant, or, where clients of Nakadi
must be able to send more than we know, ignored and said."""

import json
from collections.abc import Iterator
from typing import Any

import api_document
import api_world
import pytest
from api_document import Operation, build, choices
from api_requests import REQUESTS
from api_world import ApiWorld

from conftest import command
from meantime.sdk.client import Client
from meantime.sdk.core import UnknownFieldWarning
from meantime.sdk.model import EventType

pytestmark = [pytest.mark.takes(seconds=30), pytest.mark.timeout(300)]
world, operations = api_world.world, api_document.operations

STRICT = ("/topics", "/timers", "/schedules", "/apps")


def test_a_topic_with_a_misspelt_setting_is_not_made(world: ApiWorld) -> None:
    answer = world.http.put("/topics/zz", json={"max_atempts": 5})
    assert answer.status_code == 422
    assert answer.json()["field"] == "max_atempts"
    assert "did you mean max_attempts?" in answer.json()["detail"]
    assert world.http.get("/topics/zz").status_code == 404


def test_a_timer_with_a_misspelt_field_is_not_set(world: ApiWorld) -> None:
    good = {"after": 3600, "callback_topic": "t", "callback": "x"}
    wrong = world.http.post("/timers", json={"timer": [good]})
    assert wrong.status_code == 422
    assert "did you mean timers?" in wrong.json()["detail"]
    for body in ({**good, "callback_ky": "k"}, {"timers": [good, {**good, "callback_ky": "k"}]}):
        answer = world.http.post("/timers", json=body)
        assert answer.status_code == 422, answer.text
        assert "did you mean callback_key?" in answer.json()["detail"]


def test_a_message_with_a_misspelt_field_refuses_its_batch(world: ApiWorld) -> None:
    world.make("PUT", "/topics/typos", {})
    group = {"X-Producer-Group": "owners"}
    good = {"after_ms": 60_000, "body": 1, "id": "good"}
    for bad in ({**good, "id": "bad", "body64": "eA=="}, {"aftr_ms": 1, **good, "id": 5}):
        answer = world.http.post("/topics/typos/messages", json={"messages": [good, bad]}, headers=group)
        assert answer.status_code == 422, answer.text
        assert "is not known here; did you mean" in answer.json()["detail"]
    assert world.http.get("/topics/typos/messages/good", headers=group).status_code == 404


def test_every_object_in_a_body_of_topics_timers_schedules_and_apps_refuses_what_it_does_not_know(
    world: ApiWorld, operations: list[Operation]
) -> None:
    failures, tried = [], 0
    for operation in operations:
        for number, shown in enumerate(REQUESTS[str(operation)](world)):
            if operation.body is None or not operation.path.startswith(STRICT):
                continue
            for path in objects(shown.body, operation, operation.body):
                tried += 1
                request = REQUESTS[str(operation)](world)[number]
                put(request.body, path, "no_such_field")
                answer = world.http.send(build(world.http, operation, request))
                if answer.status_code != 422 or "no_such_field" not in answer.json()["detail"]:
                    failures.append(f"{operation} {path}: {answer.status_code} {answer.text[:200]}")
    assert not failures, "\n".join(failures)
    assert tried > 10


def objects(body: Any, operation: Operation, schema: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every object of a request that the document describes field by field."""
    for one in choices(operation.document, schema):
        if isinstance(body, dict) and "properties" in one:
            yield path
            for name, found in one["properties"].items():
                yield from objects(body.get(name), operation, found, (*path, name))
        if isinstance(body, list) and body and "items" in one:
            yield from objects(body[0], operation, one["items"], (*path, 0))


def put(body: Any, path: tuple[Any, ...], name: str) -> None:
    for part in path:
        body = body[part]
    body[name] = 1


def test_a_parameter_that_nobody_knows_is_refused(world: ApiWorld) -> None:
    world.make("PUT", "/topics/typos", {})
    answer = world.http.get("/topics/typos/count", params={"form_ms": 1})
    assert answer.status_code == 422
    assert "did you mean from_ms?" in answer.json()["detail"]


def test_streams_ignore_what_they_do_not_know_and_say_so(world: ApiWorld) -> None:
    body = {"name": "typos.event", "partitons": 3, "options": {"retention": 5}, "überall": 1, "created_at": "read-only"}
    answer = world.http.post("/event-types", json=body)
    assert answer.status_code == 201
    assert answer.headers["X-Meantime-Ignored"] == "partitons, options.retention, %C3%BCberall"
    shown = world.http.get("/event-types/typos.event").json()
    again = world.http.put("/event-types/typos.event", json=shown)
    assert again.status_code == 200
    assert "X-Meantime-Ignored" not in again.headers
    read = world.http.get("/event-types/typos.event/events", params={"batch_limt": 1, "stream_timeout": 1})
    assert read.headers["X-Meantime-Ignored"] == "?batch_limt"
    bad = world.http.post("/event-types", json={"nmae": "x"})
    assert bad.status_code == 422
    assert bad.headers["X-Meantime-Ignored"] == "nmae"


def test_the_sdk_and_the_command_line_warn(world: ApiWorld, tmp_path: Any, capsys: Any) -> None:
    key = world.http.headers["Authorization"].removeprefix("Bearer ")
    with Client(world.places.nodes[0].url, key) as client, pytest.warns(UnknownFieldWarning, match=r"options\.retention"):
        client.create_event_type(EventType("typos.sdk", options={"retention": 5}))
    declared = tmp_path / "declared.json"
    declared.write_text(json.dumps({"partitons": 3, "options": {"retention": 5}}))
    options = ("--file", str(declared), "--key", key, "--url", world.places.nodes[0].url)
    code, _ = command(world.places, "event-types", "create", "typos.cli", *options)
    warned = capsys.readouterr().err
    assert code == 0
    assert "has what nobody knows, and it is ignored: partitons" in warned
    assert "warning: the broker ignored what it does not know: options.retention" in warned
