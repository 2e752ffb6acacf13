"""The stack that is broken: started for a run, looked at, started again after a power cut, stopped at the end."""

import asyncio
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from itertools import chain
from pathlib import Path

import httpx

from meantime.errors import StackError
from meantime.stack import processes
from meantime.stack.background import launch
from meantime.stack.control import ProcessStatus, status
from meantime.stack.folder import Folder
from meantime.stack.leaders import leaders
from meantime.stack.model import Leaders, Places, StackOptions

STOP_WITHIN = 120.0


class Stage:
    def __init__(self, options: StackOptions) -> None:
        self.options = options
        self.folder = Folder(Path(options.data))
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def places(self) -> Places:
        places = self.folder.read().places
        if places is None:
            raise StackError(f"the stack in {self.folder.path} does not say where it is")
        return places

    def up(self) -> None:
        self._supervisor = launch(self.options, lambda _: None)

    def down(self) -> None:
        supervisor, self._supervisor = self._supervisor, None
        if supervisor and supervisor.stdin:
            with suppress(OSError):
                supervisor.stdin.close()
            supervisor.wait(timeout=STOP_WITHIN)

    def end_all(self, everybody: list[int]) -> None:
        """As the loss of power ends them: all at once, the supervisor first."""
        supervisor, self._supervisor = self._supervisor, None
        if supervisor:
            supervisor.kill()
            supervisor.wait(timeout=STOP_WITHIN)
            if supervisor.stdin:
                with suppress(OSError):
                    supervisor.stdin.close()
        for pid in everybody:
            send(pid, signal.SIGKILL)
        for pid in everybody:
            if (known := processes.identity_of(pid)) is not None:
                processes.wait_gone(known, 10.0)

    def everybody(self) -> list[int]:
        roots = [pid for one in self.processes().values() for pid in (one.pid, one.server_pid) if pid]
        return list(chain.from_iterable(map(family, roots)))

    def processes(self) -> dict[str, ProcessStatus]:
        try:
            return {one.name: one for one in status(self.folder).processes}
        except StackError:
            return {}

    def leaders(self) -> Leaders | None:
        return leaders(self.folder.read())

    async def unwell(self) -> list[str]:
        """Who does not run, or is not ready."""
        return await asyncio.to_thread(self._unwell)

    def _unwell(self) -> list[str]:
        rows = self.processes()
        if not rows:
            return ["the stack is down"]
        found = [f"{name} is {row.state}" for name, row in rows.items() if not row.alive or row.state != "ready"]
        found += [said for node in self.places.nodes if (said := _node_unwell(node.id, node.url))]
        if not found and (known := self.leaders()) is not None:
            if known.zookeeper is None:
                found.append("ZooKeeper has no leader")
            if known.postgres.primary is None or len(known.postgres.synchronous) < 2:
                found.append(f"PostgreSQL: primary {known.postgres.primary}, synchronous {known.postgres.synchronous}")
            found += [f"{name} has no controller" for name, cluster in known.kafka.items() if cluster.controller is None]
        return found


def _node_unwell(name: str, url: str) -> str | None:
    try:
        answer = httpx.get(f"{url}/ready", timeout=3.0, trust_env=False, verify=False)
    except httpx.HTTPError as error:
        return f"{name} does not answer ({type(error).__name__})"
    return None if answer.status_code == 200 else f"{name} is not ready: {answer.text[:160]}"


def send(pid: int, number: int) -> None:
    """To a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def family(pid: int) -> list[int]:
    """A process and all that it has started, directly or not."""
    return [pid, *chain.from_iterable(map(family, _children(pid)))]


def _children(pid: int) -> list[int]:
    # A process may end while it is looked at, and a thread of it as well.
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, (task / "children").read_text().split())
    return found


Tell = Callable[[str], None]
