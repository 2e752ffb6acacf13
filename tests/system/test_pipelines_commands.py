"""What pipelines say when something cannot be: which option it is, and what to do. Nothing is left behind."""

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from uuid import uuid4

import pytest

from conftest import RunningStack
from meantime import Client
from meantime.cli.main import run
from meantime.errors import StackError

Refused = Callable[..., str]


@pytest.fixture
def client(cluster: RunningStack) -> Iterator[Client]:
    with Client(cluster.urls) as client:
        yield client


@pytest.fixture
def refused(cluster: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Refused:
    """Runs a command that must fail before Spark is started, and gives what it says."""
    monkeypatch.setenv("MEANTIME_DATA", str(cluster.folder.path))
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("meantime.logs.configure", lambda *_: None)  # it is for whole processes
    monkeypatch.setattr(import_module("meantime.pipelines.session"), "session", None)

    def command(*arguments: str, code: int) -> str:
        found = run(["pipeline", *arguments])
        said = capsys.readouterr().err
        assert (found, "Traceback" in said) == (code, False), said
        return said

    return command


@pytest.fixture
def orders(client: Client) -> str:
    name = f"orders-{uuid4().hex[:8]}"
    client.create_event_type(name)
    return name


@pytest.fixture
def table(folder: Path) -> Path:
    file = folder / "campaign.csv"
    file.write_text("id,after_ms,text\na,1000,hello\n")
    return file


def test_a_duration_that_is_none_is_told_by_its_option(refused: Refused, table: Path) -> None:
    assert "--every" in refused("archive", "orders", "--to", str(table.parent), "--every", "soon", code=2)
    assert "--delay" in refused("buffer", "--from", "a", "--to", "b", "--delay", "soon", code=2)
    assert "--remember" in refused("buffer", "--from", "a", "--to", "b", "--delay", "1s", "--remember", "long", code=2)
    assert "--step" in refused("schedule", str(table), "--topic", "t", "--step", "soon", code=2)
    assert "--for" in refused("forecast", "--for", "soon", code=2)


def test_an_event_type_that_does_not_exist_makes_no_archive(refused: Refused, orders: str, folder: Path) -> None:
    to = folder / "archive"
    assert "'nothing'" in refused("archive", orders, "nothing", "--to", str(to), "--once", code=5)
    assert not to.exists()


def test_places_that_cannot_be_written_to_are_told_first(refused: Refused, client: Client, orders: str, table: Path) -> None:
    assert f"--to: cannot write to {table}" in refused("archive", orders, "--to", str(table), code=4)
    assert "--to: cannot write to /proc/archive" in refused("archive", orders, "--to", "/proc/archive", code=4)
    client.create_event_type(f"{orders}.later")
    ends = ("--from", f"event-type:{orders}", "--to", f"event-type:{orders}.later", "--delay", "1s")
    assert "--checkpoint: cannot write" in refused("buffer", *ends, "--checkpoint", str(table), code=4)
    for wrong in ("/proc/refused", str(table.parent)):
        assert "--rejects: " in refused("schedule", str(table), "--topic", "t", "--rejects", wrong, code=4)
    assert "--png: cannot write" in refused("forecast", "--png", "/nowhere/week.png", code=4)


def test_a_buffer_without_both_ends_makes_no_topic(refused: Refused, client: Client, orders: str, folder: Path) -> None:
    source = f"event-type:{orders}"
    for ends, named in (
        ((source, "event-type:nothing"), "--to: event type 'nothing'"),
        ((source, "nothing"), "--to: storage"),
        (("event-type:nothing", source), "--from: event type 'nothing'"),
        (("nothing", source), "--from: storage"),
    ):
        arguments = ("--from", ends[0], "--to", ends[1], "--delay", "1s", "--checkpoint", str(folder / "checkpoint"))
        assert named in refused("buffer", *arguments, code=5)
    same = ("--from", source, "--to", source, "--delay", "1s", "--checkpoint", str(folder / "checkpoint"))
    assert "go round for ever" in refused("buffer", *same, code=4)
    assert not [topic.name for topic in client.topics() if orders in topic.name]
    assert not (folder / "checkpoint").exists()


def test_a_command_says_what_it_will_do_before_spark_is_started(
    cluster: RunningStack,
    client: Client,
    orders: str,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said: list[str] = []

    def no_session(*_: object, **__: object) -> None:
        printed = capsys.readouterr()
        said.append(printed.err)
        assert printed.out == ""
        raise StackError("it would start now")

    monkeypatch.setenv("MEANTIME_DATA", str(cluster.folder.path))
    monkeypatch.setattr("meantime.logs.configure", lambda *_: None)  # it is for whole processes
    monkeypatch.setattr(import_module("meantime.pipelines.session"), "session", no_session)
    client.create_event_type(f"{orders}.later")
    client.create_topic(f"topic-{orders}")
    ends = ("--from", f"event-type:{orders}", "--to", f"event-type:{orders}.later")
    for arguments, named in (
        (("schedule", str(table), "--topic", f"topic-{orders}"), f"schedule: campaign.csv → topic topic-{orders}"),
        (("archive", orders, "--to", str(table.parent / "archive"), "--once"), f"archive: {orders} → "),
        (("buffer", *ends, "--delay", "1h", "--only", "in"), f"event-type:{orders} → 1 h → event-type:{orders}.later"),
    ):
        assert run(["pipeline", *arguments, "--json"]) == 3
        assert capsys.readouterr().out == ""
        (line,) = said.pop().splitlines()
        assert named in line
        assert line.endswith("Spark starts first, which takes about ten seconds")


STARTING = """
import time
from meantime.cli.pipeline.spark import _elapsed
with _elapsed("Spark starts", every=0.02):
    time.sleep(0.3)
"""


def test_on_a_terminal_the_seconds_are_shown_while_spark_starts() -> None:
    terminal, end = os.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", STARTING], stderr=end, stdout=subprocess.PIPE, start_new_session=True
    ) as it:
        os.close(end)
        shown = b""
        with suppress(OSError):  # as Linux tells that the other end is gone
            while part := os.read(terminal, 1000):
                shown += part
        assert it.communicate(timeout=60)[0] == b""
    os.close(terminal)
    assert b"\rSpark starts: 0 s" in shown
    assert shown.endswith(b"\r\x1b[K")


def test_a_port_that_is_taken_is_told(refused: Refused, orders: str, folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        arguments = (orders, "--to", str(folder / "archive"), "--metrics-port", port)
        assert f"--metrics-port: cannot listen on port {port}" in refused("archive", *arguments, code=4)


def test_files_and_topics_that_are_not_there_are_told(refused: Refused, table: Path) -> None:
    assert "no such file" in refused("schedule", "nothing.csv", "--topic", "t", code=4)
    assert "'nowhere'" in refused("schedule", str(table), "--topic", "nowhere", code=5)
    strange = table.with_suffix(".xls")
    strange.write_text("")
    assert "name it *.csv" in refused("schedule", str(strange), "--topic", "t", code=4)
    assert "'nowhere'" in refused("forecast", "nowhere", code=5)
    assert "--archive" in refused("forecast", "--archive", "/nowhere", code=4)
    assert "--capacity" in refused("forecast", "--capacity", "-1", code=2)
    assert "--step" in refused("forecast", "--for", "1h", "--step", "1ms", code=4)
