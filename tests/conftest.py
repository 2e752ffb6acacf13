"""Real services for tests. One that does not come up fails the tests that need it; nothing is ever skipped."""

import fcntl
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import IO, Any
from unittest.mock import patch
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import httpx
import psycopg
import pytest
from xdist.scheduler import LoadFileScheduling

from meantime.stack.control import Status, status
from meantime.stack.folder import Folder
from meantime.stack.model import HOST, NodeAddress, Places
from meantime.stack.ports import is_free
from meantime.stack.services.nodes import answers, environment
from meantime.stack.session import running

pytest_plugins = ["console_browser"]

os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""Services of tests live for seconds: what the second compiler and a parallel collector cost would never come back."""

MEMORY, ROOM = Path("/dev/shm"), 4 * 1024**3
if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
    tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)
"""Data of tests live as long: where the machine has the room they stay in memory. Opening a file, which Kafka does twenty
times for each partition, costs a fraction there; and it is processes that tests kill, never the machine."""

if "PYTEST_XDIST_WORKER" in os.environ and os.getsid(0) != os.getpid():
    os.setsid()
"""Linux shares the processors by session. Each lane has one of its own, with what it starts in it: in one for all of them
Spark might not get its processes up within the ten seconds that it gives them."""

TURNS = max(2, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0")))
"""How many test runs may start services on a machine at the same time; more would only make each other late."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Take turns with other test runs on this machine, before any test's own time begins to count."""
    if session.config.option.collectonly or all("/tests/unit/" in str(item.path) for item in session.items):
        return
    told = False
    while True:
        for turn in range(TURNS):
            held = (Path(tempfile.gettempdir()) / f"meantime-tests-{turn}.lock").open("a")
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.close()
                continue
            session.config.stash[TURN] = held
            return
        if not told:
            print("waiting for other test runs on this machine", file=sys.stderr, flush=True)
            told = True
        time.sleep(0.5)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take long begin first, so that no lane is still busy with one when the others have nothing left. Those
    of one `lane` follow each other; tests of a file keep their order."""
    longest: dict[str, float] = {}
    for item in items:
        longest[lane_of(item)] = max(longest.get(lane_of(item), 0.0), _takes(item))
    items.sort(key=lambda item: (-longest[lane_of(item)], lane_of(item), -_takes(item), _file(item)))


def lane_of(item: pytest.Item | pytest.Collector) -> str:
    """The lane that a file asks for by `pytestmark = pytest.mark.lane("…")`; else the file has one for itself."""
    marker = item.get_closest_marker("lane")
    return str(marker.args[0]) if marker else _file(item)


def _takes(item: pytest.Item) -> float:
    marker = item.get_closest_marker("takes")
    return float(marker.kwargs["seconds"]) if marker else 0.0


def _file(item: pytest.Item | pytest.Collector) -> str:
    return item.nodeid.partition("::")[0]


class Lanes(LoadFileScheduling):
    """A worker takes a file at a time, or all files of one lane. Who deals them out knows only the names of tests, so the
    marker is read in the text of the file."""

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        return _lane_in(self.config.rootpath / file) or file


@cache
def _lane_in(file: Path) -> str | None:
    found = re.search(r"^pytestmark = .*\bmark\.lane\(\"(\w+)\"\)", file.read_text("utf-8"), re.MULTILINE)
    return found[1] if found else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Lanes | None:
    return Lanes(config, log) if config.getvalue("dist") == "loadfile" else None


TURN = pytest.StashKey[IO[str]]()


@dataclass(frozen=True, slots=True)
class Services:
    """ZooKeeper, two Kafka clusters and PostgreSQL, shared by all lanes of a test run: use names of your own."""

    zookeeper: str
    kafka: list[str]
    postgres: str


@dataclass(frozen=True, slots=True)
class RunningStack:
    places: Places
    folder: Folder

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.places.nodes]

    def status(self) -> Status:
        return status(self.folder)

    def pid(self, name: str) -> int:
        """The present pid of `node-1`, `kafka-1`, …"""
        pid = next(process.pid for process in self.status().processes if process.name == name)
        assert pid is not None, f"{name} is down"
        return pid

    def send(self, name: str, number: int = signal.SIGKILL) -> int:
        """Signal a process of the stack; returns the pid that it had."""
        pid = self.pid(name)
        os.kill(pid, number)
        return pid


def command(places: Places, *arguments: str) -> tuple[int, str]:
    """`meantime …` on a stack, without a process of its own: the exit code, and what it printed."""
    from meantime.cli.main import run

    with patch.dict(os.environ, environment(places)), redirect_stdout(StringIO()) as printed:
        return run(arguments), printed.getvalue()


StackOf = Callable[..., AbstractContextManager[RunningStack]]


@contextmanager
def short_lived_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="meantime-test-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(count: int) -> int:
    """The first of so many ports in a row for nodes. Test runs side by side have lanes of their own, far from the ports that
    services choose: a killed node must get its port back."""
    lane = 9000 + 2000 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    while True:
        first = lane + random.SystemRandom().randrange(2000 - count)
        if all(is_free(port) for port in range(first, first + count)):
            return first


@contextmanager
def _stack_of(nodes: int = 1, kafka: int = 1, timers: bool = False, **node_env: str) -> Iterator[RunningStack]:
    with (
        short_lived_folder() as folder,
        running(
            folder / "data", nodes=nodes, kafka=kafka, timers=timers, port=free_ports(nodes), node_env=node_env
        ) as places,
    ):
        yield RunningStack(places, Folder(folder / "data"))


@contextmanager
def own_database(postgres: str) -> Iterator[str]:
    """A database with the schema in it, gone afterwards."""
    from meantime.database.migrate import migrate

    name = f"own_{uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    uri = urlunsplit(urlsplit(postgres)._replace(path=f"/{name}"))
    try:
        migrate(uri)
        yield uri
    finally:
        with psycopg.connect(postgres, autocommit=True) as connection:
            connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def _node_on(services: Services, **variables: str) -> Iterator[Places]:
    with own_database(services.postgres) as postgres:
        scheme = "https" if "MEANTIME_TLS_CERT" in variables else "http"
        url = f"{scheme}://{HOST}:{free_ports(1)}"
        root = f"{services.zookeeper}/node-{uuid4().hex[:12]}"
        places = Places((NodeAddress("alone", url),), root, tuple(services.kafka), postgres)
        command = [sys.executable, "-m", "meantime", "node", "--id", "alone", "--port", url.rpartition(":")[2]]
        env = {**os.environ, **environment(places), "MEANTIME_ZOOKEEPER": root, **variables}
        with subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL, start_new_session=True) as process:
            try:
                deadline = time.monotonic() + 60
                while waiting_for := answers(url):
                    assert process.poll() is None, "the node has ended"
                    assert time.monotonic() < deadline, f"still waiting for {waiting_for}"
                    time.sleep(0.1)
                yield places
            finally:
                process.terminate()


@contextmanager
def _shared(run: str, name: str, **options: Any) -> Iterator[RunningStack]:
    """One stack for all lanes of a test run: who asks first starts it, and stops it when nobody else uses it any more."""
    folder = Path(tempfile.gettempdir()) / f"meantime-{run[:8]}-{name}"
    folder.mkdir(exist_ok=True)
    with (folder / "users").open("a") as users, ExitStack() as mine:
        fcntl.flock(users, fcntl.LOCK_SH)
        with (folder / "starting").open("a") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            is_up = folder / "up"
            if not is_up.exists():
                mine.callback(shutil.rmtree, folder, ignore_errors=True)
                mine.enter_context(running(folder / "data", **options))
                mine.callback(is_up.unlink)
                mine.callback(fcntl.flock, users, fcntl.LOCK_EX)
                is_up.touch()
        found = Folder(folder / "data")
        places = found.read().places
        assert places is not None
        yield RunningStack(places, found)


SHARED = pytest.StashKey[ExitStack]()
RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID", uuid4().hex)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Not at the end of fixtures: whoever stops what is shared waits for the other lanes, which is in no test's time."""
    session.config.stash.get(SHARED, ExitStack()).close()


def _share(config: pytest.Config, name: str, **options: Any) -> RunningStack:
    kept = config.stash.setdefault(SHARED, ExitStack())
    return kept.enter_context(_shared(RUN, name, **options))


@pytest.fixture(scope="session")
def services(cluster: RunningStack) -> Services:
    """Those of the cluster: two Kafkas less to start and to keep."""
    places = cluster.places
    return Services(zookeeper=places.zookeeper.partition("/")[0], kafka=list(places.kafka), postgres=places.postgres)


@pytest.fixture(scope="session")
def stack_of() -> StackOf:
    """`with stack_of(nodes=3, kafka=2, MEANTIME_DRIFT_LIMIT_MS="200") as stack:` is a stack of its own."""
    return _stack_of


@pytest.fixture(scope="session")
def node_of(services: Services) -> Callable[..., AbstractContextManager[Places]]:
    """`with node_of(MEANTIME_AUTH="true") as places:` is one node with a database and a root of its own on the shared
    services, for what needs other settings and breaks nothing."""
    return partial(_node_on, services)


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> RunningStack:
    """Two nodes and two Kafka clusters for all tests that only use them; break a stack of your own. Started when the first
    test asks for it."""
    # The nodes make the topics of timers, as small as the tests of timers on these services need them.
    node_env = {"MEANTIME_TIMERS_SHARES": "2"}
    return _share(pytestconfig, "cluster", nodes=2, kafka=2, port=free_ports(2), node_env=node_env)


@dataclass(frozen=True, slots=True)
class Breakable(RunningStack):
    """A stack that files take turns in breaking; `fault_file` is where its nodes read of accidents to come."""

    fault_file: Path

    def is_whole(self) -> bool:
        """Whether all its nodes see all its nodes, and all of them healthy."""
        healthy = {node.id: "healthy" for node in self.places.nodes}
        try:
            return self.status().ready and all(_states(url) == healthy for url in self.urls)
        except httpx.HTTPError:
            return False

    def until_whole(self, within: float = 40.0) -> bool:
        deadline = time.monotonic() + within
        while not (whole := self.is_whole()) and time.monotonic() < deadline:
            time.sleep(0.2)
        return whole


HTTP = httpx.Client(limits=httpx.Limits(max_keepalive_connections=0), trust_env=False, verify=False)
"""For nodes that come and go: no connection is used twice, and nothing is made ready for TLS."""


def _states(url: str) -> dict[str, str]:
    return {node["id"]: node["state"] for node in HTTP.get(f"{url}/nodes").json()["nodes"]}


@contextmanager
def _breakable(lane: str) -> Iterator[Breakable]:
    """For streams what the fault suite needs; otherwise as `meantime up` does it."""
    from meantime.chaos.streams import ChaosPlan, staged

    with ExitStack() as opened:
        data = opened.enter_context(short_lived_folder()) / "data"
        if lane == "streams":
            places, site = opened.enter_context(staged(data, ChaosPlan(session_timeout=2.0), print))
            yield Breakable(places, Folder(data), site.fault_file)
        else:
            places = opened.enter_context(running(data, nodes=3, port=free_ports(3)))
            yield Breakable(places, Folder(data), data.parent / "fault")


BROKEN = pytest.StashKey[tuple[Breakable, ExitStack]]()


@pytest.fixture(scope="module")
def breakable(request: pytest.FixtureRequest, pytestconfig: pytest.Config) -> Breakable:
    """The stack that the files of a lane break in turns, whole again; one that does not recover is replaced."""
    if BROKEN in pytestconfig.stash and not pytestconfig.stash[BROKEN][0].until_whole():
        _stop_breakable(pytestconfig)
    if BROKEN not in pytestconfig.stash:
        opened = ExitStack()
        stack = opened.enter_context(_breakable(lane_of(request.node)))
        pytestconfig.stash[BROKEN] = (stack, opened)
    return pytestconfig.stash[BROKEN][0]


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After the last one of its files a stack is stopped."""
    if nextitem is None or lane_of(nextitem) != lane_of(item):
        _stop_breakable(item.config)


def _stop_breakable(config: pytest.Config) -> None:
    if BROKEN in config.stash:
        config.stash[BROKEN][1].close()
        del config.stash[BROKEN]


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own with a short path, gone after the test."""
    with short_lived_folder() as path:
        yield path
