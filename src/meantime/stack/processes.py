"""Processes by pid *and* birth, so that a reused pid is never taken for one of ours, and their bounded stop."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from meantime.stack.model import ProcessIdentity, Row

SERVER_STOPS_WITHIN = 20.0
_PROC = Path("/proc")
_BOOT = Path("/proc/sys/kernel/random/boot_id")


def identity_of(pid: int) -> ProcessIdentity | None:
    """The mark of a living process; `None` for one that is gone or only waits to be reaped."""
    born = _born_by_proc(pid) if _BOOT.exists() else _born_by_ps(pid)
    return ProcessIdentity(pid, born) if born else None


def is_alive(known: ProcessIdentity | None) -> bool:
    return known is not None and identity_of(known.pid) == known


def _born_by_proc(pid: int) -> str | None:
    try:
        fields = (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    state, start_ticks = fields[0], fields[19]
    return None if state in "ZX" else f"{_BOOT.read_text().strip()}:{start_ticks}"


def _born_by_ps(pid: int) -> str | None:
    shown = subprocess.run(["ps", "-o", "state=,lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state, _, born = shown.stdout.strip().partition(" ")
    return None if not born or state.startswith("Z") else born.strip()


def stop_leftovers(rows: tuple[Row, ...], say: Callable[[str], None]) -> int:
    """Stop what a killed supervisor left running: highest level first, those of one level together."""
    living = [(row, row.mark) for row in rows if row.mark and is_alive(row.mark)]
    for level in sorted({row.level for row, _ in living}, reverse=True):
        group = [(row, known) for row, known in living if row.level == level]
        for row, known in group:
            say(f"stopping {row.name} (pid {known.pid}), left behind by a supervisor that was killed")
            send(known, row.stop_signal)
        for row, known in group:
            if not wait_gone(known, row.stop_within):
                say(f"{row.name} did not stop within {row.stop_within:g} s: killing it")
                send(known, signal.SIGKILL, group=True)
                wait_gone(known, 5.0)
    return len(living) + sum(stop_server(Path(row.server_pid_file)) for row in rows if row.server_pid_file)


def stop_server(pid_file: Path) -> bool:
    """Stop a server that whoever looked after it has left behind; whether there was one."""
    server = server_of(pid_file)
    if server is None:
        return False
    # As PostgreSQL takes it: end all sessions, write everything down.
    send(server, signal.SIGINT)
    if not wait_gone(server, SERVER_STOPS_WITHIN):
        send(server, signal.SIGKILL)
        wait_gone(server, 5.0)
    return True


def server_of(pid_file: Path) -> ProcessIdentity | None:
    """The server that keeps its pid in this file and works in its folder; another process with that pid does not."""
    try:
        pid = int(pid_file.read_text().split()[0])
        return identity_of(pid) if _works_in(pid, pid_file.parent) else None
    except (OSError, ValueError, IndexError):
        return None


def _works_in(pid: int, folder: Path) -> bool:
    if _BOOT.exists():
        return (_PROC / str(pid) / "cwd").samefile(folder)
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return str(folder) in shown.stdout


def send(known: ProcessIdentity, number: int, *, group: bool = False) -> None:
    if is_alive(known):
        with suppress(ProcessLookupError):
            (os.killpg if group else os.kill)(known.pid, number)


def wait_gone(known: ProcessIdentity, within: float) -> bool:
    deadline = time.monotonic() + within
    while is_alive(known):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True
