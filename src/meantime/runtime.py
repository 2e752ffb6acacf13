"""The Python process itself: its garbage collector, and how much of the processor it asks for."""

import gc
import os
from contextlib import suppress
from pathlib import Path


def spare_collector(young: int, middle: int, old: int) -> None:
    """Spare the garbage collector what lives as long as the process: present objects are frozen and not scanned again; new
    ones are collected by these thresholds."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, old)


def step_back(nice: int) -> None:
    """Lower the priority of this thread and of what it starts from now on.

    Where Linux groups processes by their session it schedules the groups first, and a nice process that is the only one in
    its group gets as much as any other. So the group's nice value is set, too, if the group is this process's own.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")
