"""The Python process itself: its garbage collector, and how much of the processor it asks for."""

import gc
import os
from contextlib import suppress
from pathlib import Path


def spare_collector(young: int, middle: int, old: int) -> None:
    """Take the garbage collector off what lives as long as the process: what there is now stays and is not looked through
    again; what is new is, each time there is so much of it."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(young, middle, old)


def step_back(nice: int) -> None:
    """Let others go first: this thread and what it starts from now on.

    Where Linux groups processes by their session it weighs the groups first, and a nice process alone in its group takes as
    much as any other. So the group has to be nice, too, if it is this process's own.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")
