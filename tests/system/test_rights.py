"""Ways around the rights that a key has, tried on a node that asks for keys."""

import asyncio
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


def new_key(places, *scopes: str) -> tuple[str, str]:
    async def add() -> tuple[str, str]:
        async with open_database(places.postgres, size=2) as database:
            return await Keys(database).add("test", list(scopes), NOW_MS)

    return asyncio.run(add())


@pytest.fixture
def client_with(places):
    """`client_with("timers")` speaks to the node with a new key of these scopes."""
    opened: list[httpx.Client] = []

    def client(*scopes: str, **headers: str) -> httpx.Client:
        authorization = {"Authorization": f"Bearer {new_key(places, *scopes)[1]}"}
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
    raw, into = timer(f"calls-{name}"), timer(f"event-type:{name}", callback={"n": 1})
    nobody = client_with("timers")
    assert required_scope(nobody.post("/timers", json=raw)) == f"callback:calls-{name}"
    assert required_scope(nobody.post("/timers", json=into)) == f"publish:{name}"
    caller = client_with("timers", "callback:calls-*")
    assert caller.post("/timers", json=raw).status_code == 202
    assert required_scope(caller.post("/timers", json={"timers": [raw, into]})) == f"publish:{name}"
    publisher = client_with("timers", f"publish:{name}")
    assert publisher.post("/timers", json=into).status_code == 202
    assert required_scope(publisher.post("/timers", json=raw)) == f"callback:calls-{name}"
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


def test_many_wrong_keys_have_to_wait_and_right_ones_do_not(places, admin) -> None:
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


def event_type(name: str, **more: str) -> dict[str, str]:
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
