"""An agent of Patroni, also for root: `python -m meantime.stack.services.patroni_agent CONFIG [UID GID]`.

PostgreSQL refuses to be root, and Patroni starts it; so the agent itself gives root up. Its account may not be allowed to
walk to Python's files, which can lie in root's home. Those folders are opened before, and everything that is imported later
is found through what is open. Patroni starts its servers through a new Python, which that account could not run; here a
shell does it.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from meantime.stack.model import Account

_START = 'exec 3>&1 >&2; "$@" 3>&- & echo $! >&3'
"""Starts a server that is not our child, and writes its pid."""


def agent_command(config: str, account: Account | None) -> tuple[str, ...]:
    ids = (str(account.uid), str(account.gid)) if account else ()
    return (sys.executable, "-m", "meantime.stack.services.patroni_agent", config, *ids)


def main(config: str, ids: Sequence[int]) -> None:
    if ids:
        _keep_open(sys.prefix, sys.base_prefix, *sys.path)
        os.setgroups([])
        os.setgid(ids[1])
        os.setuid(ids[0])
        from patroni.postgresql import postmaster

        postmaster.multiprocessing = SimpleNamespace(get_context=lambda _: _ShellContext)
    from patroni.__main__ import main as run

    sys.argv = ["patroni", config]
    run()


def _keep_open(*folders: str) -> None:
    """Let everything that Python finds below these folders be found through them, wherever they are."""
    opened = {folder: f"/proc/self/fd/{os.open(folder, os.O_RDONLY)}" for folder in set(folders) if os.path.isdir(folder)}

    def through(path: str) -> str:
        above = max((folder for folder in opened if f"{path}/".startswith(f"{folder}/")), key=len, default=None)
        return path if above is None else opened[above] + path[len(above) :]

    sys.path[:] = map(through, sys.path)
    for module in list(sys.modules.values()):
        if isinstance(known := getattr(module, "__path__", None), list):
            known[:] = map(through, known)


class _ShellContext:
    """As much of `multiprocessing` as Patroni uses to start a server and to learn its pid."""

    @staticmethod
    def Pipe(_duplex: bool) -> tuple[Any, Any]:  # noqa: N802 - as there
        pids: list[int | None] = []
        end = SimpleNamespace(recv=pids.pop, send=pids.append)
        return end, end

    class Process:
        def __init__(self, target: Callable[..., None], args: tuple[Any, list[str], dict[str, str]]) -> None:
            self._answer, self._command, self._environment = args

        def start(self) -> None:
            self._answer.send(_started(self._command, self._environment))

        def join(self) -> None:
            return None


def _started(command: Sequence[str], environment: dict[str, str]) -> int | None:
    shell = ["/bin/sh", "-c", _START, "sh", *command]
    done = subprocess.run(shell, env=environment, start_new_session=True, stdout=subprocess.PIPE, check=False)
    return int(done.stdout) if done.returncode == 0 and done.stdout.strip() else None


if __name__ == "__main__":
    main(sys.argv[1], [int(one) for one in sys.argv[2:]])
