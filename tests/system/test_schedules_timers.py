"""Schedules into Kafka topics and event types, as timers that a node sets ahead and cancels when the schedule changes."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import api_world
import pytest
from api_world import ApiWorld, new_name

from meantime.stack.model import Places

pytestmark = [pytest.mark.takes(seconds=40), pytest.mark.timeout(300)]

NodeOf = Callable[..., AbstractContextManager[Places]]


@pytest.fixture(scope="module")
def world(node_of: NodeOf) -> Iterator[ApiWorld]:
    with node_of(MEANTIME_AUTH="true") as places, api_world.open_world(places) as world:
        yield world


def planned(world: ApiWorld, name: str, version: int = 1) -> list[dict[str, Any]]:
    """Its firings that this version has set, once there are some."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        firings = world.make("GET", f"/schedules/{name}/firings")["firings"]
        found = [one for one in firings if (one["state"], one["version"]) == ("planned", version)]
        if found:
            return found
        time.sleep(0.2)
    raise AssertionError("nothing was set ahead")


def until_known(world: ApiWorld, token: str) -> dict[str, Any]:
    """A firing is recorded a moment before its timer is set."""
    deadline = time.monotonic() + 60
    while (answer := world.http.get(f"/timers/{token}")).status_code == 404 and time.monotonic() < deadline:
        time.sleep(0.2)
    return dict(answer.json())


def far(firings: list[dict[str, Any]]) -> dict[str, Any]:
    """One that is certain to be cancelled in time."""
    return max(firings, key=lambda one: one["at_ms"])


def test_firings_are_timers_under_their_natural_token_and_are_cancelled_with_their_schedule(world: ApiWorld) -> None:
    name = new_name("calls")
    form = {"every_ms": 10_000, "target": {"kafka_topic": world.callback_topic, "key": "k"}, "body": {"n": "{{firing}}"}}
    world.make("PUT", f"/schedules/{name}", form)
    last = far(planned(world, name))
    assert last["token"] == f"s:{name}@{last['at_ms']}"
    assert until_known(world, last["token"])["state"] == "pending"
    world.make("PUT", f"/schedules/{name}", form | {"body": {"n": 2}})
    assert world.make("GET", f"/timers/{last['token']}")["state"] in ("pending", "cancelled")
    again = {one["at_ms"]: one for one in planned(world, name, version=2)}
    assert again[last["at_ms"]]["token"] == f"{last['token']}:2"
    world.http.delete(f"/schedules/{name}")
    assert world.http.get(f"/schedules/{name}").status_code == 404


def test_an_event_type_is_fired_into_with_an_event_that_it_takes(world: ApiWorld) -> None:
    declared = {"name": new_name("orders"), "category": "business", "owning_application": "tests"}
    schema = {"schema": {"type": "json_schema", "schema": '{"required": ["a"]}'}}
    world.make("POST", "/event-types", declared | schema)
    name, target = new_name("events"), {"event_type": declared["name"]}
    refused = world.http.put(f"/schedules/{name}", json={"every_ms": 10_000, "target": target, "body": {"b": 1}})
    assert (refused.status_code, refused.json()["field"]) == (422, "body")
    world.make("PUT", f"/schedules/{name}", {"every_ms": 10_000, "target": target, "body": {"a": "{{schedule}}"}})
    last = far(planned(world, name))
    assert until_known(world, last["token"])["state"] == "pending"
    paused = world.make("POST", f"/schedules/{name}/pause", {"note": "enough"})
    assert last["at_ms"] not in paused["too_late"]
    shown = {one["at_ms"]: one for one in world.make("GET", f"/schedules/{name}/firings")["firings"]}
    assert shown[last["at_ms"]]["state"] == "cancelled"


def test_a_target_that_is_not_there_is_refused_by_its_field(world: ApiWorld) -> None:
    for target, field in (({"kafka_topic": "none"}, "target.kafka_topic"), ({"event_type": "none"}, "target.event_type")):
        body = {"every_ms": 10_000, "target": target, "body": {}}
        answer = world.http.put(f"/schedules/{new_name('none')}", json=body)
        assert (answer.status_code, answer.json()["field"]) == (422, field)


def test_firings_to_come_are_part_of_the_load_of_timers(world: ApiWorld) -> None:
    name, now = new_name("load"), int(time.time())
    at_ms = (now + 7_200) * 1000
    target = {"kafka_topic": world.callback_topic}
    world.make("PUT", f"/schedules/{name}", {"at_ms": [at_ms], "target": target, "body": {}})
    (slot,) = world.make("GET", f"/timers/load?from={now + 7_200}&to={now + 7_201}&step=1")["slots"]
    assert slot["planned"] >= 1
