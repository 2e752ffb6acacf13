"""Processes that are killed, and processes that stand still for a while."""

import asyncio
import signal
from collections.abc import Callable

from meantime.chaos.injecting.plan import PlannedFault
from meantime.chaos.injecting.stage import Stage, send
from meantime.chaos.injecting.victims import find

Workers = Callable[[], dict[str, int]]


class Killing:
    def __init__(self, stage: Stage, workers: Workers) -> None:
        self._stage = stage
        self._workers = workers

    async def inject(self, fault: PlannedFault) -> str | None:
        """What was done; `None` if there was nobody to do it to."""
        victim = await asyncio.to_thread(find, self._stage, fault.target, self._workers)
        if victim is None:
            return None
        send(victim.main, signal.SIGKILL)
        return f"killed {victim.name}"


class Freezing:
    def __init__(self, stage: Stage, workers: Workers) -> None:
        self._stage = stage
        self._workers = workers

    async def inject(self, fault: PlannedFault) -> str | None:
        victim = await asyncio.to_thread(find, self._stage, fault.target, self._workers)
        if victim is None:
            return None
        for pid in victim.pids:
            send(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(fault.lasts)
        finally:
            for pid in victim.pids:
                send(pid, signal.SIGCONT)
        return f"froze {victim.name}"
