"""Deterministic accidents, for tests only: a process that dies or freezes at a named point of a switch.

`MEANTIME_FAULT_POINT=<file>` names a file that a test writes for an accident to happen: `<point> <kill|stop>`. A process
that passes the point removes the file, so that it happens once, and sends itself the signal. Without the variable nothing
is ever looked at.
"""

import os
import signal
from pathlib import Path

import structlog

log = structlog.get_logger(__name__)

VARIABLE = "MEANTIME_FAULT_POINT"
POINTS = ("prepared", "locked", "acknowledged", "sealed", "committed", "unlocked")
SIGNALS = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}


def passing(point: str) -> None:
    """The process passes this point."""
    file = os.environ.get(VARIABLE)
    planned = _read(Path(file)) if file else ""
    if not planned.startswith(f"{point} "):
        return
    Path(str(file)).unlink()
    action = planned.split()[1]
    log.warning("planned_accident", point=point, action=action)
    os.kill(os.getpid(), SIGNALS[action])


def _read(file: Path) -> str:
    try:
        return file.read_text()
    except FileNotFoundError:
        return ""
