"""The Python process itself: its garbage collector, how much of the processor it asks for, and with whom it ends."""

import ctypes
import gc
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

_SET_PARENT_DEATH_SIGNAL = 1
"""`PR_SET_PDEATHSIG` of prctl(2)."""


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


def die_with_parent(parent: int) -> None:
    """Called in a child process before its program begins: Linux kills it when the thread that has started it ends, however
    that ends. `parent` may have been killed already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != parent:
            os.kill(os.getpid(), signal.SIGKILL)
