"""Timers while a process of theirs is killed or stands still: how late they are, and for how long nothing fires.

All requests are written before: a dispatcher takes those of the next `NEAR_S` seconds by itself, the others need the Spark
job. Each fault has a window of its own, and happens some seconds after the window begins.
"""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path

from rich.table import Table

from meantime.stack.folder import Folder

NEAR_S = 30
WINDOW_S = 40
FAULT_AFTER_S = 5
STILL_S = 15


@dataclass(frozen=True, slots=True)
class Window:
    """What came of the timers of a window. Times in milliseconds."""

    fault: str
    fired: int
    late: list[int]
    pause: int


def faults(data: Path) -> dict[str, Callable[[], None]]:
    """What is done to the stack in this folder, window by window."""
    return {
        "none": lambda: None,
        "dispatcher killed": lambda: os.kill(_pid(data, "dispatcher-1"), signal.SIGKILL),
        f"Spark job stopped for {STILL_S} s": lambda: _stand_still(_pid(data, "futures"), STILL_S),
        "Spark job killed": lambda: os.kill(_pid(data, "futures"), signal.SIGKILL),
    }


def inflict(start: int, planned: Mapping[str, Callable[[], None]]) -> None:
    """Each fault in its window; returns when the last one has happened."""
    for number, fault in enumerate(planned.values()):
        time.sleep(max(0.0, start + number * WINDOW_S + FAULT_AFTER_S - time.time()))
        fault()


def windows(start: int, names: list[str], by_second: Mapping[int, list[int]]) -> Iterator[Window]:
    """A pause belongs to the window that it begins in."""
    fired_at = sorted({start * 1000, *(second * 1000 + late for second, found in by_second.items() for late in found)})
    for number, name in enumerate(names):
        first = start + number * WINDOW_S
        late = list(chain.from_iterable(by_second.get(second, ()) for second in range(first, first + WINDOW_S)))
        began = (pair for pair in pairwise(fired_at) if first <= pair[0] // 1000 < first + WINDOW_S)
        yield Window(name, len(late), sorted(late), max((after - before for before, after in began), default=0))


def table_of(rate: int, found: list[Window]) -> Table:
    title = f"{rate:,} fires a second for {WINDOW_S} s each, while a process fails (milliseconds)"
    table = Table(title=title, box=None, title_justify="left")
    for column in ("fault", "fired", "late p50", "p99", "max", "over 1 s", "longest pause"):
        table.add_column(column, justify="left" if column == "fault" else "right")
    for window in found:
        parts = (
            [window.late[min(window.fired - 1, int(window.fired * part))] for part in (0.5, 0.99, 1)] if window.late else []
        )
        over = sum(late > 1000 for late in window.late)
        table.add_row(window.fault, str(window.fired), *map(str, parts), str(over), str(window.pause))
    return table


def _pid(data: Path, name: str) -> int:
    return next(row.mark.pid for row in Folder(data).read().processes if row.name == name and row.mark)


def _stand_still(pid: int, for_s: float) -> None:
    """With all that it has started."""
    stopped = list(_family(pid))
    for one in stopped:
        os.kill(one, signal.SIGSTOP)
    try:
        time.sleep(for_s)
    finally:
        for one in stopped:
            with suppress(ProcessLookupError):
                os.kill(one, signal.SIGCONT)


def _family(pid: int) -> Iterator[int]:
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        # A thread may end while its process is looked at.
        with suppress(FileNotFoundError, ProcessLookupError):
            for child in (task / "children").read_text().split():
                yield from _family(int(child))
