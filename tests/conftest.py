"""Real services for tests. One that does not come up fails the tests that need it; nothing is ever skipped."""

import fcntl
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from uuid import uuid4

import pytest

from meantime.stack.control import Status, status
from meantime.stack.folder import Folder
from meantime.stack.model import Places
from meantime.stack.ports import is_free
from meantime.stack.session import running

os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
"""Services of tests live for seconds: what the second compiler and a parallel collector cost would never come back."""

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


LONG = (
    *("timers_faults", "pipelines_spark", "timers_dispatcher", "streams_faults", "pipelines_faults", "workers_jobs"),
    *("stack", "workers_sharing", "nodes", "timers_futures", "streams_switch", "barrier_faults", "fuzz"),
    *("streams_publishing", "topics_faults", "reading_faults", "workers_guarded", "docs"),
)
"""Files that take long begin first, so that no lane is still busy with one when the others have nothing left."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    places = {f"test_{name}": place for place, name in enumerate(LONG)}
    items.sort(key=lambda item: places.get(item.path.stem, len(places)))


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
def cluster(pytestconfig: pytest.Config) -> RunningStack:
    """Two nodes and two Kafka clusters for all tests that only use them; break a stack of your own. Started when the first
    test asks for it."""
    # The nodes make the topics of timers, as small as the tests of timers on these services need them.
    node_env = {"MEANTIME_TIMERS_SHARES": "2"}
    return _share(pytestconfig, "cluster", nodes=2, kafka=2, port=free_ports(2), node_env=node_env)


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of its own with a short path, gone after the test."""
    with short_lived_folder() as path:
        yield path
