"""A command that is started again whenever a Python file below a folder changes."""

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from watchfiles import PythonFilter, watch

from meantime.cli.output import say

STOP_WITHIN = 30.0


def run_reloading(arguments: Sequence[str], folder: Path) -> int:
    """Run `meantime <arguments>` again and again until a signal comes; the exit code of the last run."""
    over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: over.set())
    child = _start(arguments)
    try:
        for changes in watch(folder, watch_filter=PythonFilter(), stop_event=over, raise_interrupt=False):
            say(f"{', '.join(sorted(Path(path).name for _, path in changes))} changed: starting again")
            _stop(child)
            child = _start(arguments)
    finally:
        _stop(child)
    return max(0, child.returncode)


def _start(arguments: Sequence[str]) -> "subprocess.Popen[bytes]":
    return subprocess.Popen([sys.executable, "-m", "meantime", *arguments], start_new_session=True)


def _stop(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        child.terminate()
    try:
        child.wait(STOP_WITHIN)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
