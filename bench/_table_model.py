"""The table of what is measured: rows with their figures, what each is to reach, and what came out before."""

import json
import os
import platform
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meantime.stack.folder import Folder
from meantime.stack.model import Places

FELL_BY = 0.1
"""A figure that is worse by more than this fraction than the one on record is told in red."""


class Missing(Exception):
    """A peer that is not installed on this machine."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a row. `floor` is where it stood when the goal was set. Where more is worse, `at_most`."""

    title: str
    goal: float
    floor: float | None = None
    unit: str = ""
    at_most: bool = False

    def met(self, value: float) -> bool:
        return value <= self.goal if self.at_most else value >= self.goal

    def fell(self, value: float, before: float) -> bool:
        return value > before * (1 + FELL_BY) if self.at_most else value < before * (1 - FELL_BY)

    def shown(self, value: float | None) -> str:
        if value is None:
            return "–"
        number = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
        return f"{number} {self.unit}".strip()

    @property
    def aim(self) -> str:
        return f"{'≤' if self.at_most else '≥'} {self.shown(self.goal)}"


@dataclass(frozen=True, slots=True)
class Stage:
    """What rows are measured on: a stack with one node, and how long a turn is."""

    data: Path
    places: Places
    seconds: float
    turns: int

    @property
    def url(self) -> str:
        return self.places.nodes[0].url

    @property
    def pids(self) -> dict[str, int]:
        return {row.name: row.mark.pid for row in Folder(self.data).read().processes if row.mark is not None}

    @property
    def short(self) -> bool:
        return self.turns == 1


Values = dict[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """`measure` gives the values of the figures, and more beside them that is only written down."""

    name: str
    peer: str
    figures: Mapping[str, Figure]
    measure: Callable[[Stage], Values]
    stack: bool = True
    """Whether it needs the common stack."""


def machine() -> dict[str, Any]:
    """Where and when: figures of different machines do not compare."""
    asked = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "at": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "commit": asked.stdout.strip(),
        "load": round(os.getloadavg()[0], 1),
    }


def read_record(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"rows": {}}
    return found


def write_record(path: Path, record: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n")
