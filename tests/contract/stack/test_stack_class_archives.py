"""Class archives on a real Java: made in a trial run, used when they fit, and never in the way."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from meantime.stack.java.archive import ClassArchive
from meantime.stack.java.runtime import find_java
from meantime.stack.services.zookeeper import class_path


@pytest.fixture
def archive(folder: Path, monkeypatch: pytest.MonkeyPatch) -> ClassArchive:
    monkeypatch.setenv("MEANTIME_CACHE", str(folder))
    return ClassArchive(find_java(), class_path())


def trial() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "meantime.stack.class_archives", "zookeeper"], stderr=subprocess.DEVNULL)


def java_starts(archive: ClassArchive, path: str, sharing: str) -> bool:
    command = [str(archive.java.executable), *archive.options(), f"-Xshare:{sharing}", "-cp", path, "-version"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def test_java_takes_an_archive_that_fits_and_goes_without_others(archive: ClassArchive) -> None:
    with trial() as first, trial() as second:
        assert (first.wait(90), second.wait(90)) == (0, 0)
    made = {path.suffix for path in archive.file().parent.iterdir() if path.name != ".lock"}
    assert made == {".jsa", ".size"}
    other = archive.path.partition(":")[2]
    assert java_starts(archive, archive.path, "on")
    assert not java_starts(archive, other, "on")
    assert java_starts(archive, other, "auto")


def test_a_trial_that_is_stopped_takes_everything_along(archive: ClassArchive) -> None:
    home = archive.file().parent
    with trial() as stopped:
        wait_for(lambda: bool(list(home.glob(".trial-*/zookeeper/data"))))
        stopped.send_signal(signal.SIGTERM)
        assert stopped.wait(60) == 1
    assert [path.name for path in home.iterdir()] == [".lock"]
    assert not [process for process in _commands() if str(home) in process]


def test_a_trial_that_is_killed_leaves_nothing_that_is_used_and_the_next_makes_it_anew(archive: ClassArchive) -> None:
    home = archive.file().parent
    with trial() as killed:
        wait_for(lambda: bool(list(home.glob(".trial-*/zookeeper/data"))))
        wait_for(lambda: any(str(home) in process and "java" in process for process in _commands()))
        killed.kill()
        assert killed.wait(60) == -signal.SIGKILL
    wait_for(lambda: not [process for process in _commands() if str(home) in process])
    assert list(home.glob(".trial-*"))
    assert archive.is_missing()
    assert archive.options() == ()
    with trial() as second:
        assert second.wait(90) == 0
    assert {path.suffix for path in home.iterdir() if path.name != ".lock"} == {".jsa", ".size"}
    assert java_starts(archive, archive.path, "on")


def wait_for(condition: Callable[[], bool], within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.02)


def _commands() -> list[str]:
    found = (Path("/proc") / pid / "cmdline" for pid in os.listdir("/proc") if pid.isdigit())
    return [path.read_text(errors="replace") for path in found if path.exists()]
