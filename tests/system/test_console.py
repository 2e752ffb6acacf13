"""The console on a node that asks for keys: sessions, what onlookers see, the live stream, and what is written down."""

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import httpx
import pytest

from meantime.access.keys import Keys
from meantime.console.merge_patch import patched
from meantime.database.pool import open_database
from meantime.stack.model import Places

pytestmark = [pytest.mark.takes(seconds=40), pytest.mark.timeout(300)]

GROUP = {"X-Producer-Group": "owners"}
SECRET = "for-nobody-elses-eyes"


@pytest.fixture(scope="module")
def places(node_of) -> Iterator[Places]:
    with node_of(MEANTIME_AUTH="true") as places:
        yield places


@pytest.fixture
def name() -> str:
    return f"n-{uuid4().hex[:8]}"


@pytest.fixture
def url(places: Places) -> str:
    return places.nodes[0].url


@pytest.fixture(scope="module")
def admin(places: Places) -> Iterator[httpx.Client]:
    async def add() -> tuple[str, str]:
        async with open_database(places.postgres, size=2) as database:
            return await Keys(database).add("first", ["admin"], 1)

    headers = {"Authorization": f"Bearer {asyncio.run(add())[1]}"}
    with httpx.Client(base_url=places.nodes[0].url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


@pytest.fixture
def new_key(admin: httpx.Client) -> Callable[..., dict[str, Any]]:
    def add(*scopes: str) -> dict[str, Any]:
        made: dict[str, Any] = admin.post("/keys", json={"name": f"key-{uuid4().hex[:6]}", "scopes": list(scopes)}).json()
        return made

    return add


@pytest.fixture
def client_with(url: str, new_key) -> Iterator[Callable[..., httpx.Client]]:
    opened: list[httpx.Client] = []

    def client(*scopes: str) -> httpx.Client:
        headers = {"Authorization": f"Bearer {new_key(*scopes)['key']}"}
        opened.append(httpx.Client(base_url=url, headers=headers, timeout=60, trust_env=False))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


@pytest.fixture
def browser(url: str) -> Iterator[httpx.Client]:
    """Keeps cookies, and says where a write comes from, as browsers do."""
    with httpx.Client(base_url=url, headers={"Origin": url}, timeout=60, trust_env=False) as browser:
        yield browser


def logged_in(browser: httpx.Client, key: str) -> httpx.Client:
    answer = browser.post("/console/login", json={"key": key})
    assert answer.status_code == 204, answer.text
    return browser


class EventReader(Thread):
    """Reads server-sent events until they end; `state` is what they make."""

    def __init__(self, client: httpx.Client, path: str = "/console/events") -> None:
        super().__init__(daemon=True)
        self.kinds: list[str] = []
        self.state: dict[str, Any] = {}
        self.changed, self.ended = Event(), Event()
        self._client, self._path = client, path
        self.start()

    def run(self) -> None:
        kind = ""
        try:
            with self._client.stream("GET", self._path) as answer:
                for line in answer.iter_lines():
                    field, _, value = line.partition(": ")
                    if field == "event":
                        kind = value
                    elif field == "data":
                        data = json.loads(value)
                        self.state = data if kind == "snapshot" else patched(self.state, data)
                        self.kinds.append(kind)
                        self.changed.set()
        except httpx.HTTPError:
            pass
        finally:
            self.ended.set()

    def until(self, condition: Callable[[dict[str, Any]], bool], within: float = 60.0) -> dict[str, Any]:
        deadline = time.monotonic() + within
        while not condition(self.state):
            assert time.monotonic() < deadline, f"not within {within} s: {self.kinds[-5:]} {json.dumps(self.state)[:2000]}"
            self.changed.wait(1.0)
            self.changed.clear()
        return self.state


# Sessions


def test_a_key_becomes_a_cookie_that_stands_for_it(browser, admin, new_key, name) -> None:
    made = new_key("look", "operate:*")
    assert browser.get("/console/session").json()["identity"] is None
    answer = browser.post("/console/login", json={"key": made["key"]})
    assert (answer.status_code, answer.content) == (204, b"")
    header = answer.headers["set-cookie"]
    assert made["key"] not in header
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(header.split("; "))
    assert "Secure" not in header
    session = browser.get("/console/session").json()
    assert session["authentication"] is True
    assert session["identity"] == {"name": made["name"], "key_id": made["id"], "scopes": ["look", "operate:*"]}
    assert browser.get("/topics").status_code == 200
    assert browser.put(f"/topics/{name}", json={}).status_code == 403
    assert browser.get("/keys").json()["required_scope"] == "admin"


def test_a_wrong_key_gets_no_cookie(browser) -> None:
    for body in ({"key": "mt_00000000_" + "x" * 43}, {"key": ""}, {"key": "Bearer x"}):
        answer = browser.post("/console/login", json=body)
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers
    assert browser.post("/console/login", json={}).status_code == 422
    assert browser.post("/console/login", content=b"[]").status_code == 400


def test_a_write_by_cookie_has_to_come_from_this_origin(url, browser, new_key, name) -> None:
    logged_in(browser, new_key("admin")["key"])
    cookie = {"Cookie": f"meantime_session={browser.cookies['meantime_session']}"}
    refused = [
        {},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": url, "Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
    ]
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as other:
        for headers in refused:
            answer = other.put(f"/topics/{name}", json={}, headers=cookie | headers)
            assert (answer.status_code, answer.json()["reason"]) == (403, "origin"), headers
            assert "access-control-allow-origin" not in answer.headers
        assert other.get(f"/topics/{name}", headers=cookie).status_code == 404
        for headers in ({"Origin": url}, {"Sec-Fetch-Site": "same-origin", "Origin": "https://proxy.example"}):
            assert other.put(f"/topics/{name}", json={}, headers=cookie | headers).status_code in (200, 201)
        login = other.post("/console/login", json={"key": "x"}, headers={"Origin": "http://evil.example"})
        assert login.status_code == 403


def test_a_token_is_no_key_and_a_key_is_no_token(url, new_key, browser) -> None:
    key = new_key("admin")["key"]
    token = logged_in(browser, key).cookies["meantime_session"]
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as other:
        assert other.get("/topics", headers={"Authorization": f"Bearer {token}"}).status_code == 401
        assert other.get("/topics", headers={"Cookie": f"meantime_session={key}"}).status_code == 401
        assert other.get("/topics", headers={"Cookie": "meantime_session=ms_" + "x" * 43}).status_code == 401


def test_a_logout_ends_the_session_wherever_its_cookie_is(url, browser, new_key) -> None:
    token = logged_in(browser, new_key("look")["key"]).cookies["meantime_session"]
    stolen = {"Cookie": f"meantime_session={token}"}
    with httpx.Client(base_url=url, timeout=60, trust_env=False) as other:
        reader = EventReader(browser)
        reader.until(lambda state: "nodes" in state)
        assert other.get("/topics", headers=stolen).status_code == 200
        answer = other.post("/console/logout", headers=stolen | {"Origin": url})
        assert (answer.status_code, "Max-Age=0" in answer.headers["set-cookie"]) == (204, True)
        assert other.get("/topics", headers=stolen).status_code == 401
        assert reader.ended.wait(30)
        assert other.post("/console/logout", headers=stolen).status_code == 204


def test_a_revoked_key_ends_its_sessions_and_their_streams(browser, admin, new_key) -> None:
    made = new_key("look")
    reader = EventReader(logged_in(browser, made["key"]))
    reader.until(lambda state: "nodes" in state)
    assert admin.delete(f"/keys/{made['id']}").status_code == 204
    assert reader.ended.wait(30)
    assert browser.get("/topics").status_code == 401
    assert browser.get("/console/session").json()["identity"] is None
    assert admin.delete(f"/keys/{made['id']}").status_code == 404


# Onlookers


def test_onlookers_see_everything_but_bodies(admin, client_with, name) -> None:
    assert admin.put(f"/topics/{name}", json={}).status_code == 201
    body = {
        "messages": [{"id": "m", "after_ms": 0, "body": {"x": SECRET}}, {"id": "b", "after_ms": 0, "body_b64": "c2VjcmV0"}]
    }
    assert admin.post(f"/topics/{name}/messages", json=body, headers=GROUP).status_code == 201
    assert admin.post("/event-types", json={"name": name}).status_code == 201
    assert admin.post(f"/event-types/{name}/events", json=[{"x": SECRET}]).status_code == 200
    look, bodies = client_with("look"), client_with("look:bodies")
    shown = (f"/topics/{name}/messages", f"/topics/{name}/messages?all=true", f"/topics/{name}/messages/m?all=true")
    for path in shown:
        assert look.get(path).status_code == bodies.get(path).status_code == 200
        assert SECRET not in look.get(path).text
        assert "c2VjcmV0" not in look.get(path).text
        assert SECRET in bodies.get(path).text
    cursors = {"X-Nakadi-Cursors": '[{"partition":"0","offset":"BEGIN"}]'}
    events = f"/event-types/{name}/events?stream_limit=1&batch_flush_timeout=1"
    assert look.get(events, headers=cursors).status_code == 403
    assert SECRET in bodies.get(events, headers=cursors).text
    for path in (
        f"/event-types/{name}",
        f"/event-types/{name}/timelines",
        f"/topics/{name}/load?from_ms=0&to_ms=9&step_ms=9",
    ):
        assert look.get(path).status_code == 200
    assert name in [one["name"] for one in look.get("/event-types").json()]
    for path in ("/audit", "/keys"):
        assert bodies.get(path).status_code == 403


# The stream


def test_the_stream_begins_with_a_state_and_goes_on_with_what_changes(admin, client_with, name) -> None:
    reader = EventReader(client_with("look"))
    state = reader.until(lambda state: state.get("nodes", {}).get("alone", {}).get("state") == "healthy")
    assert {"now_ms", "node", "nodes", "rates", "topics", "event_types", "apps", "lateness", "problems"} <= set(state)
    assert reader.kinds[0] == "snapshot"
    settings = {"max_attempts": 1}
    assert admin.put(f"/topics/{name}", json=settings).status_code == 201
    admin.post("/event-types", json={"name": name})
    stop = Event()

    def work() -> None:
        while not stop.wait(0.1):
            admin.post(f"/topics/{name}/messages", json={"messages": [{"after_ms": 0}]}, headers=GROUP)
            admin.post(f"/event-types/{name}/events", json=[{"n": 1}])

    worker = Thread(target=work)
    worker.start()
    try:
        reader.until(lambda state: state["topics"].get(name, {}).get("create", 0) > 0)
        reader.until(lambda state: state["event_types"].get(name, {}).get("publish", 0) > 0)
        reader.until(lambda state: state["rates"]["create"] > 0 and state["rates"]["publish"] > 0)
        reader.until(lambda state: state["topics"].get(name, {}).get("available", 0) > 0)
    finally:
        stop.set()
        worker.join()
    (lease,) = admin.post(f"/topics/{name}/leases", json={"consumer_id": "c", "limit": 1}).json()["leases"]
    claim = {"id": lease["id"], "version": lease["version"]}
    admin.post(f"/topics/{name}/leases/release", json={"consumer_id": "c", "leases": [claim]})
    problem = reader.until(lambda state: f"dead:{name}" in state["problems"])["problems"][f"dead:{name}"]
    assert (problem["code"], problem["link"]) == ("dead_letters", f"topics/{name}")
    assert set(reader.kinds[1:]) == {"delta"}
    assert sum(reader.state["lateness"]["counts"]) >= 1


def test_only_onlookers_and_admins_follow_the_stream(url, client_with) -> None:
    assert client_with("operate:*", "timers", "apps").get("/console/events").status_code == 403
    with httpx.Client(base_url=url, trust_env=False) as nobody:
        assert nobody.get("/console/events").status_code == 401


def test_a_node_that_stops_ends_the_stream(node_of) -> None:
    with httpx.Client(timeout=60, trust_env=False) as client:
        with node_of() as places:
            reader = EventReader(client, f"{places.nodes[0].url}/console/events")
            reader.until(lambda state: "nodes" in state)
        assert reader.ended.wait(60)


# What is written down


def test_every_act_is_in_the_audit_log_with_who_did_it_and_how_many(admin, client_with, new_key, name) -> None:
    made = new_key("admin")
    with httpx.Client(base_url=admin.base_url, timeout=60, trust_env=False) as acting:
        acting.headers["Authorization"] = f"Bearer {made['key']}"
        assert acting.put(f"/topics/{name}", json={"dedupe_ms": 5}).status_code == 201
        assert acting.put(f"/topics/{name}", json={"dedupe_ms": 5}).status_code == 200  # nothing has changed
        drafts = [{"id": f"m{n}", "after_ms": 3_600_000} for n in range(5)]
        acting.post(f"/topics/{name}/messages", json={"messages": drafts}, headers=GROUP)
        moved = acting.post(f"/topics/{name}/messages/move", json={"filter": {"id_prefix": "m"}, "after_ms": 7_200_000})
        assert moved.json() == {"count": 5, "skipped": 0}
        assert acting.post(f"/topics/{name}/messages/delete", json={"ids": ["m0"]}, headers=GROUP).status_code == 200
        deleted = acting.post(f"/topics/{name}/messages/delete", json={"filter": {"status": "waiting"}, "expect": 4})
        assert deleted.json() == {"count": 4, "skipped": 0}
        assert (
            acting.post(f"/topics/{name}/messages/delete", json={"filter": {"ids": ["m1"]}, "expect": 1}).status_code == 409
        )
        assert acting.post("/event-types", json={"name": name}).status_code == 201
        assert acting.post(f"/event-types/{name}/timelines", json={"storage_id": "default"}).status_code == 201
        assert acting.delete(f"/topics/{name}").status_code == 202
    entries = admin.get("/audit", params={"actor": made["name"]}).json()["entries"]
    found = [(one["action"], one["target"], one["count"]) for one in reversed(entries)]
    assert found == [
        ("create", f"topics/{name}", None),
        ("move", f"topics/{name}/messages", 5),
        ("delete", f"topics/{name}/messages", 4),
        ("create", f"event-types/{name}", None),
        ("switch", f"event-types/{name}", None),
        ("delete", f"topics/{name}", None),
    ]
    assert all(one["detail"]["key_id"] == made["id"] for one in entries)
    page = admin.get("/audit", params={"actor": made["name"], "limit": 4}).json()
    rest = admin.get("/audit", params={"actor": made["name"], "before": page["next"]}).json()
    assert page["entries"] + rest["entries"] == entries
    assert admin.get("/audit", params={"actor": made["name"], "to_ms": entries[-1]["at_ms"]}).json()["entries"] == []


def test_a_switch_tells_its_phases_and_who_has_acknowledged(admin, name) -> None:
    admin.post("/event-types", json={"name": name})
    assert admin.post(f"/event-types/{name}/timelines", json={"storage_id": "default"}).status_code == 201
    (listed,) = admin.get(f"/event-types/{name}/switches").json()
    switch = admin.get(f"/event-types/{name}/switches/{listed['id']}").json()
    phases = {phase["name"]: phase["ms"] for phase in switch["phases"]}
    assert set(phases) == {"prepare", "lock", "acknowledge", "seal", "snapshot", "commit", "unlock"}
    assert all(ms >= 0 for ms in phases.values())
    assert [one["node"] for one in switch["acknowledged"]] == ["alone"]
    assert switch["overtaken"] == []


def test_nodes_tell_how_far_their_clocks_were_from_cluster_time(admin) -> None:
    deadline = time.monotonic() + 60
    while True:
        (node,) = admin.get("/nodes", params={"history_s": 60}).json()["nodes"]
        if len(node["history"]) >= 2:
            break
        assert time.monotonic() < deadline
        time.sleep(0.5)
    instants = [point["at_ms"] for point in node["history"]]
    assert instants == sorted(instants)
    assert "history" not in admin.get("/nodes").json()["nodes"][0]
    assert admin.get("/nodes", params={"history_s": 901}).status_code == 400
