"""Rows of the table about processes: what a stack takes at rest, and how soon it serves."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import httpx
from _table_model import Stage, Values

REST, REST_SHORT = 300.0, 30.0
SETTLE = 90.0
"""After a start the Spark job goes through ticks as if requests came, for a minute."""
_TICKS = os.sysconf("SC_CLK_TCK")


def idle(stage: Stage) -> Values:
    """The share of a core of each process of the stack with its children, and its memory (PSS)."""
    time.sleep(5 if stage.short else SETTLE)
    lasting = REST_SHORT if stage.short else REST
    before = {name: _used(pid) for name, pid in _everybody(stage).items()}
    began = time.monotonic()
    time.sleep(lasting)
    took = time.monotonic() - began
    found: Values = {}
    for name, pid in _everybody(stage).items():
        found[f"{name} %"] = (_used(pid) - before.get(name, 0.0)) / took * 100
        found[f"{name} MB"] = sum(map(_pss_mb, _own(pid)))
    shares = {key: value for key, value in found.items() if key.endswith("%")}
    return {
        "processor": sum(shares.values()),
        "memory": sum(found.values()) - sum(shares.values()),
        **dict(sorted(found.items())),
    }


def start(stage: Stage) -> Values:
    """From the command to the first request that is answered, of a stack that has run before."""
    took = []
    with tempfile.TemporaryDirectory(prefix="meantime-bench-") as folder:
        data = Path(folder) / "stack"
        for turn in range(stage.turns + 1):
            seconds = _until_served(data)
            took += [seconds] if turn else []
    return {"start": sorted(took)[len(took) // 2]}


def _until_served(data: Path) -> float:
    command = [sys.executable, "-m", "meantime", "up", "--data", str(data), "--port", "18911"]
    began = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while True:
            try:
                answer = httpx.get("http://127.0.0.1:18911/event-types", timeout=5, trust_env=False)
                if answer.status_code == 200:
                    return time.monotonic() - began
            except httpx.HTTPError:
                pass
            if process.poll() is not None or time.monotonic() - began > 300:
                raise RuntimeError("the stack did not come up")
            time.sleep(0.02)
    finally:
        process.terminate()
        process.wait(120)


def _everybody(stage: Stage) -> dict[str, int]:
    pids = stage.pids
    supervisor = int(Path(f"/proc/{pids['node-1']}/stat").read_text().rpartition(")")[2].split()[1])
    return {**pids, "supervisor": supervisor}


def family(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                found += family(int(child))
    except OSError:
        return found  # gone between the look and the look
    return found


def _used(pid: int) -> float:
    return sum(map(_cpu, _own(pid)))


def _own(pid: int) -> list[int]:
    """Of the supervisor only itself: what it has started stands for itself."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return []
    return [pid] if b"meantime.stack.background" in command else family(pid)


def _cpu(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _pss_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("Pss:")), 0.0)
