"""Workers where not everybody may do everything: keys with scopes, a guarded ZooKeeper; and one that reloads its code."""

import json

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_digest_acl
from workshop import Workshop

from conftest import command
from meantime import Client
from meantime.errors import Forbidden

pytestmark = pytest.mark.takes(seconds=30)

DIGEST = "crew:secret"
NAMESPACE = "/mozilla/services/qdo"

RETRYING = """
    app = App("$app")

    @app.job("orders-$id", retry=Retry(attempts=2, delay=0.1))
    def handle(message, context):
        note(message)
        if message.attempt == 1:
            raise ValueError("not yet")
"""

PLAIN = """
    app = App("$app")

    @app.job("orders-$id")
    def handle(message, context):
        note(message, edition="$edition")
"""


@pytest.fixture(scope="module")
def places(node_of):
    with node_of(MEANTIME_AUTH="true") as places:
        yield places


def make_key(places, name, *scopes):
    asked = [part for scope in scopes for part in ("-s", scope)]
    return json.loads(command(places, "keys", "add", name, "--json", *asked)[1])["key"]


@pytest.fixture
def shop(places, folder):
    urls = [places.nodes[0].url]
    workshop = Workshop(folder, urls, places.zookeeper, key=make_key(places, "admin", "admin"))
    workshop.create("orders")
    yield workshop
    workshop.close()


def test_a_worker_needs_no_more_than_its_scopes_and_is_told_which_one_is_missing(places, shop):
    shop.write(RETRYING)
    shop.publish("orders", 3)
    orders = shop.name("orders")
    lesser = shop.start(MEANTIME_KEY=make_key(places, "lesser", f"produce:{shop.app}", f"consume:{shop.app}.retry"))
    shop.wait_until(lambda: "read" in lesser.log.read_text() and orders in lesser.log.read_text())
    assert shop.records() == []
    lesser.kill()
    key = make_key(places, "crew", f"read:{orders}", f"produce:{shop.app}", f"consume:{shop.app}.retry")
    worker = shop.start(MEANTIME_KEY=key)
    records = shop.wait_for(6)
    assert sorted(record["attempt"] for record in records) == [1, 1, 1, 2, 2, 2]
    assert worker.stop() == 0
    with Client(shop.urls, key=key) as client:
        with pytest.raises(Forbidden):
            client.publish(orders, [{"n": 9}])
        with pytest.raises(Forbidden):
            client.create_topic("somebody-else.retry")


PERIODIC = """
    app = App("$app")

    @app.periodic(every="1s")
    def chime(message, context):
        os.write(_file, json.dumps({"instant_ms": message.instant_ms}).encode() + b"\\n")
"""


def test_a_periodic_job_needs_the_right_to_its_schedules_and_to_its_topic(places, shop):
    shop.write(PERIODIC)
    scopes = [f"produce:{shop.app}", f"consume:{shop.app}.periodic", f"consume:{shop.app}.retry"]
    lesser = shop.start(MEANTIME_KEY=make_key(places, "lesser-chimes", *scopes))
    assert lesser.process.wait(60) == 7
    assert f"schedules:{shop.app}.chime" in lesser.log.read_text()
    worker = shop.start(MEANTIME_KEY=make_key(places, "chimes", *scopes, f"schedules:{shop.app}.*"))
    shop.wait_for(2)
    assert worker.stop() == 0
    shop.client.schedules.delete(f"{shop.app}.chime")


def test_a_namespace_of_its_own_is_closed_to_those_without_the_password(places, shop):
    hosts = places.zookeeper.partition("/")[0]
    shop.write(PLAIN)
    worker = shop.start("--namespace", NAMESPACE, MEANTIME_KEY=shop.key, MEANTIME_ZOOKEEPER_AUTH=DIGEST)
    shop.publish("orders", 2)
    shop.wait_for(2)
    assert worker.stop() == 0
    stranger = KazooClient(hosts)
    member = KazooClient(hosts, auth_data=[("digest", DIGEST)])
    stranger.start()
    member.start()
    try:
        (queue,) = member.get_children(f"{NAMESPACE}/{shop.app}/queues")
        path = f"{NAMESPACE}/{shop.app}/queues/{queue}"
        assert json.loads(member.get(path)[0])["last"]
        assert member.get_acls(path)[0] == [make_digest_acl(*DIGEST.split(":"), all=True)]
        with pytest.raises(NoAuthError):
            stranger.set(path, b'{"last": ""}')
    finally:
        stranger.stop()
        member.stop()


def test_a_reloading_worker_takes_up_new_code_and_survives_broken_code(shop):
    shop.write(PLAIN.replace("$edition", "first"))
    worker = shop.start("--reload", MEANTIME_KEY=shop.key)
    shop.publish("orders", 1)
    shop.wait_for(1)
    shop.write("this is no Python")
    shop.wait_until(lambda: "cannot be imported" in worker.log.read_text())
    shop.publish("orders", 1, start=1)
    shop.write(PLAIN.replace("$edition", "second"))
    records = shop.wait_for(2)
    assert [(record["event"]["n"], record["edition"]) for record in records] == [(0, "first"), (1, "second")]
    assert worker.stop() == 0
