"""A stack with three replicas of each service: who leads is killed while everything is in use."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from replicas_load import Load

from conftest import RunningStack, free_ports, short_lived_folder
from meantime.config import Config
from meantime.database.connecting import connect
from meantime.database.listener import open_listener
from meantime.database.migrate import migrate
from meantime.database.pool import open_database
from meantime.errors import StackError, StorageUnavailable
from meantime.kafka.settings import Storage
from meantime.stack import control
from meantime.stack.background import launch
from meantime.stack.folder import Folder
from meantime.stack.leaders import leaders as look
from meantime.stack.model import HOST, StackOptions
from meantime.timers.kafka_topics import admin_of, ensure_topics
from meantime.timers.options import topics_of

pytestmark = [pytest.mark.long, pytest.mark.takes(seconds=150), pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def stack() -> Iterator[RunningStack]:
    """As `up --replicas 3 --nodes 2 --no-timers --detach` leaves it."""
    with short_lived_folder() as folder:
        stack = up(folder / "data", nodes=2, replicas=3, port=free_ports(2))
        try:
            yield stack
        finally:
            control.down(stack.folder, lambda _: None)


def up(folder: Path, **asked: Any) -> RunningStack:
    began = time.monotonic()
    launch(StackOptions(data=str(folder), timers=False, **asked), lambda _: None)
    places = Folder(folder).read().places
    assert places is not None
    stack = RunningStack(places, Folder(folder))
    print(f"ready after {time.monotonic() - began:.1f} s, {memory_of(stack) >> 20} MB")
    return stack


def memory_of(stack: RunningStack) -> int:
    """Of all processes; what several share counts once."""
    return sum(process.memory_full_info().pss for process in everybody(stack))


def everybody(stack: RunningStack) -> set[psutil.Process]:
    """The supervisor, what it has started, and the servers of the agents among them."""
    supervisor = stack.folder.read().supervisor
    assert supervisor is not None
    servers = [one.server_pid for one in stack.status().processes if one.server_pid]
    roots = [psutil.Process(pid) for pid in (supervisor.pid, *servers)]
    return {process for root in roots for process in (root, *root.children(recursive=True))}


def shown(stack: RunningStack, *options: str) -> str:
    """What `meantime status` prints."""
    command = [sys.executable, "-m", "meantime", "status", "--data", str(stack.folder.path), *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def leaders(stack: RunningStack) -> dict[str, str | None]:
    found = look(stack.folder.read())
    assert found is not None
    controller = found.kafka["kafka-1"].controller
    return {"zookeeper": found.zookeeper, "kafka": controller, "postgres": found.postgres.primary}


def until(holds: Callable[[], object], within: float = 90.0) -> None:
    deadline = time.monotonic() + within
    while not holds():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.2)


def is_whole(stack: RunningStack) -> bool:
    """Whether every process runs, every service has a leader, and the primary has both standbys."""
    found = look(stack.folder.read())
    assert found is not None
    return (
        all(process.alive and process.state == "ready" for process in stack.status().processes)
        and None not in leaders(stack).values()
        and len(found.postgres.synchronous) == 2
    )


def test_status_says_who_leads_what(stack: RunningStack) -> None:
    until(lambda: is_whole(stack))
    found = json.loads(shown(stack, "--json"))
    assert found["replicas"] == 3
    assert found["leaders"]["zookeeper"] in {"zookeeper-1", "zookeeper-2", "zookeeper-3"}
    assert found["leaders"]["kafka"]["kafka-1"]["partitions"].keys() == {"kafka-1-1", "kafka-1-2", "kafka-1-3"}
    members = {"postgres-1", "postgres-2", "postgres-3"}
    assert {found["leaders"]["postgres"]["primary"], *found["leaders"]["postgres"]["synchronous"]} == members
    table = shown(stack)
    for word in ("leader", "follower", "controller", "partitions", "primary", "synchronous"):
        assert word in table


def test_another_number_of_replicas_is_refused_and_so_are_two(stack: RunningStack) -> None:
    command = [sys.executable, "-m", "meantime", "up", "--data", str(stack.folder.path) + "-other", "--detach", "--replicas"]
    ended = subprocess.run([*command, "2"], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode != 0
    assert "1 or 3 replicas" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_every_kafka_topic_has_three_copies_and_a_write_is_acknowledged_by_two(stack: RunningStack) -> None:
    servers = stack.places.kafka[0]
    load = Load(stack.urls)
    ensure_topics(admin_of(Storage("default", servers)), topics_of(Config()))
    Producer({"bootstrap.servers": servers, "transactional.id": "t"}).init_transactions(60)
    group = Consumer({"bootstrap.servers": servers, "group.id": "g"})
    group.committed([TopicPartition("timer-due", 0)], timeout=60)
    group.close()

    admin = AdminClient({"bootstrap.servers": servers})
    topics = admin.list_topics(timeout=30).topics
    assert topics.keys() >= {"timer-request", "timer-due", "oscillator", "__consumer_offsets", "__transaction_state"}
    assert any(load.name in name for name in topics)
    assert {len(part.replicas) for topic in topics.values() for part in topic.partitions.values()} == {3}
    asked = [ConfigResource(ResourceType.TOPIC, name) for name in topics]
    settings = [found.result(30) for found in admin.describe_configs(asked).values()]
    assert {found["min.insync.replicas"].value for found in settings} == {"2"}


def test_migrations_and_nodes_take_several_hosts_in_every_form_of_an_address(stack: RunningStack) -> None:
    uri = stack.places.postgres.partition("?")[0]
    assert uri.count(",") == 2
    assert migrate(uri) == []
    login, hosts = uri.removeprefix("postgresql://").partition("/")[0].split("@")
    user, password = login.split(":")
    names, numbers = zip(*(host.split(":") for host in hosts.split(",")), strict=True)
    pairs = {"host": ",".join(names), "port": ",".join(numbers), "user": user, "password": password, "dbname": "meantime"}
    assert migrate(" ".join(f"{key}={value}" for key, value in pairs.items())) == []
    for _ in range(6):
        with connect(uri) as connection:
            assert connection.execute("SHOW transaction_read_only").fetchone() == ("off",)


async def test_a_commit_whose_wait_for_a_standby_was_cancelled_is_not_acknowledged(stack: RunningStack) -> None:
    until(lambda: is_whole(stack))
    receivers = [process for process in servers(stack) if "walreceiver" in " ".join(process.cmdline())]
    assert len(receivers) == 2
    with connect(stack.places.postgres, autocommit=True) as other:
        other.execute("CREATE TABLE waiting (n int)")
        for receiver in receivers:
            receiver.suspend()
        try:
            async with open_database(stack.places.postgres) as database:
                cancel_soon(stack)
                with pytest.raises(StorageUnavailable, match="no standby"):
                    await database.execute("INSERT INTO waiting VALUES (1)")
            cancel_soon(stack)
            with psycopg.connect(stack.places.postgres, autocommit=True) as careless:
                # What everybody else is told.
                assert careless.execute("INSERT INTO waiting VALUES (2)").rowcount == 1
        finally:
            for receiver in receivers:
                receiver.resume()
        other.execute("DROP TABLE waiting")


def servers(stack: RunningStack) -> list[psutil.Process]:
    roots = [psutil.Process(one.server_pid) for one in stack.status().processes if one.server_pid]
    return [process for root in roots for process in root.children()]


CANCEL = """
import sys, time, psycopg
cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query LIKE %s"
with psycopg.connect(sys.argv[1], autocommit=True) as connection:
    deadline = time.monotonic() + 20
    while not connection.execute(cancel, ["INSERT INTO waiting%"]).rowcount and time.monotonic() < deadline:
        time.sleep(0.05)
"""


def cancel_soon(stack: RunningStack) -> None:
    """Somebody cancels the next insert while it waits for a standby."""
    subprocess.Popen([sys.executable, "-c", CANCEL, stack.places.postgres], start_new_session=True)


FAULTS = ["zookeeper", "kafka", "postgres"]
MEMBERS = ["postgres-1", "postgres-2", "postgres-3"]


@pytest.mark.parametrize("service", FAULTS)
def test_when_a_leader_is_killed_nothing_acknowledged_is_lost_and_nothing_is_leased_twice(
    stack: RunningStack, service: str
) -> None:
    until(lambda: is_whole(stack))
    load = Load(stack.urls)
    leader = leaders(stack)[service]
    assert leader is not None
    process = next(one for one in stack.status().processes if one.name == leader)
    with load.running():
        until(lambda: flows(load))
        killed_at = time.monotonic()
        os.kill(process.server_pid or process.pid or 0, signal.SIGKILL)
        time.sleep(2.0)
        until(lambda: flows(load))
        until(lambda: leaders(stack)[service] not in (None, leader) if service == "postgres" else leaders(stack)[service])
        until(lambda: is_whole(stack))
        time.sleep(1.0)
    tell(load, killed_at, f"{leader} killed")
    load.check()
    assert load.published.answers.keys() <= {200, 503}


def test_when_only_the_agent_of_the_primary_is_frozen_users_are_led_to_the_next_one_and_nothing_is_lost(
    stack: RunningStack,
) -> None:
    """The former primary lives and takes writes for as long; only whoever waits for a standby notices."""
    until(lambda: is_whole(stack))
    load = Load(stack.urls)
    leader = leaders(stack)["postgres"]
    assert leader is not None
    agent = stack.pid(leader)
    with load.running():
        until(lambda: flows(load))
        frozen_at = time.monotonic()
        os.kill(agent, signal.SIGSTOP)
        try:
            until(lambda: any(is_primary(stack, name) for name in MEMBERS if name != leader))
            replaced_at = time.monotonic()
            until(lambda: all(one.at and one.at[-1] > replaced_at + 1.0 for one in (load.created, load.leased)))
        finally:
            os.kill(agent, signal.SIGCONT)
        until(lambda: is_whole(stack))
    tell(load, frozen_at, f"the agent of {leader} frozen")
    load.check()


def is_primary(stack: RunningStack, name: str) -> bool:
    """Whether an agent thinks that its server is the primary."""
    return httpx.get(f"http://{HOST}:{stack.folder.read().ports[f'{name}-agent']}/primary", trust_env=False).is_success


def flows(load: Load) -> bool:
    """Whether everything has gone well lately, and more than once."""
    lately = time.monotonic() - 1.0
    return all(len(told.at) > 5 and told.at[-1] > lately for told in (load.published, load.created, load.leased))


def tell(load: Load, since: float, what: str) -> None:
    for name, one in (("publish", load.published), ("create", load.created), ("lease", load.leased)):
        print(f"{what}: {name}: gap {one.longest_gap(since - 0.5):.1f} s, answers {dict(one.answers)}")


async def test_a_listener_follows_to_the_new_primary(stack: RunningStack) -> None:
    until(lambda: is_whole(stack))
    heard: asyncio.Queue[str | None] = asyncio.Queue()
    async with (
        asyncio.timeout(90),
        open_listener(stack.places.postgres) as listener,
        open_database(stack.places.postgres) as database,
    ):
        listener.subscribe("following", heard.put_nowait)
        assert await heard.get() is None
        primary = next(one for one in stack.status().processes if one.name == leaders(stack)["postgres"])
        assert primary.server_pid
        os.kill(primary.server_pid, signal.SIGKILL)
        assert await heard.get() is None
        await database.execute("SELECT pg_notify('following', 'again')")
        assert await heard.get() == "again"


def test_what_was_killed_altogether_starts_again_with_its_data_and_only_with_as_many_replicas(stack: RunningStack) -> None:
    until(lambda: is_whole(stack))
    load = Load(stack.urls)
    with load.running():
        until(lambda: flows(load))
    killed = everybody(stack)
    for process in killed:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(killed, timeout=20)
    with pytest.raises(StackError, match="made with --replicas 3"):
        up(stack.folder.path, replicas=1)

    up(stack.folder.path)
    load.check()
    stopped = everybody(stack)
    assert control.down(stack.folder, lambda _: None)
    assert not [process for process in stopped if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
