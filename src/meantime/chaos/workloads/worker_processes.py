"""The processes of an application, started again whenever they end: victims like those of the stack."""

import asyncio
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

STOP_WITHIN = 15.0
RESTART_AFTER = 0.5
TARGET = "meantime.chaos.workloads.worker_job:app"


class WorkerProcesses:
    def __init__(self, count: int, settings: dict[str, str], scratch: Path) -> None:
        self._names = [f"worker-{number}" for number in range(1, count + 1)]
        self._settings = settings
        self._scratch = scratch
        self._running: dict[str, asyncio.subprocess.Process] = {}

    @property
    def pids(self) -> dict[str, int]:
        """Of those that run."""
        return {name: process.pid for name, process in self._running.items() if process.returncode is None}

    @property
    def names(self) -> list[str]:
        return list(self._names)

    async def keep(self, over: asyncio.Event) -> None:
        """Run all of them until it is over."""
        keeping = [asyncio.create_task(self._keep(name, over)) for name in self._names]
        await over.wait()
        for pid in self.pids.values():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
                os.kill(pid, signal.SIGTERM)
        _, late = await asyncio.wait(keeping, timeout=STOP_WITHIN)
        for pid in self.pids.values() if late else ():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await asyncio.gather(*keeping)

    async def _keep(self, name: str, over: asyncio.Event) -> None:
        while not over.is_set():
            with (self._scratch / f"{name}.log").open("ab") as log:
                command = [sys.executable, "-m", "meantime", "worker", "run", TARGET, "--session-timeout", "4"]
                self._running[name] = process = await asyncio.create_subprocess_exec(
                    *command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env={**os.environ, **self._settings, "CHAOS_WORKER": name, "CHAOS_PID": str(os.getpid())},
                    cwd=self._scratch,
                    start_new_session=True,
                )
            await process.wait()
            await asyncio.sleep(RESTART_AFTER)
