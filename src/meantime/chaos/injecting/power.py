"""The power cut: the file system of the whole stack stops as it is on the disk, everybody is gone, and all starts again.

Services that have a disk of their own, for trouble with it, lose what is not on that, too.
"""

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from meantime.chaos.injecting.mounts import LoopMount
from meantime.chaos.injecting.plan import PlannedFault
from meantime.chaos.injecting.stage import Stage
from meantime.stack.model import StackOptions

MEGABYTES = 8000
"""The file has holes: it takes what is written."""


class PowerCut:
    def __init__(self, options: StackOptions, mount: LoopMount) -> None:
        self.options = options
        self._mount = mount
        self.inner: Sequence[LoopMount] = ()

    def injector(self, stage: Stage) -> "PowerInjector":
        return PowerInjector(stage, [self._mount, *self.inner])


@contextmanager
def power(options: StackOptions, folder: Path) -> Iterator[PowerCut]:
    mount = LoopMount(folder / "machine.img", Path(options.data), MEGABYTES)
    mount.make()
    try:
        yield PowerCut(options, mount)
    finally:
        # The logs outlive the disk that they were on.
        with suppress(OSError, shutil.Error):
            shutil.copytree(Path(options.data) / "logs", folder / "logs", dirs_exist_ok=True)
        mount.drop()


class PowerInjector:
    def __init__(self, stage: Stage, mounts: Sequence[LoopMount]) -> None:
        self._stage = stage
        self._mounts = mounts

    async def inject(self, fault: PlannedFault) -> str | None:
        await asyncio.to_thread(self._cut)
        return "cut the power of the machine"

    def _cut(self) -> None:
        everybody = self._stage.everybody()
        for mount in self._mounts:
            mount.cut_power()
        self._stage.end_all(everybody)
        for mount in reversed(self._mounts):
            mount.unmount()
        for mount in self._mounts:
            mount.mount()
        self._stage.up()
