"""Every example of the documentation, run as a reader would run it: the blocks of a page in order, in one shell.

Pages on Spark run inside this process, in the Java that its lane has already: see `test_docs_spark.py`.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from uuid import uuid4

import pytest
from doc_pages import LOCAL, Page, pages_on

from conftest import RunningStack, Services, free_ports, own_database

pytestmark = pytest.mark.takes(seconds=300)

TIMERS = ("oscillator", "dispatcher", "ledger")


AT_THE_END = "trap 'kill $(jobs -p) 2> /dev/null || true' EXIT"
"""A page that fails takes along what it has started."""


def run(script: str, folder: Path, **variables: str) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euxo", "pipefail", "-c", f"{AT_THE_END}\n{script}"],
        stdin=subprocess.DEVNULL,
        env={**os.environ, "PATH": path, **variables},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
        start_new_session=True,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", pages_on("cluster"), ids=lambda page: page.name)
def test_a_page_runs_as_it_is_written(page: Page, cluster: RunningStack, folder: Path) -> None:
    run(page.script(**{LOCAL: cluster.urls[0]}), folder, MEANTIME_DATA=str(cluster.folder.path))


@pytest.fixture(scope="module")
def timers(stack_of: Callable[..., AbstractContextManager[RunningStack]]) -> Iterator[RunningStack]:
    """A stack with the processes that near timers need: all but the Spark job, which would cost more than all the rest."""
    with stack_of(nodes=1) as stack, ExitStack() as running:
        for name in TIMERS:
            command = [sys.executable, "-m", "meantime", name, "--data", str(stack.folder.path)]
            log = running.enter_context((stack.folder.path / "logs" / f"{name}.log").open("wb"))
            process = running.enter_context(subprocess.Popen(command, stdout=log, stderr=log, start_new_session=True))
            running.callback(process.terminate)
        yield stack


@pytest.mark.parametrize("page", pages_on("timers"), ids=lambda page: page.name)
def test_a_page_about_timers_runs_as_it_is_written(page: Page, timers: RunningStack, folder: Path) -> None:
    variables = {"MEANTIME_DATA": str(timers.folder.path), "KAFKA": timers.places.kafka[0]}
    run(page.script(**{LOCAL: timers.urls[0]}), folder, **variables)


@pytest.mark.parametrize("page", pages_on("services"), ids=lambda page: page.name)
def test_a_page_about_nodes_runs_as_it_is_written(page: Page, services: Services, folder: Path) -> None:
    """On services that are there, as in production: with a database and a root of its own."""
    port = str(free_ports(1))
    with own_database(services.postgres) as postgres:
        variables = {
            "MEANTIME_POSTGRES": postgres,
            "MEANTIME_KAFKA": ";".join(services.kafka),
            "MEANTIME_ZOOKEEPER": f"{services.zookeeper}/docs-{uuid4().hex[:8]}",
        }
        run(page.script(**{"8181": port, "8282": port}), folder, **variables)
