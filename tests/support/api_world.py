"""A node with authentication on, and all that requests to it need to succeed."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any
from uuid import uuid4

import httpx
import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient

from conftest import command
from meantime.stack.model import Places
from meantime.workers.model import QueueSource

NOTHING: Any = object()
GROUP = {"X-Producer-Group": "owners"}
CURSOR = {"partition": "0", "offset": "BEGIN"}


@dataclass(frozen=True)
class ApiRequest:
    """What goes into a row: the names in its path, query, headers, body."""

    names: dict[str, str] = field(default_factory=dict)
    query: dict[str, Any] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    body: Any = NOTHING
    about: str = ""
    """Only what is in this place counts; the rest is not looked at by a request like this."""


class ApiWorld:
    """Makes what requests need, as an admin. What is new is asked for by a method, what may be used again is a property."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.opened = ExitStack()
        self._keys: dict[frozenset[str], str] = {}
        self._lines: list[Iterator[str]] = []
        self.http = httpx.Client(base_url=places.nodes[0].url, timeout=60, trust_env=False, headers=self.key("admin"))
        self.opened.enter_context(self.http)

    def key(self, *scopes: str) -> dict[str, str]:
        """The header of a key with exactly these scopes."""
        wanted = frozenset(scopes)
        if wanted not in self._keys:
            options = [part for scope in sorted(wanted) for part in ("-s", scope)]
            _, printed = command(self.places, "keys", "add", f"key-{len(self._keys)}", *options, "--json")
            self._keys[wanted] = json.loads(printed)["key"]
        return {"Authorization": f"Bearer {self._keys[wanted]}"}

    def key_id(self) -> str:
        """That of a new key which nobody uses."""
        return str(self.make("POST", "/keys", {"name": new_name("key"), "scopes": ["metrics"]})["id"])

    def make(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.http.request(method, path, json=body, headers=headers)
        assert answer.is_success, f"{method} {path}: {answer.status_code} {answer.text}"
        return answer.json() if answer.content else None

    def event_type(self, partitions: int = 2, events: int = 3) -> str:
        statistic = {"read_parallelism": partitions, "write_parallelism": partitions}
        name = new_name("events")
        self.make("POST", "/event-types", {"name": name, "default_statistic": statistic})
        self.make("POST", f"/event-types/{name}/events", [{"n": n} for n in range(events)])
        return name

    @cached_property
    def read(self) -> str:
        """An event type with two partitions and some events."""
        return self.event_type()

    @cached_property
    def switched(self) -> str:
        """One that goes from storage to storage."""
        return self.event_type(partitions=1)

    @cached_property
    def switch_id(self) -> str:
        self.make("POST", f"/event-types/{self.switched}/timelines", {"storage_id": "default"})
        return str(self.make("GET", f"/event-types/{self.switched}/switches")[0]["id"])

    @cached_property
    def callback_topic(self) -> str:
        """One that timers may write into."""
        return self.kafka_topic("callbacks")

    @cached_property
    def adopted_topic(self) -> str:
        """One that an event type may take over; then it is no callback topic any more."""
        return self.kafka_topic("adopted")

    def kafka_topic(self, purpose: str) -> str:
        name = new_name(purpose)
        admin = AdminClient({"bootstrap.servers": self.places.kafka[0]})
        admin.create_topics([NewTopic(name, num_partitions=1, replication_factor=1)])[name].result(30)
        return name

    def subscription(self) -> str:
        form = {"owning_application": new_name("app"), "event_types": [self.read], "read_from": "begin"}
        return str(self.make("POST", "/subscriptions", form)["id"])

    @cached_property
    def subscribed(self) -> str:
        return self.subscription()

    @cached_property
    def committing(self) -> tuple[str, str, dict[str, Any]]:
        """A subscription, its open stream, and a cursor that may be committed there."""
        return self.committing_with(self.event_type(partitions=1, events=1))

    def committing_with(self, event_type: str, **key: str) -> tuple[str, str, dict[str, Any]]:
        """The same by a stream that this key has opened. The event type has one event: nothing waits for more."""
        form = {"owning_application": new_name("app"), "event_types": [event_type], "read_from": "begin"}
        id = str(self.make("POST", "/subscriptions", form)["id"])
        stream = self.opened.enter_context(self.http.stream("GET", f"/subscriptions/{id}/events", headers=key))
        lines = stream.iter_lines()
        self._lines.append(lines)  # one that nobody holds any more would close the stream
        return id, stream.headers["X-Nakadi-StreamId"], json.loads(next(lines))["cursor"]

    def storage(self) -> str:
        return str(self.make("POST", "/storages", self.storage_form())["id"])

    def storage_form(self) -> dict[str, Any]:
        kafka = {"bootstrap_servers": self.places.kafka[0], "settings": {}}
        return {"id": new_name("storage"), "storage_type": "kafka", "kafka_configuration": kafka}

    def new_topic(self) -> str:
        name = new_name("topic")
        self.make("PUT", f"/topics/{name}")
        return name

    @cached_property
    def topic(self) -> str:
        return self.new_topic()

    def message(self, after_ms: int = 3_600_000) -> dict[str, str]:
        drafts = {"messages": [{"after_ms": after_ms}]}
        made = self.make("POST", f"/topics/{self.topic}/messages", drafts, **GROUP)["results"][0]
        return {"topic": self.topic, "message_id": made["id"]}

    def lease(self, **headers: str) -> dict[str, Any]:
        """A message of a topic of its own that the consumer `holder` has, with another key if one is given."""
        topic = self.new_topic()
        self.make("POST", f"/topics/{topic}/messages", {"messages": [{"id": "m", "after_ms": 0}]}, **GROUP)
        (lease,) = self.make("POST", f"/topics/{topic}/leases", {"consumer_id": "holder"}, **headers)["leases"]
        return {"topic": topic, "id": lease["id"], "version": lease["version"]}

    def schedule(self) -> str:
        """One that fires once a year into the topic of the group `owners`."""
        name = new_name("schedule")
        target = {"topic": self.topic, "group": "owners"}
        self.make("PUT", f"/schedules/{name}", {"cron": "0 0 1 1 *", "target": target})
        return name

    @cached_property
    def scheduled(self) -> str:
        return self.schedule()

    @cached_property
    def keeper(self) -> KazooClient:
        client = KazooClient(self.places.zookeeper.partition("/")[0])
        client.start()
        self.opened.callback(client.close)
        self.opened.callback(client.stop)
        return client

    def app(self) -> dict[str, str]:
        """An application without workers that has one queue."""
        app, queue = new_name("app"), QueueSource(self.read, "0").queue
        record = {"last": "", "event_type": self.read, "partition": "0"}
        root = self.places.zookeeper.partition("/")[2]
        self.keeper.create(f"/{root}/apps/{app}/queues/{queue}", json.dumps(record).encode(), makepath=True)
        self.keeper.ensure_path(f"/{root}/apps/{app}/workers")
        return {"app": app, "queue": queue}

    @cached_property
    def running_app(self) -> dict[str, str]:
        return self.app()


def new_name(what: str) -> str:
    return f"{what}-{uuid4().hex[:12]}"


@contextmanager
def open_world(places: Places) -> Iterator[ApiWorld]:
    world = ApiWorld(places)
    with world.opened:
        yield world


@pytest.fixture(scope="module")
def world(node_of: Any) -> Iterator[ApiWorld]:
    """A file that uses it names it as its own: `world = api_world.world`."""
    with node_of(MEANTIME_AUTH="true") as places, open_world(places) as world:
        yield world
