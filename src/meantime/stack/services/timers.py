"""The processes of timers in the embedded stack: two oscillators, the Spark job, a dispatcher and a ledger.

Each is ready when it has reported since it was started; the Spark job when it has done two micro-batches, because the first
is much slower than the others.
"""

import sys
import time
from collections.abc import Mapping

from meantime.stack.folder import Folder
from meantime.stack.java.jvm import FEW_ARENAS
from meantime.stack.model import Places, Spec
from meantime.stack.services.nodes import environment
from meantime.stack.services.postgres import last_report

WARM_BATCHES = 2


def timers(folder: Folder, places: Places, depends: tuple[str, ...], extra: Mapping[str, str]) -> tuple[Spec, ...]:
    # A dead leader must be noticed within the lead, so that the next one can catch up before anything is late.
    alert = {"MEANTIME_SESSION_TIMEOUT": "2"}
    return (
        *(_process(folder, places, "oscillator", number, depends, {**alert, **extra}) for number in (1, 2)),
        _process(folder, places, "dispatcher", 1, depends, extra),
        _process(folder, places, "ledger", 1, depends, extra),
        _futures(folder, places, depends, extra),
    )


def _process(
    folder: Folder, places: Places, kind: str, number: int, depends: tuple[str, ...], extra: Mapping[str, str]
) -> Spec:
    name = f"{kind}-{number}"
    report = ReportProbe(places.postgres, kind, name)
    return Spec(
        kind=kind,
        name=name,
        command=(sys.executable, "-m", "meantime", kind, "--name", name),
        log=folder.logs / f"{name}.log",
        env={**environment(places), **extra},
        depends=depends,
        # A standby reports nothing, and without a node there is no cluster time to begin with.
        probe=None if kind == "oscillator" or not places.nodes else report.missing,
        prepare=report.reset,
    )


def _futures(folder: Folder, places: Places, depends: tuple[str, ...], extra: Mapping[str, str]) -> Spec:
    report = ReportProbe(places.postgres, "futures", "futures", WARM_BATCHES)
    home = folder.path / "futures"
    folders = {"MEANTIME_CHECKPOINT": str(home / "checkpoint"), "SPARK_LOCAL_DIRS": str(home / "scratch")}

    def prepare() -> None:
        (home / "scratch").mkdir(parents=True, exist_ok=True)
        report.reset()

    return Spec(
        kind="futures",
        name="futures",
        late=True,
        command=(*(sys.executable, "-m", "meantime", "futures", "--name", "futures", "--memory", "1g"),),
        log=folder.logs / "futures.log",
        env={**environment(places), **folders, **FEW_ARENAS, **extra},
        depends=(*depends, "oscillator-1"),
        probe=report.missing if places.nodes else None,
        prepare=prepare,
        ready_within=600.0,
        # It starts again from its checkpoint, however it ended; one that is just starting cannot be stopped any other way.
        stop_within=10.0,
    )


class ReportProbe:
    """Whether a process has reported since it was last started."""

    def __init__(self, postgres: str, kind: str, name: str, batches: int = 0) -> None:
        self._postgres = postgres
        self._kind = kind
        self._name = name
        self._batches = batches
        self._since_ms = 0

    def reset(self) -> None:
        self._since_ms = time.time_ns() // 1_000_000

    def missing(self) -> str | None:
        report = last_report(self._postgres, self._kind, self._name, self._since_ms)
        if report is None:
            return "its first report"
        return None if report.get("batches", 0) >= self._batches else "its first micro-batches"
