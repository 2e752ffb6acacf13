"""`meantime chaos` as its users run it: in a process of its own, to its verdict, with nothing left behind."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.takes(seconds=90), pytest.mark.timeout(600)]


def started(folder: Path, *arguments: str, **options: Any) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "meantime", "chaos", *arguments, "--data", str(folder)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def left_behind(folder: Path) -> list[str]:
    """Processes and mounts of a folder."""
    mounted = [line for line in Path("/proc/mounts").read_text().splitlines() if str(folder) in line]
    running = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in line and "pytest" not in line:
            running.append(line)
    return mounted + running


def test_a_run_ends_with_a_verdict_and_leaves_nothing_behind(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    run = started(tmp_path / "data", "topics", "--for", "8s", "--seed", "5", "--json", "--report", str(page))
    out, err = run.communicate(timeout=500)
    found = json.loads(out)
    assert (run.returncode, found["verdict"]) == (0, "no finding"), err
    assert found["faults"]
    assert all(control["caught"] for control in found["controls"])
    assert found["counts"]["topics"]["deleted"] > 0
    assert "<svg" in page.read_text("utf-8")
    assert left_behind(tmp_path / "data") == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_run_that_is_stopped_leaves_nothing_behind(tmp_path: Path, number: signal.Signals) -> None:
    run = started(tmp_path / "data", "topics", "--faults", "kill,partition,disk", "--for", "5m")
    assert run.stdout
    for line in run.stdout:
        if re.match(r"starting|preparing", line):
            break
    os.kill(run.pid, number)
    run.communicate(timeout=300)
    assert run.returncode == 130
    assert left_behind(tmp_path / "data") == []
    assert [one.name for one in Path("/sys/class/net").iterdir() if one.name.startswith(f"mt{run.pid % 1_000_000}b")] == []
