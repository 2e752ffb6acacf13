"""Timers into nothing are refused when they are set: over HTTP, by the SDK and on the command line."""

import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from conftest import RunningStack, command
from meantime.errors import Invalid, NotFound
from meantime.sdk.calls.timers import TimerDraft
from meantime.sdk.client import Client

FAR_S = 300 * 86_400
"""Nobody is to fire what these tests set."""
METADATA = {"eid": str(uuid4()), "occurred_at": "2026-05-01T09:00:00Z"}
SCHEMA = '{"type": "object", "properties": {"order": {"type": "integer"}}, "required": ["order"]}'


@pytest.fixture(scope="module")
def http(cluster: RunningStack) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=cluster.urls[0], timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def name() -> str:
    return f"orders.{uuid4().hex[:8]}"


def set_timer(http: httpx.Client, topic: str, callback: Any = "hi", **more: Any) -> httpx.Response:
    return http.post("/timers", json={"after": FAR_S, "callback_topic": topic, "callback": callback, **more})


def declare(http: httpx.Client, name: str, category: str, schema: str = SCHEMA) -> None:
    document = {"name": name, "category": category, "schema": {"type": "json_schema", "schema": schema}}
    assert http.post("/event-types", json=document).status_code == 201


def make_topic(cluster: RunningStack, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.places.kafka[0]})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)


def test_a_topic_and_an_event_type_that_do_not_exist_are_not_found_until_they_do(cluster, http, name):
    for topic, said in ((name, f"there is no topic {name!r}"), (f"event-type:{name}", f"{name!r} does not exist")):
        refused = set_timer(http, topic, {"order": 1})
        assert (refused.status_code, refused.json()["code"], refused.json()["field"]) == (404, "not_found", "callback_topic")
        assert said in refused.json()["detail"]
    make_topic(cluster, name)
    declare(http, name, "undefined")
    for topic in (name, f"event-type:{name}"):
        answer = set_timer(http, topic, {"order": 1})
        assert answer.status_code == 202, answer.text
        assert http.get(f"/timers/{answer.json()['token']}").json()["state"] == "pending"


def test_an_event_is_held_against_its_event_type_when_its_timer_is_set(http, name):
    declare(http, name, "business")
    good = {"order": 7, "metadata": METADATA}
    bad: list[tuple[Any, str]] = [
        ({"order": "seven", "metadata": METADATA}, "#/order"),
        ({"metadata": METADATA}, "order"),
        ({"order": 7}, "metadata"),
        ({"order": 7, "metadata": METADATA | {"event_type": "another"}}, "#/metadata/event_type"),
        ("no event at all", "JSON object"),
    ]
    for callback, said in bad:
        refused = set_timer(http, f"event-type:{name}", callback)
        assert (refused.status_code, refused.json()["field"]) == (422, "callback"), refused.text
        assert said in refused.json()["detail"]
    assert set_timer(http, f"event-type:{name}", good).status_code == 202


def test_a_batch_with_a_bad_entry_is_refused_as_a_whole_and_the_entry_is_named(cluster, http, name):
    declare(http, name, "undefined")
    make_topic(cluster, name)
    second = int(time.time()) + FAR_S
    for topic, callback, code in (
        ("nowhere-to-be-found", "hi", "unknown_reference"),
        ("event-type:nowhere.to.be.found", {"order": 1}, "unknown_reference"),
        (f"event-type:{name}", {"order": "x"}, "invalid"),
    ):
        mark = uuid4().hex[:8]
        tokens = [f"{mark}-{number}" for number in range(600)]
        timers = [{"at": second, "callback_topic": name, "token": token} for token in tokens]
        timers[100:500] = [
            {"at": second, "callback_topic": f"event-type:{name}", "callback": {"order": 1}, "token": token}
            for token in tokens[100:500]
        ]
        timers[444] = {"at": second, "callback_topic": topic, "callback": callback, "token": tokens[444]}
        timers[555] = {"at": second, "callback_topic": "nowhere-either", "token": tokens[555]}
        refused = http.post("/timers", json={"timers": timers})
        assert (refused.status_code, refused.json()["code"], refused.json()["index"]) == (422, code, 444), refused.text
        assert refused.json()["detail"].startswith("timers[444]: ")
        assert http.get(f"/timers/{tokens[0]}", params={"at": second}).status_code == 404
        del timers[555], timers[444]
        assert http.post("/timers", json={"timers": timers}).status_code == 202


def test_the_sdk_and_the_command_line_say_so(cluster, http, name):
    declare(http, name, "undefined")
    with Client(cluster.urls) as client:
        with pytest.raises(NotFound, match="there is no topic"):
            client.timer(f"calls-{name}", "hi", after=FAR_S)
        with pytest.raises(NotFound, match="does not exist"):
            client.timer(f"event-type:not.{name}", {"order": 1}, after=FAR_S)
        with pytest.raises(Invalid, match="would not take it: #/order"):
            client.timer(f"event-type:{name}", {"order": "x"}, after=FAR_S)
        with pytest.raises(Invalid, match=r"timers\[1\]: there is no topic"):
            client.timer_many(
                [TimerDraft(f"event-type:{name}", {"order": 1}, after=FAR_S), TimerDraft("nowhere-at-all", after=FAR_S)]
            )
    options = ("--after", "300d", "--url", cluster.urls[0])
    assert command(cluster.places, "timers", "set", f"calls-{name}", "hi", *options)[0] == 5
    assert command(cluster.places, "timers", "set", f"event-type:not.{name}", "{}", *options)[0] == 5
    assert command(cluster.places, "timers", "set", f"event-type:{name}", "{}", *options)[0] == 4
    assert command(cluster.places, "timers", "set", f"event-type:{name}", '{"order": 1}', *options)[0] == 0
