"""What the Spark job says and takes while timers are pending: the time of its micro-batches, rows, disk, memory."""

import os
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Report = Callable[[str], dict[str, Any] | None]
"""What a kind of process has said last."""


@dataclass(frozen=True)
class Upkeep:
    """Of one period. Sizes in megabytes."""

    batches: int
    batch_ms: float
    rows: int
    disk: float
    memory: float


class Watch:
    """Looks at each report of the Spark job, in a thread, until it is asked what it saw."""

    def __init__(self, report: Report, home: Path) -> None:
        self._report = report
        self._home = home
        self._seen: dict[int, dict[str, Any]] = {}
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def upkeep(self) -> Upkeep:
        self._done.set()
        self._thread.join()
        first, *usual = [self._seen[number] for number in sorted(self._seen)]
        times = [report["batch_ms"] for report in usual]
        return Upkeep(len(times), statistics.median(times), first["state_rows"], disk(self._home), memory(self._home))

    def _look(self) -> None:
        while not self._done.wait(0.2):
            if report := self._report("futures"):
                self._seen[report["batches"]] = report


def disk(home: Path) -> float:
    """Files come and go while they are counted."""
    sizes = []
    for folder, _, names in os.walk(home / "checkpoint"):
        for name in names:
            try:
                sizes.append((Path(folder) / name).stat().st_size)
            except FileNotFoundError:
                continue
    return sum(sizes) / 1e6


def memory(home: Path) -> float:
    """Of Spark's JVM, as the system counts it."""
    mark = f"SPARK_LOCAL_DIRS={home / 'scratch'}".encode()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if (process / "comm").read_text().strip() == "java" and mark in (process / "environ").read_bytes().split(b"\0"):
                return int((process / "status").read_text().split("VmRSS:")[1].split()[0]) / 1000
        except OSError:
            continue
    return float("nan")


def settle(report: Report, within: float = 400.0) -> None:
    """Wait until what a burst has left to do is done, by the Spark job and by the ledger: nothing waits, twice in a row."""
    deadline, calm, last = time.monotonic() + within, 0, -1
    while calm < 2 and time.monotonic() < deadline:
        futures, ledger = report("futures"), report("ledger")
        if futures and ledger and futures["batches"] != last:
            last = futures["batches"]
            calm = calm + 1 if futures["lag"] == ledger["lag"] == 0 else 0
        time.sleep(0.2)
