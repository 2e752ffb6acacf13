"""A Kafka that lets nobody in without TLS and a password: every process reaches it by the settings of its storage."""

import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from meantime.kafka.settings import Storage, client_config
from meantime.pipelines.buffer.kafka_target import has_topic
from meantime.pipelines.event_types.layout import default_storage, storages
from meantime.sdk.client import Client
from meantime.stack import ports
from meantime.stack.folder import Folder
from meantime.stack.java.jars import ensure_jars
from meantime.stack.java.runtime import find_java
from meantime.stack.model import HOST, Places
from meantime.stack.services.kafka import Listeners, kafka
from meantime.stack.services.nodes import environment
from meantime.stack.services.postgres import last_report
from meantime.timers.topics import DUE, REQUEST

pytestmark = [pytest.mark.takes(seconds=250), pytest.mark.timeout(1000)]

OPENSSL = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=kafka -addext subjectAltName=IP:127.0.0.1"
USER, PASSWORD = "meantime", 'hush "7" \\ x'
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def server_settings(port: int, controller: int, folder: Path) -> dict[str, str]:
    """What is said last in a file of properties counts."""
    login = f"{MODULE} required username={quoted(USER)} password={quoted(PASSWORD)} user_{USER}={quoted(PASSWORD)};"
    return {
        "listeners": f"SASL_SSL://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "advertised.listeners": f"SASL_SSL://{HOST}:{port}",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SASL_SSL",
        "sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        # A file of properties takes one backslash of two.
        "listener.name.sasl_ssl.plain.sasl.jaas.config": login.replace("\\", "\\\\"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
    }


@dataclass(frozen=True, slots=True)
class Secured:
    storage: Storage

    @property
    def variables(self) -> dict[str, str]:
        """How a process is configured with it as the default storage."""
        given = json.dumps(self.storage.settings)
        return {"MEANTIME_KAFKA": self.storage.bootstrap_servers, "MEANTIME_KAFKA_SETTINGS": given}

    def new_topic(self) -> str:
        name = f"calls-{uuid4().hex[:8]}"
        admin = AdminClient(client_config(self.storage))
        admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)
        return name

    def first_with(self, topic: str, partitions: int, content: bytes, within: float = 120.0) -> Message:
        """The first committed record of a topic that has the content in its value or headers."""
        settings = {"group.id": uuid4().hex, "isolation.level": "read_committed", "enable.auto.commit": False}
        consumer = Consumer(client_config(self.storage) | settings)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
        deadline = time.monotonic() + within
        try:
            while time.monotonic() < deadline:
                for message in consumer.consume(500, 0.5):
                    parts = (message.value() or b"", *(value or b"" for _, value in message.headers() or ()))
                    if message.error() is None and any(content in part for part in parts):
                        return message
        finally:
            consumer.close()
        raise AssertionError(f"{content!r} did not come to {topic}")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    key, certificate = folder / "key.pem", folder / "ca.pem"
    subprocess.run(
        [*shlex.split(OPENSSL), "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True, timeout=60
    )
    (folder / "server.pem").write_text(key.read_text() + certificate.read_text())
    java, port = find_java(), ports.choose(set())
    ensure_jars("kafka", java, lambda _: None)
    controller = ports.choose({port})
    home = Folder(folder / "data")
    home.logs.mkdir(parents=True)
    spec = kafka(home, java, "kafka", Listeners(port, controller))
    assert spec.prepare is not None
    spec.prepare()
    with (home.path / "kafka" / "server.properties").open("a") as properties:
        for name, value in server_settings(port, controller, folder).items():
            properties.write(f"{name}={value}\n")
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": USER,
        "sasl.password": PASSWORD,
        "ssl.ca.location": str(certificate),
    }
    with (
        spec.log.open("wb") as log,
        subprocess.Popen(spec.command, stdout=log, stderr=log, start_new_session=True) as process,
    ):
        try:
            found = Secured(Storage("default", f"{HOST}:{port}", settings, default=True))
            until_answered(found.storage, spec.log, process)
            yield found
        finally:
            process.terminate()


def until_answered(storage: Storage, log: Path, process: "subprocess.Popen[bytes]") -> None:
    admin, deadline = AdminClient(client_config(storage)), time.monotonic() + 60
    while True:
        try:
            if admin.list_topics(timeout=2).brokers:
                return
        except KafkaException:
            assert process.poll() is None, log.read_text()[-2000:]
        assert time.monotonic() < deadline, log.read_text()[-2000:]


@contextmanager
def processes(places: Places, folder: Path, *commands: tuple[str, ...], **variables: str) -> Iterator[None]:
    """Processes of timers beside a node; one that ends by itself has failed."""
    env = {**os.environ, **environment(places), "MEANTIME_ZOOKEEPER": places.zookeeper, **variables}
    with ExitStack() as opened:
        for command in commands:
            log = opened.enter_context((folder / f"{command[0]}.log").open("wb"))
            process = opened.enter_context(
                subprocess.Popen(
                    [sys.executable, "-m", "meantime", *command], env=env, stdout=log, stderr=log, start_new_session=True
                )
            )
            opened.callback(process.terminate)
        yield


def until_reported(postgres: str, kind: str, folder: Path, within: float = 500.0) -> None:
    deadline = time.monotonic() + within
    while last_report(postgres, kind, kind, 0) is None:
        assert time.monotonic() < deadline, (folder / f"{kind}.log").read_text()[-4000:]
        time.sleep(0.5)


def publish_and_read(url: str, name: str) -> None:
    schema = {"type": "json_schema", "schema": "{}"}
    made = httpx.post(f"{url}/event-types", json={"name": name, "category": "undefined", "schema": schema})
    assert made.status_code == 201, made.text
    assert httpx.post(f"{url}/event-types/{name}/events", json=[{"n": 1}], timeout=30).status_code == 200
    begin = json.dumps([{"partition": "0", "offset": "BEGIN"}])
    read = httpx.get(
        f"{url}/event-types/{name}/events",
        params={"batch_limit": 1, "stream_limit": 1, "stream_timeout": 30},
        headers={"X-Nakadi-Cursors": begin},
        timeout=60,
    )
    assert '"n":1' in read.text.replace(" ", ""), read.text


def set_timer(url: str, token: str, after: float, topic: str, callback: object) -> None:
    timer = {"after": after, "token": token, "callback_topic": topic, "callback": callback}
    answer = httpx.post(f"{url}/timers", json=timer, timeout=60)
    assert answer.status_code == 202, answer.text


def test_a_client_without_credentials_is_refused(secured: Secured) -> None:
    bare = AdminClient({"bootstrap.servers": secured.storage.bootstrap_servers, "log_level": 0})
    tls_only = {name: value for name, value in secured.storage.settings.items() if name == "ssl.ca.location"}
    unknown = AdminClient(
        {"bootstrap.servers": secured.storage.bootstrap_servers, "security.protocol": "ssl", "log_level": 0, **tls_only}
    )
    for client in (bare, unknown):
        with pytest.raises(KafkaException):
            client.list_topics(timeout=3)


def test_everything_runs_on_a_default_storage_that_demands_credentials(secured: Secured, node_of, tmp_path) -> None:
    variables = {**secured.variables, "MEANTIME_TIMERS_NEAR": "15", "MEANTIME_TIMERS_SHARES": "2"}
    futures = ("futures", "--name", "futures", "--checkpoint", str(tmp_path / "checkpoint"), "--nice", "0")
    timers = [(kind, "--name", kind) for kind in ("oscillator", "dispatcher", "ledger")]
    with node_of(**variables) as places, processes(places, tmp_path, *timers, futures, **variables):
        url, calls = places.nodes[0].url, secured.new_topic()
        publish_and_read(url, "orders")
        credentials_are_found(url, places.postgres, calls, secured)
        until_reported(places.postgres, "dispatcher", tmp_path)
        set_timer(url, "soon", 3, calls, "near")
        set_timer(url, "event", 3, "event-type:orders", {"by": "timer"})
        assert secured.first_with(calls, 1, b"near").headers() is not None
        until_reported(places.postgres, "futures", tmp_path)
        set_timer(url, "later", 40, calls, "far")
        assert dict(secured.first_with(calls, 1, b"far").headers() or ())["timer-token"] == b"later"
        assert secured.first_with(DUE, 2, b"later").value() is not None
        ledger_balances(url, fired=3)


def credentials_are_found(url: str, postgres: str, topic: str, secured: Secured) -> None:
    """By pipelines, which the API tells everything but secrets."""
    with Client(url) as client:
        assert "sasl.password" not in storages(client, {})["default"].settings
        found = default_storage(client, postgres)
        given = storages(client, {"default": secured.storage.settings})["default"]
    assert found.settings == given.settings == secured.storage.settings
    assert has_topic(found, topic)


def ledger_balances(url: str, fired: int) -> None:
    deadline = time.monotonic() + 60
    while (ledger := httpx.get(f"{url}/timers/status").json()["ledger"])["fired"] < fired:
        assert time.monotonic() < deadline, ledger
        time.sleep(0.5)
    assert (ledger["fired"], ledger["difference"], ledger["pending"]) == (fired, 0, 0)


def test_timers_live_on_the_storage_that_is_configured_for_them(secured: Secured, node_of, tmp_path) -> None:
    variables = {"MEANTIME_TIMERS_STORAGE": "vault", "MEANTIME_TIMERS_SHARES": "2"}
    timers = [(kind, "--name", kind) for kind in ("oscillator", "dispatcher")]
    with node_of(**variables) as places, processes(places, tmp_path, *timers, **variables):
        url, token, calls = places.nodes[0].url, f"vault-{uuid4().hex[:8]}", secured.new_topic()
        early = httpx.post(f"{url}/timers", json={"after": 1, "callback_topic": calls}, timeout=60)
        assert early.status_code == 503, "nobody knows yet where timers live"
        kafka_configuration = {
            "bootstrap_servers": secured.storage.bootstrap_servers,
            "settings": secured.storage.settings,
        }
        vault = {"id": "vault", "storage_type": "kafka", "kafka_configuration": kafka_configuration}
        registered = httpx.post(f"{url}/storages", json=vault, timeout=60)
        assert registered.status_code == 201, registered.text
        until_reported(places.postgres, "dispatcher", tmp_path)
        set_timer(url, token, 3, calls, token)
        assert secured.first_with(REQUEST, 2, token.encode()).key() is not None
        assert secured.first_with(calls, 1, token.encode()).value() == token.encode()
        publish_and_read(url, "orders")
        assert httpx.get(f"{url}/event-types/orders/timelines").json()[0]["storage_id"] == "default"
