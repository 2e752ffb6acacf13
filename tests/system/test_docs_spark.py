"""The examples about Spark. Each command would start a Java of its own; here they take turns in the one of this process."""

import os
import shlex
import subprocess
from pathlib import Path

import pytest
from doc_pages import LOCAL, Page, pages_on

from conftest import RunningStack
from meantime.cli.main import run

pytestmark = [pytest.mark.lane("spark"), pytest.mark.takes(seconds=60), pytest.mark.timeout(400)]


@pytest.mark.parametrize("page", pages_on("spark"), ids=lambda page: page.name)
def test_a_page_about_spark_runs_as_it_is_written(
    page: Page, cluster: RunningStack, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEANTIME_DATA", str(cluster.folder.path))
    monkeypatch.setattr("meantime.logs.configure", lambda *_: None)  # it is for whole processes
    monkeypatch.chdir(folder)
    names: dict[str, object] = {}
    for block in page.runnable(**{LOCAL: cluster.urls[0]}):
        if block.language == "python":
            exec(compile(block.text, page.name, "exec"), names)
        else:
            for line in filter(None, block.text.replace("\\\n", " ").splitlines()):
                assert _run(line) == 0, line


def _run(line: str) -> int:
    command, _, expected = line.partition(" || test $? = ")
    if command.startswith("meantime "):
        return run(shlex.split(command, comments=True)[1:]) - int(expected or 0)
    return subprocess.run(["bash", "-c", line], env=os.environ, timeout=60, check=False).returncode
