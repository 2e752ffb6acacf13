"""The embedded stack under faults: real services, real kills."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kazoo.client import KazooClient
from msgspec.structs import replace

from conftest import RunningStack, short_lived_folder
from meantime.errors import StackError
from meantime.stack import control, processes
from meantime.stack.background import launch
from meantime.stack.control import status
from meantime.stack.folder import Folder
from meantime.stack.model import Places, ProcessIdentity, StackOptions
from meantime.stack.ports import choose, is_free
from meantime.stack.services.nodes import answers

pytestmark = pytest.mark.takes(seconds=105)


def up(folder: Path, **asked) -> RunningStack:
    """What `meantime up --detach` does."""
    launch(StackOptions(data=str(folder), nodes=0, migrate=False, **asked), lambda _: None)
    places = Folder(folder).read().places
    assert places is not None
    return RunningStack(places, Folder(folder))


def down(stack: RunningStack) -> bool:
    return control.down(stack.folder, lambda _: None)


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    """A stack in the background, as `up --detach` leaves it; tests leave it running."""
    with short_lived_folder() as folder:
        stack = up(folder / "data")
        yield stack
        down(stack)


@dataclass(frozen=True, slots=True)
class LentStack(RunningStack):
    caller: int


LENDER = """
import sys, time
from dataclasses import dataclass
from pathlib import Path
from meantime.stack.session import running
with running(Path(sys.argv[1]), migrate=False):
    print("ready", flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def other() -> Iterator[LentStack]:
    """A stack on the Java that a package carries, which lives with another process."""
    with short_lived_folder() as folder:
        environment = {**os.environ, "PATH": str(folder), "JAVA_HOME": ""}
        command = [sys.executable, "-c", LENDER, folder / "data"]
        with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as caller:
            assert caller.stdout is not None
            assert caller.stdout.readline() == b"ready\n"
            places = Folder(folder / "data").read().places
            assert places is not None
            yield LentStack(places, Folder(folder / "data"), caller.pid)
            caller.kill()


def until(holds: Callable[[], bool], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def marks(stack: RunningStack) -> list[ProcessIdentity]:
    rows = stack.folder.read().processes
    assert {row.name for row in rows} == {"zookeeper", "kafka-1", "postgres"}
    return [row.mark for row in rows if row.mark]


def supervisor(stack: RunningStack) -> ProcessIdentity:
    known = stack.folder.read().supervisor
    assert known is not None
    return known


def said(stack: RunningStack) -> str:
    return (stack.folder.logs / "supervisor.log").read_text()


def write_everywhere(places: Places, name: str) -> None:
    with psycopg.connect(places.postgres, autocommit=True) as connection:
        connection.execute(f"CREATE TABLE {name} AS SELECT 'a row' AS word")
    admin = AdminClient({"bootstrap.servers": places.kafka[0]})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(10)
    producer = Producer({"bootstrap.servers": places.kafka[0], "acks": "all"})
    producer.produce(name, b"a record")
    assert producer.flush(10) == 0
    client = KazooClient(places.zookeeper.partition("/")[0])
    client.start(10)
    client.create(f"/{name}", b"a node")
    client.stop()
    client.close()


def read_everywhere(places: Places, name: str) -> list[object]:
    with psycopg.connect(places.postgres) as connection:
        row = connection.execute(f"SELECT word FROM {name}").fetchone()
    consumer = Consumer({"bootstrap.servers": places.kafka[0], "group.id": "reader"})
    consumer.assign([TopicPartition(name, 0, 0)])
    record = consumer.poll(10)
    consumer.close()
    client = KazooClient(places.zookeeper.partition("/")[0])
    client.start(10)
    node = client.get(f"/{name}")[0]
    client.stop()
    client.close()
    return [row and row[0], record and record.value(), node]


def kafka_ids(stack: RunningStack) -> set[str]:
    lines = (stack.folder.path / "kafka-1" / "data" / "meta.properties").read_text().splitlines()
    ids = {line.partition("=")[2] for line in lines if ".id=" in line and not line.startswith("node")}
    assert len(ids) == 2
    return ids


WRITTEN = ["a row", b"a record", b"a node"]


@pytest.mark.parametrize("name", ["zookeeper", "kafka-1", "postgres"])
def test_a_killed_service_is_started_again_and_it_is_said(stack, name):
    killed = stack.send(name, signal.SIGKILL)
    until(lambda: f"{name}: ready again (restart 1) after" in said(stack))
    assert stack.pid(name) != killed
    assert f"{name}: killed by SIGKILL; starting it again in 0.5 s" in said(stack)


def test_a_second_stack_on_the_same_directory_is_refused(stack):
    with pytest.raises(StackError, match=f"in use by a running stack .supervisor pid {supervisor(stack).pid}."):
        up(stack.folder.path)
    assert stack.status().ready


def test_two_stacks_run_side_by_side_the_second_on_the_bundled_java(stack, other):
    write_everywhere(other.places, "twin")
    write_everywhere(stack.places, "twin")
    assert read_everywhere(other.places, "twin") == WRITTEN
    assert read_everywhere(stack.places, "twin") == WRITTEN
    assert kafka_ids(stack).isdisjoint(kafka_ids(other))


def test_a_stack_that_lives_with_its_caller_stops_when_the_caller_is_killed(stack, other):
    before = marks(other)
    os.kill(other.caller, signal.SIGKILL)
    until(lambda: not other.folder.is_locked())
    assert not any(processes.is_alive(mark) for mark in before)
    assert stack.status().ready


def test_a_killed_supervisor_is_followed_by_an_up_with_the_data_and_the_ports(stack):
    write_everywhere(stack.places, "second")
    left = marks(stack)
    os.kill(supervisor(stack).pid, signal.SIGKILL)
    until(lambda: not stack.folder.is_locked())

    again = up(stack.folder.path)
    assert not any(processes.is_alive(mark) for mark in left)
    assert "left behind by a supervisor that was killed" in said(stack)
    assert again.places == stack.places
    assert read_everywhere(again.places, "second") == WRITTEN


def test_sigterm_leaves_nothing_running_and_a_taken_port_is_named(stack):
    running_before, master = marks(stack), supervisor(stack)
    os.kill(master.pid, signal.SIGTERM)
    assert processes.wait_gone(master, 30)
    assert not any(processes.is_alive(mark) for mark in running_before)
    numbers = stack.folder.read().ports
    assert all(is_free(port) for port in numbers.values())
    assert not down(stack)

    with socket.socket() as stranger:
        stranger.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        stranger.bind(("127.0.0.1", numbers["zookeeper"]))
        stranger.listen()
        with pytest.raises(StackError, match=f"port {numbers['zookeeper']} of zookeeper is taken by another program"):
            up(stack.folder.path)
    up(stack.folder.path)
    assert stack.folder.read().ports == numbers


def test_a_service_that_does_not_come_up_is_named_with_the_end_of_its_log_and_nothing_is_left_running(folder):
    broken = folder / "data" / "postgres" / "data"
    broken.mkdir(parents=True)
    with pytest.raises(StackError, match=r"(?s)postgres did not come up: ended with exit code.*postgres\.log:\n  .*"):
        up(folder / "data")
    until(lambda: not Folder(folder / "data").is_locked())
    assert Folder(folder / "data").read().processes == ()


def test_a_first_start_without_network_says_what_to_do(folder, monkeypatch):
    monkeypatch.setenv("MEANTIME_CACHE", str(folder / "cache"))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dhttps.proxyHost=127.0.0.1 -Dhttps.proxyPort=9")
    with pytest.raises(StackError, match=r"could not fetch the jars for kafka.*The first start needs the network"):
        up(folder / "data")


def meantime(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "meantime", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def put_down(stack) -> list[ProcessIdentity]:
    """The stack at its end: written to, its supervisor killed, `down` called; gives what the supervisor had left."""
    write_everywhere(stack.places, "first")
    left = marks(stack)
    os.kill(supervisor(stack).pid, signal.SIGKILL)
    until(lambda: not stack.folder.is_locked())
    with pytest.raises(StackError, match=r"was killed and left .*running: `meantime up` starts the stack again"):
        stack.status()
    assert down(stack)
    return left


def test_a_killed_supervisor_leaves_nothing_that_down_cannot_stop(put_down):
    assert not any(processes.is_alive(mark) for mark in put_down)


def first_of_two_free_ports() -> int:
    return next(port for _ in range(200) if is_free((port := choose(set())) + 1, unreserved=True))


def test_no_data_are_lost_and_the_commands_run_nodes_restart_a_killed_one_in_its_place_and_stop_cleanly_on_ctrl_c(
    stack, put_down
):
    folder, first = stack.folder.path, first_of_two_free_ports()
    flags = ["--nodes", "2", "--auth", "--no-timers", "--data", folder, "--port", str(first), "--json"]
    command = [sys.executable, "-m", "meantime", "up", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as foreground:
        assert foreground.stdout is not None
        assert foreground.stderr is not None
        assert foreground.stdout.readline() == "{\n", foreground.stderr.read()
        shown = json.loads(meantime("status", "--data", folder, "--json").stdout)
        assert [(node["id"], node["url"]) for node in shown["nodes"]] == [
            ("node-1", f"http://127.0.0.1:{first}"),
            ("node-2", f"http://127.0.0.1:{first + 1}"),
        ]
        assert {process["name"] for process in shown["processes"]} == {
            *("zookeeper", "kafka-1", "postgres", "node-1", "node-2"),
        }
        again = Folder(folder).read().places
        assert again is not None
        secret = (folder / "postgres.password").read_text()
        assert secret not in json.dumps(shown)
        with psycopg.connect(shown["postgres"]) as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with_secrets = json.loads(meantime("status", "--data", folder, "--json", "--secrets").stdout)
        assert with_secrets["postgres"] == again.postgres
        assert httpx.get(shown["nodes"][1]["url"] + "/topics", trust_env=False).status_code == 401
        assert meantime("topics", "list", "--data", folder).returncode == 0
        assert meantime("topics", "list", "--url", shown["nodes"][0]["url"], "--key", with_secrets["key"]).returncode == 0
        assert meantime("topics", "list", "--data", folder, "--url", shown["nodes"][0]["url"]).returncode == 7
        assert with_secrets["key"] not in json.dumps(shown)
        addresses = {process["name"]: process["address"] for process in shown["processes"]}
        assert addresses["node-2"] == f"http://127.0.0.1:{first + 1}"
        assert addresses["kafka-1"] == shown["kafka"][0]
        assert replace(again, nodes=()) == stack.places
        assert read_everywhere(again, "first") == WRITTEN

        os.kill(shown["nodes"][0]["pid"], signal.SIGKILL)
        until(lambda: status(Folder(folder)).nodes[0].pid not in (None, shown["nodes"][0]["pid"]))
        until(lambda: answers(shown["nodes"][0]["url"]) is None)
        before = [row.mark for row in Folder(folder).read().processes]

        foreground.send_signal(signal.SIGINT)
        _, told = foreground.communicate(timeout=60)
    assert foreground.returncode == 0
    assert "node-1: killed by SIGKILL; starting it again" in told
    assert f"first key, which may do everything: {with_secrets['key']}" in told
    assert told.index("node-2: stopped") < told.index("zookeeper: stopping")
    assert not any(processes.is_alive(mark) for mark in before)
    stopped = meantime("status", "--data", folder)
    assert stopped.returncode == 3
    assert "no stack is running in" in stopped.stderr
