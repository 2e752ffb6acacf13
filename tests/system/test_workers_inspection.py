"""Looking at applications and steering them over HTTP and from the command line."""

import json
import os
import subprocess
import sys
import uuid

import httpx
import pytest
from kazoo.client import KazooClient

from conftest import RunningStack
from meantime import Client
from meantime.workers.model import QueueSource
from meantime.workers.rules import instant_of

HTTP = httpx.Client(verify=False)
"""One for all, and for plain HTTP: `httpx.get` makes ready for TLS each time."""


@pytest.fixture
def url(cluster: RunningStack):
    return cluster.urls[0]


class LineCursor:
    """An application that nobody works for, made in ZooKeeper by hand, with three messages in its one event type."""

    def __init__(self, cluster: RunningStack):
        self.app = f"app-{uuid.uuid4().hex[:8]}"
        self.event_type = f"orders-{uuid.uuid4().hex[:8]}"
        hosts, _, root = cluster.places.zookeeper.partition("/")
        self.path = f"/{root}/apps/{self.app}"
        self.queue = QueueSource(self.event_type, "0").queue
        self.keeper = KazooClient(hosts)
        self.keeper.start()
        with Client(cluster.urls) as client:
            client.create_event_type(self.event_type)
            client.publish(self.event_type, [{"n": n} for n in range(3)])
        record = {"last": "", "event_type": self.event_type, "partition": "0"}
        self.keeper.create(f"{self.path}/queues/{self.queue}", json.dumps(record).encode(), makepath=True)

    def record(self):
        return json.loads(self.keeper.get(f"{self.path}/queues/{self.queue}")[0])


@pytest.fixture
def place(cluster: RunningStack):
    place = LineCursor(cluster)
    yield place
    place.keeper.stop()
    place.keeper.close()


def test_a_queue_is_shown_with_all_there_is_to_know(url, place):
    assert {"name": place.app, "workers": 0, "queues": 1, "paused": False} in HTTP.get(f"{url}/apps").json()["apps"]
    assert HTTP.get(f"{url}/apps/{place.app}/workers").json() == {"workers": []}
    (queue,) = HTTP.get(f"{url}/apps/{place.app}/queues").json()["queues"]
    assert queue == {
        "queue": place.queue,
        "event_type": place.event_type,
        "partition": "0",
        "owner": None,
        "last": "",
        "cursor": "",
        "lag": 3,
        "paused": False,
        "problem": None,
    }


def test_the_owner_is_whoever_lists_the_queue(url, place):
    made = place.keeper.create(
        f"{place.path}/workers/worker-",
        json.dumps({"queues": [place.queue]}).encode(),
        ephemeral=True,
        sequence=True,
        makepath=True,
    )
    name = made.rpartition("/")[2]
    (queue,) = HTTP.get(f"{url}/apps/{place.app}/queues").json()["queues"]
    assert queue["owner"] == name
    assert HTTP.get(f"{url}/apps/{place.app}/workers").json() == {"workers": [{"worker": name, "queues": [place.queue]}]}
    assert HTTP.delete(f"{url}/apps/{place.app}").status_code == 409


def test_a_reset_moves_the_position_and_its_time(url, place):
    target = f"{url}/apps/{place.app}/queues/{place.queue}/last"
    answer = HTTP.put(target, json={"cursor": "001-0001-000000000000000001"})
    assert answer.status_code == 200
    assert answer.json()["lag"] == 1
    record = place.record()
    assert record["cursor"] == "001-0001-000000000000000001"
    assert record["last"].endswith("L")
    assert instant_of(record["last"]) > 1_700_000_000_000
    assert HTTP.put(target, json={"cursor": "BEGIN"}).json()["lag"] == 3
    assert place.record()["last"] == ""


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"{", 400),
        (b"{}", 422),
        (b'{"cursor": null}', 422),
        (b'{"cursor": 5}', 422),
        (b'{"cursor": "nonsense"}', 422),
        (b'{"cursor": "001-0001-000000000000000099"}', 422),
        (b'{"cursor": "001-00ff-000000000000000001"}', 422),
    ],
)
def test_a_reset_that_makes_no_sense_changes_nothing(url, place, content, status):
    answer = HTTP.put(f"{url}/apps/{place.app}/queues/{place.queue}/last", content=content)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert place.record()["last"] == ""
    assert "cursor" not in place.record()


@pytest.mark.parametrize("path", ["", "/workers", "/queues", "/queues/0123"])
def test_an_unknown_application_is_not_found(url, path):
    for name in ("nobody-knows-it", "..", "a b"):
        answer = HTTP.get(f"{url}/apps/{name.replace(' ', '%20')}{path}")
        assert answer.status_code == 404


def test_an_unknown_queue_is_not_found(url, place):
    queue = f"{url}/apps/{place.app}/queues/{'0' * 32}"
    assert HTTP.get(queue).status_code == 404
    assert HTTP.post(f"{queue}/pause").status_code == 404
    assert HTTP.put(f"{queue}/last", json={"cursor": "BEGIN"}).status_code == 404


def test_pause_and_resume_are_kept_in_the_record(url, place):
    queue = f"{url}/apps/{place.app}/queues/{place.queue}"
    assert HTTP.post(f"{queue}/pause").json()["paused"] is True
    assert place.record()["paused"] is True
    assert HTTP.post(f"{queue}/resume").json()["paused"] is False
    assert HTTP.post(f"{url}/apps/{place.app}/pause").json()["paused"] is True
    assert HTTP.get(queue).json()["paused"] is True
    assert HTTP.post(f"{url}/apps/{place.app}/resume").json()["paused"] is False


def test_a_corrupt_record_is_shown_and_mended_by_a_reset(url, place):
    path = f"{place.path}/queues/{place.queue}"
    place.keeper.set(path, b"{broken")
    (queue,) = HTTP.get(f"{url}/apps/{place.app}/queues").json()["queues"]
    assert path in queue["problem"]
    assert HTTP.post(f"{url}/apps/{place.app}/queues/{place.queue}/pause").status_code == 409
    assert place.keeper.get(path)[0] == b"{broken"
    answer = HTTP.put(f"{url}/apps/{place.app}/queues/{place.queue}/last", json={"cursor": "BEGIN"})
    assert answer.status_code == 200
    assert place.record()["event_type"] == place.event_type


def test_an_application_can_be_forgotten(url, place):
    assert HTTP.delete(f"{url}/apps/{place.app}").status_code == 204
    assert HTTP.get(f"{url}/apps/{place.app}").status_code == 404
    assert place.keeper.exists(place.path) is None


def test_the_command_line_shows_and_steers(cluster: RunningStack, place):
    def meantime(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "meantime", "apps", *arguments],
            env=os.environ | {"MEANTIME_DATA": str(cluster.folder.path)},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout) if "--json" in arguments else done.stdout

    assert place.app in meantime()
    assert place.queue in meantime("show", place.app)
    assert meantime("pause", place.app, f"{place.event_type}/0", "--json")["paused"] is True
    assert meantime("resume", place.app, place.queue, "--json")["paused"] is False
    cursor = "001-0001-000000000000000000"
    assert meantime("reset", place.app, f"{place.event_type}/0", cursor, "--yes", "--json")["cursor"] == cursor
    assert meantime("show", place.app, "--json")["queues"][0]["lag"] == 2


def test_who_has_a_queue_is_told_as_it_changes(url, place):
    """A queue goes from nobody to a worker, to another one, and back to nobody with the session of that one."""
    with HTTP.stream("GET", f"{url}/apps/{place.app}/changes", timeout=60) as answer:
        assert answer.headers["content-type"] == "application/x-ndjson"
        changes = (json.loads(line) for line in answer.iter_lines() if line)
        first = next(changes)
        assert (first["queue"], first["event_type"], first["partition"]) == (place.queue, place.event_type, "0")
        assert (first["owner"], first["former"]) == (None, None)
        one = place.keeper.create(
            f"{place.path}/workers/worker-", json.dumps({"queues": [place.queue]}).encode(), sequence=True, makepath=True
        )
        assert next(changes)["owner"] == one.rpartition("/")[2]
        place.keeper.set(one, b'{"queues": []}')
        assert next(changes)["owner"] is None
        other = place.keeper.create(f"{place.path}/workers/worker-", b'{"queues": []}', sequence=True)
        place.keeper.set(other, json.dumps({"queues": [place.queue]}).encode())
        taken = next(changes)
        assert (taken["owner"], taken["former"]) == (other.rpartition("/")[2], None)
        place.keeper.delete(other)
        gone = next(changes)
        assert (gone["owner"], gone["former"]) == (None, other.rpartition("/")[2])
    assert HTTP.get(f"{url}/apps/nobody-{place.app}/changes").status_code == 404
