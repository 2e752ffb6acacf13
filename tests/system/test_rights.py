"""Ways around the rights that a key has, tried on a node that asks for keys."""

import asyncio
import json
from threading import Event, Thread
from uuid import uuid4

import httpx
import pytest
from timers_world import kafka_with_topics, until

from meantime.access.keys import Keys
from meantime.database.pool import open_database

pytestmark = pytest.mark.takes(seconds=30)

NOW_MS = 1


@pytest.fixture(scope="module")
def places(node_of):
    with node_of(MEANTIME_AUTH="true") as places:
        yield places


@pytest.fixture(scope="module")
def kafka(services):
    """What is written to the topics of timers is seen by whoever tests them on this Kafka: they take turns."""
    with kafka_with_topics(services.kafka[0]) as kafka:
        yield kafka


@pytest.fixture
def name() -> str:
    return f"n-{uuid4().hex[:8]}"


def new_key(places, *scopes: str, name: str = "test") -> tuple[str, str]:
    async def add() -> tuple[str, str]:
        async with open_database(places.postgres, size=2) as database:
            return await Keys(database).add(name, list(scopes), NOW_MS)

    return asyncio.run(add())


@pytest.fixture
def client_with(places):
    """`client_with("timers")` speaks to the node with a new key of these scopes, called `key_name`."""
    opened: list[httpx.Client] = []

    def client(*scopes: str, key_name: str = "test", **headers: str) -> httpx.Client:
        authorization = {"Authorization": f"Bearer {new_key(places, *scopes, name=key_name)[1]}"}
        opened.append(httpx.Client(base_url=places.nodes[0].url, headers=authorization | headers, timeout=30))
        return opened[-1]

    yield client
    for one in opened:
        one.close()


@pytest.fixture
def admin(client_with) -> httpx.Client:
    return client_with("admin")


def test_an_application_cannot_send_its_dead_letters_into_the_topics_of_another(client_with, admin, name) -> None:
    for purpose in ("retry", "dead"):
        assert admin.put(f"/topics/{name}.{purpose}", json={}).status_code == 201
    other = client_with("produce:other", "consume:other.retry")
    settings = {"max_attempts": 1, "dead_letter_topic": f"{name}.retry"}
    refused = other.put("/topics/other.retry", json=settings)
    assert (refused.status_code, refused.json()["required_scope"]) == (403, f"produce:{name}")
    own = client_with(f"produce:{name}")
    assert own.put(f"/topics/{name}.retry", json={"dead_letter_topic": f"{name}.dead"}).status_code == 200
    assert own.put(f"/topics/{name}.periodic", json={}).status_code == 201


def test_a_timer_calls_back_only_what_its_setter_may_write(client_with, admin, kafka, name) -> None:
    assert admin.post("/event-types", json=event_type(name)).status_code == 201
    calls = kafka.new_topic()
    raw, into = timer(calls), timer(f"event-type:{name}", callback={"n": 1})
    nobody = client_with("timers")
    assert required_scope(nobody.post("/timers", json=raw)) == f"callback:{calls}"
    assert required_scope(nobody.post("/timers", json=timer("event-type:no.such", callback={}))) == "publish:no.such"
    assert required_scope(nobody.post("/timers", json=into)) == f"publish:{name}"
    caller = client_with("timers", "callback:calls-*")
    assert caller.post("/timers", json=raw).status_code == 202
    assert required_scope(caller.post("/timers", json={"timers": [raw, into]})) == f"publish:{name}"
    publisher = client_with("timers", f"publish:{name}")
    assert publisher.post("/timers", json=into).status_code == 202
    assert required_scope(publisher.post("/timers", json=raw)) == f"callback:{calls}"
    assert required_scope(client_with(f"publish:{name}").post("/timers", json=into)) == "timers"


def test_topics_of_timelines_and_of_the_system_are_nobodys_callback_topic(admin, kafka, name) -> None:
    assert admin.post("/event-types", json=event_type(name)).status_code == 201
    (timeline,) = admin.get(f"/event-types/{name}/timelines").json()
    system = ("oscillator", "timer-request", "timer-due", "timer-done", "timer-rejected", "__consumer_offsets")
    for topic in (timeline["topic"], "buffer.a.b.ledger", *system):
        assert admin.post("/timers", json=timer(topic)).status_code == 422
    adopted = kafka.new_topic()
    assert admin.post("/event-types", json=event_type(f"{name}.adopted", adopt_topic=adopted)).status_code == 201
    until(lambda: admin.post("/timers", json=timer(adopted)).status_code == 422)


def test_open_streams_of_a_revoked_key_end(places, admin, kafka, name) -> None:
    assert admin.post("/event-types", json=event_type(name)).status_code == 201
    assert admin.put(f"/topics/{name}", json={}).status_code == 201
    assert admin.put(f"/topics/{name}-2", json={}).status_code == 201
    id, key = new_key(places, f"read:{name}", "consume:*")
    headers = {"Authorization": f"Bearer {key}"}
    with httpx.Client(base_url=places.nodes[0].url, headers=headers, timeout=120) as client:
        asked = {"owning_application": name, "event_types": [name]}
        subscription = client.post("/subscriptions", json=asked).json()["id"]
        frequent = "batch_flush_timeout=1&stream_keep_alive_limit=0"
        readers = [
            Reader(client, f"/topics/{name}/leases?consumer_id=one"),
            Reader(client, f"/event-types/{name}/events?{frequent}"),
            Reader(client, f"/subscriptions/{subscription}/events?{frequent}"),
        ]
        pull = Pull(client, f"/topics/{name}-2/leases")
        for reader in readers:
            assert reader.opened.wait(60)
        until(lambda: "one" in admin.get(f"/topics/{name}/consumers").text)
        revoke(places, id)
        for reader in readers:
            reader.join(60)
            assert not reader.is_alive()
            assert reader.status == 200
        messages = {"messages": [{"id": "m", "after_ms": 0}]}
        created = admin.post(f"/topics/{name}-2/messages", json=messages, headers={"X-Producer-Group": "owners"})
        assert created.status_code == 201
        pull.join(100)
        assert pull.leases == []
        assert client.get("/subscriptions").status_code == 401


def test_metrics_have_a_scope_of_their_own(client_with, admin) -> None:
    assert required_scope(client_with("timers", "read:*").get("/metrics")) == "metrics"
    assert client_with("metrics").get("/metrics").status_code == 200
    assert admin.get("/metrics").status_code == 200
    assert required_scope(client_with("metrics").get("/storages")) == "admin"


SCOPES = ("read:*", "publish:*", "timers")


def test_the_authorization_of_an_event_type_is_enforced_wherever_it_is_used(client_with, admin, kafka, name) -> None:
    authorization = {"admins": listed("owner"), "readers": listed("reader", "fan"), "writers": listed("writer")}
    for wrong in (
        {},
        {"readers": listed("x")},
        authorization | {"readers": []},
        authorization | {"readers": [{"value": "x"}]},
    ):
        assert admin.post("/event-types", json=event_type(name, authorization=wrong)).status_code == 422
    declared = event_type(name, authorization=authorization)
    assert admin.post("/event-types", json=declared).json()["authorization"] == authorization
    here, cursor = f"/event-types/{name}", {"partition": "0", "offset": "BEGIN"}
    into = timer(f"event-type:{name}", callback={"n": 1})
    subscribe = {"owning_application": name, "event_types": [name], "read_from": "begin"}
    routes = {
        "reader": [
            ("GET", f"{here}/events?batch_flush_timeout=1&stream_keep_alive_limit=1", None),
            ("GET", f"{here}/partitions", None),
            ("GET", f"{here}/partitions/0", None),
            ("POST", f"{here}/cursors-lag", [cursor]),
            ("POST", f"{here}/cursor-distances", [{"initial_cursor": cursor, "final_cursor": cursor}]),
            ("POST", f"{here}/shifted-cursors", [cursor | {"shift": 0}]),
            ("GET", f"{here}/timelines", None),
            ("GET", f"{here}/switches", None),
            ("POST", "/subscriptions", subscribe),
        ],
        "writer": [
            ("POST", f"{here}/events", [{"n": 1}]),
            ("POST", "/timers", into),
            ("POST", "/timers", {"timers": [into]}),
        ],
        "owner": [("PUT", here, {"labels": {"a": "b"}}), ("PUT", here, declared)],
    }
    clients = {one: client_with(*SCOPES, key_name=one) for one in ("writer", "reader", "owner", "stranger")}
    for allowed, requests in routes.items():
        for method, path, body in requests:
            found = {one: client.request(method, path, json=body).status_code for one, client in clients.items()}
            assert {one: status for one, status in found.items() if status != 403}.keys() == {allowed}, (path, found)
            assert 200 <= found[allowed] < 300, (path, found)
    seen = {one: client.get(here).status_code for one, client in clients.items()}
    assert seen == {"writer": 200, "reader": 200, "owner": 200, "stranger": 403}
    assert name not in clients["stranger"].get("/event-types").text
    assert name in clients["writer"].get("/event-types").text
    assert client_with("timers", key_name="reader").get(f"{here}/events").status_code == 403

    subscription = clients["reader"].post("/subscriptions", json=subscribe).json()["id"]
    below = f"/subscriptions/{subscription}"
    readers = [
        Reader(clients["reader"], f"{here}/events?batch_flush_timeout=1"),
        Reader(clients["reader"], f"{below}/events"),
    ]
    for reader in readers:
        assert reader.opened.wait(60)
    changed = authorization | {"readers": listed("fan")}
    assert clients["owner"].put(here, json={"authorization": changed}).status_code == 200
    for reader in readers:
        reader.join(60)
        assert not reader.is_alive()
    for path in ("", "/events", "/cursors", "/stats"):
        assert clients["reader"].get(below + path).status_code == 403
    assert clients["reader"].delete(below).status_code == 403
    assert client_with(*SCOPES, key_name="fan").delete(below).status_code == 204
    assert clients["stranger"].delete(here).status_code == 403
    assert clients["owner"].delete(here).status_code == 200


def test_only_the_key_that_opened_a_stream_commits_what_it_sends(client_with, admin, name) -> None:
    assert admin.post("/event-types", json=event_type(name)).status_code == 201
    assert admin.post(f"/event-types/{name}/events", json=[{"n": 1}, {"n": 2}]).status_code == 200
    owner, other = client_with(f"read:{name}"), client_with(f"read:{name}")
    asked = {"owning_application": name, "event_types": [name], "read_from": "begin"}
    below = f"/subscriptions/{owner.post('/subscriptions', json=asked).json()['id']}"
    with owner.stream("GET", f"{below}/events") as stream:
        batch = json.loads(next(stream.iter_lines()))
        commit = {
            "json": {"items": [batch["cursor"]]},
            "headers": {"X-Nakadi-StreamId": stream.headers["X-Nakadi-StreamId"]},
        }
        for stranger in (other, admin):
            refused = stranger.post(f"{below}/cursors", **commit)
            assert (refused.status_code, refused.json()["code"]) == (403, "forbidden")
        unknown = {"X-Nakadi-StreamId": str(uuid4())}
        assert other.post(f"{below}/cursors", json=commit["json"], headers=unknown).status_code == 422
        assert owner.get(f"{below}/stats").json()["items"][0]["partitions"][0]["unconsumed_events"] == 2
        assert owner.post(f"{below}/cursors", **commit).status_code == 204


def test_the_authorization_of_a_subscription_is_enforced(client_with, admin, name) -> None:
    assert admin.post("/event-types", json=event_type(name)).status_code == 201
    assert admin.post(f"/event-types/{name}/events", json=[{"n": 1}]).status_code == 200
    owner, reader, stranger = (client_with(*SCOPES, key_name=one) for one in ("owner", "reader", "stranger"))
    authorization = {"admins": listed("owner"), "readers": listed("reader")}
    asked = {"owning_application": name, "event_types": [name], "read_from": "begin", "authorization": authorization}
    assert owner.post("/subscriptions", json=asked | {"authorization": {"readers": []}}).status_code == 422
    below = f"/subscriptions/{owner.post('/subscriptions', json=asked).json()['id']}"
    assert stranger.post("/subscriptions", json=asked).status_code == 403
    assert reader.post("/subscriptions", json=asked).status_code == 200
    with reader.stream("GET", f"{below}/events?batch_flush_timeout=1") as stream:
        cursor = json.loads(next(stream.iter_lines()))["cursor"]
        commit = {"headers": {"X-Nakadi-StreamId": stream.headers["X-Nakadi-StreamId"]}, "json": {"items": [cursor]}}
        assert stranger.post(f"{below}/cursors", **commit).status_code == 403
        assert owner.post(f"{below}/cursors", **commit).status_code == 403
        assert reader.post(f"{below}/cursors", **commit).status_code == 204
    for path in ("", "/events", "/cursors", "/stats"):
        assert stranger.get(below + path).status_code == 403
    assert owner.get(f"{below}/events").status_code == 403
    assert stranger.get("/subscriptions", params={"owning_application": name}).json()["items"] == []
    assert len(reader.get("/subscriptions", params={"owning_application": name}).json()["items"]) == 1
    reset, change = (
        {"items": [cursor | {"offset": "BEGIN"}]},
        asked | {"authorization": authorization | {"readers": EVERY_KEY}},
    )
    for client in (reader, stranger):
        assert client.patch(f"{below}/cursors", json=reset).status_code == 403
        assert client.put(below, json=change).status_code == 403
        assert client.delete(below).status_code == 403
    assert owner.patch(f"{below}/cursors", json=reset).status_code == 204
    opened = Reader(reader, f"{below}/events")
    assert opened.opened.wait(60)
    assert owner.put(below, json=change).status_code == 204
    opened.join(60)
    assert not opened.is_alive()
    assert stranger.get(f"{below}/cursors").status_code == 200
    assert owner.delete(below).status_code == 204


def test_a_consumer_id_belongs_to_the_key_that_it_came_with(client_with, admin, name) -> None:
    assert admin.put(f"/topics/{name}", json={}).status_code == 201
    here, group = f"/topics/{name}", {"X-Producer-Group": "owners"}
    messages = {"messages": [{"id": one, "after_ms": 0} for one in "abc"]}
    assert admin.post(f"{here}/messages", json=messages, headers=group).status_code == 201
    own, other = client_with("consume:*"), client_with("consume:*")
    with own.stream("GET", f"{here}/leases?consumer_id=c&buffer=2&lease_ms=600000") as stream:
        lines = (json.loads(line) for line in stream.iter_lines() if line)
        leases = [next(lines), next(lines)]
        assert other.get(f"{here}/leases?consumer_id=c").status_code == 409
        held = {"leases": [{"id": one["id"], "version": one["version"]} for one in leases], "consumer_id": "c"}
        later = held | {"leases": [one | {"after_ms": 600_000} for one in held["leases"]]}
        for action, asked in (("extend", later), ("release", later), ("delete", held)):
            assert [one["status"] for one in results(other, f"{here}/leases/{action}", asked)] == ["not_holder"] * 2
        message = f"{here}/messages/{leases[0]['id']}"
        assert other.get(message, params={"consumer_id": "c"}).status_code == 403
        assert own.get(message, params={"consumer_id": "c"}).json()["lock_consumer_id"] == "c"
        (listed_consumer,) = admin.get(f"{here}/consumers").json()["consumers"]
        assert (listed_consumer["consumer_id"], listed_consumer["outstanding"]) == ("c", 2)
    until(lambda: admin.get(f"{here}/consumers").json()["consumers"] == [])
    with other.stream("GET", f"{here}/leases?consumer_id=c") as stream:
        assert stream.status_code == 200
        got = next(json.loads(line) for line in stream.iter_lines() if line)
        assert got["id"] not in [one["id"] for one in leases]
    assert [one["status"] for one in results(own, f"{here}/leases/delete", held)] == ["ok"] * 2


def test_many_wrong_keys_have_to_wait_and_right_ones_do_not(places, admin) -> None:
    """The last one: from here on no new key gets in."""
    assert admin.get("/nodes").status_code == 200
    with httpx.Client(base_url=places.nodes[0].url) as client:
        for number in range(500):
            answer = client.get("/nodes", headers={"Authorization": f"Bearer mt_wrong_{number}"})
            if answer.status_code == 429:
                break
            assert answer.status_code == 401
    assert answer.status_code == 429
    assert answer.json()["code"] == "too_many_requests"
    assert int(answer.headers["Retry-After"]) >= 1
    assert admin.get("/nodes").status_code == 200


EVERY_KEY = [{"data_type": "*", "value": "*"}]


def listed(*names: str) -> list[dict[str, str]]:
    return [{"data_type": "service", "value": one} for one in names]


def results(client: httpx.Client, path: str, asked: object) -> list[dict[str, object]]:
    answer = client.post(path, json=asked)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, object]] = answer.json()["results"]
    return found


def event_type(name: str, **more: object) -> dict[str, object]:
    return {"name": name, "owning_application": "test", "category": "undefined", **more}


def timer(topic: str, callback: object = "hi") -> dict[str, object]:
    """Far ahead: nobody is to fire it."""
    return {"after": 30_000_000, "callback_topic": topic, "callback": callback}


def required_scope(answer: httpx.Response) -> str:
    assert answer.status_code == 403, answer.text
    return str(answer.json()["required_scope"])


def revoke(places, id: str) -> None:
    async def run() -> None:
        async with open_database(places.postgres, size=2) as database:
            await Keys(database).revoke(id, NOW_MS)

    asyncio.run(run())


class Reader(Thread):
    """Reads a stream until it ends."""

    def __init__(self, client: httpx.Client, path: str) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._path = path
        self.opened = Event()
        self.status = 0
        self.start()

    def run(self) -> None:
        with self._client.stream("GET", self._path) as answer:
            self.status = answer.status_code
            self.opened.set()
            for _ in answer.iter_raw():
                pass


class Pull(Thread):
    """Waits for a lease as long as one may."""

    def __init__(self, client: httpx.Client, path: str) -> None:
        super().__init__(daemon=True)
        self._client = client
        self._path = path
        self.leases: list[object] | None = None
        self.start()

    def run(self) -> None:
        self.leases = self._client.post(self._path, json={"consumer_id": "two", "wait_ms": 60_000}).json()["leases"]
