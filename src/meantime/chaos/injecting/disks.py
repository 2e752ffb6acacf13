"""Disks that are full for a while, or turn read-only: each service has a small file system of its own for that."""

import asyncio
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from meantime.chaos.injecting.mounts import LoopMount
from meantime.chaos.injecting.plan import PlannedFault
from meantime.chaos.injecting.stage import Stage, family, send
from meantime.chaos.injecting.victims import resolve
from meantime.errors import StackError
from meantime.stack import processes
from meantime.stack.model import StackOptions
from meantime.stack.plan import cluster_names, members

MEGABYTES = 900


class DiskTrouble:
    def __init__(self, options: StackOptions, folder: Path) -> None:
        self.options = options
        replicas = options.replicas or 1
        clusters = cluster_names(options.kafka or 1)
        names = [name for service in ("zookeeper", "postgres", *clusters) for name in members(service, replicas)]
        self.mounts = {name: LoopMount(folder / f"{name}.img", Path(options.data) / name, MEGABYTES) for name in names}

    def injector(self, stage: Stage) -> "DiskInjector":
        return DiskInjector(stage, self.mounts)


@contextmanager
def disks(options: StackOptions, folder: Path) -> Iterator[DiskTrouble]:
    trouble = DiskTrouble(options, folder)
    try:
        for mount in trouble.mounts.values():
            mount.make()
        yield trouble
    finally:
        for mount in trouble.mounts.values():
            mount.drop()


class DiskInjector:
    def __init__(self, stage: Stage, mounts: dict[str, LoopMount]) -> None:
        self._stage = stage
        self._mounts = mounts

    async def inject(self, fault: PlannedFault) -> str | None:
        name = await asyncio.to_thread(resolve, self._stage, fault.target)
        if name is None:
            return None
        mount = self._mounts[name]
        if fault.detail == "full":
            await self._fill(mount, fault.lasts)
        else:
            await self._read_only(name, mount, fault.lasts)
        return f"disk of {name} {fault.detail}"

    async def _fill(self, mount: LoopMount, lasts: float) -> None:
        await asyncio.to_thread(mount.fill)
        try:
            await asyncio.sleep(lasts)
        finally:
            await asyncio.to_thread(mount.make_room)

    async def _read_only(self, name: str, mount: LoopMount, lasts: float) -> None:
        await asyncio.to_thread(mount.make_read_only)
        try:
            await asyncio.sleep(lasts)
        finally:
            await asyncio.to_thread(self._mount_again, name, mount)

    def _mount_again(self, name: str, mount: LoopMount) -> None:
        """As whoever repairs a machine does: nobody may work there meanwhile, and nobody may be started there."""
        supervisor = self._stage.folder.read().supervisor
        if supervisor is None:
            raise StackError("the stack has no supervisor")
        processes.send(supervisor, signal.SIGSTOP)
        try:
            _end(self._stage, name)
            mount.unmount()
            mount.mount()
        finally:
            processes.send(supervisor, signal.SIGCONT)


def _end(stage: Stage, name: str) -> None:
    row = stage.processes().get(name)
    roots = [pid for pid in (row.pid, row.server_pid) if pid] if row else []
    known = [processes.identity_of(pid) for root in roots for pid in family(root)]
    for one in known:
        if one is not None:
            send(one.pid, signal.SIGKILL)
    for one in known:
        if one is not None:
            processes.wait_gone(one, 10.0)
