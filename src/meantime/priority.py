"""How much of the processor a process asks for where many share a machine."""

import os
from contextlib import suppress
from pathlib import Path


def step_back(nice: int) -> None:
    """Let others go first: this thread and what it starts from now on.

    Where Linux groups processes by their session it weighs the groups first, and a nice process alone in its group takes as
    much as any other. So the group has to be nice, too, if it is this process's own.
    """
    os.nice(nice)
    if os.getsid(0) == os.getpid():
        with suppress(OSError):
            Path("/proc/self/autogroup").write_text(str(nice), encoding="ascii")
