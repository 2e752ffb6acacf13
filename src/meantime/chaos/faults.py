"""What happens to the system during a switch: each fault is a small story about one process."""

import asyncio
import os
import signal
from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from meantime.stack.control import status
from meantime.stack.folder import Folder


@dataclass(frozen=True, slots=True)
class FaultSite:
    """The running stack, as someone sees it who wants to break it. `freeze_for` is longer than a session lives."""

    folder: Folder
    fault_file: Path
    freeze_for: float

    def pid(self, name: str) -> int | None:
        return next((process.pid for process in status(self.folder).processes if process.name == name), None)

    def send(self, name: str, number: int) -> int | None:
        pid = self.pid(name)
        if pid is not None:
            os.kill(pid, number)
        return pid

    def plan(self, point: str, action: str) -> None:
        """The next node that passes this point of a switch kills or stops itself."""
        self.fault_file.write_text(f"{point} {action}")

    def mend(self, names: Iterable[str]) -> None:
        """A fault that has not happened will not happen any more; whoever is frozen goes on."""
        self.fault_file.unlink(missing_ok=True)
        for name in names:
            self.send(name, signal.SIGCONT)

    async def revive_stopped(self, name: str) -> None:
        await asyncio.sleep(self.freeze_for)
        self.send(name, signal.SIGCONT)


Happen = Callable[[FaultSite, str, str, float], Coroutine[Any, Any, None]]
"""Takes the site, the initiator's name, a bystander's name and a delay in seconds."""


@dataclass(frozen=True, slots=True)
class Fault:
    name: str
    happen: Happen
    plan: tuple[str, str] | None = None
    """A point of the switch and what the initiator does to itself there."""


async def nothing(site: FaultSite, initiator: str, bystander: str, delay: float) -> None:
    """A switch in peace, for comparison."""


async def kill_bystander(site: FaultSite, initiator: str, bystander: str, delay: float) -> None:
    await asyncio.sleep(delay)
    site.send(bystander, signal.SIGKILL)


async def freeze_bystander(site: FaultSite, initiator: str, bystander: str, delay: float) -> None:
    """It wakes up with publishes in flight, long after its session has ended."""
    site.send(bystander, signal.SIGSTOP)
    await site.revive_stopped(bystander)


async def freeze_for_a_moment(site: FaultSite, initiator: str, bystander: str, delay: float) -> None:
    """The switch goes on without it. It wakes up in the same session with publishes in flight, before, while or after the
    timeline is closed: as the delay will have it."""
    await asyncio.sleep(delay)
    site.send(bystander, signal.SIGSTOP)
    await asyncio.sleep(0.2 + 6 * delay)
    site.send(bystander, signal.SIGCONT)


async def kill_initiator(site: FaultSite, initiator: str, bystander: str, delay: float) -> None:
    await asyncio.sleep(delay)
    site.send(initiator, signal.SIGKILL)


async def kill_zookeeper(site: FaultSite, initiator: str, bystander: str, delay: float) -> None:
    await asyncio.sleep(delay)
    site.send("zookeeper", signal.SIGKILL)


async def revive_initiator(site: FaultSite, initiator: str, bystander: str, delay: float) -> None:
    """It has stopped itself in the middle of the switch; by the time it goes on, others have concluded it."""
    await site.revive_stopped(initiator)


FAULTS: tuple[Fault, ...] = (
    Fault("initiator killed after the commit", nothing, ("committed", "kill")),
    Fault("a node frozen beyond its session", freeze_bystander),
    Fault("initiator killed before the commit", nothing, ("sealed", "kill")),
    Fault("ZooKeeper killed", kill_zookeeper),
    Fault("a node killed", kill_bystander),
    Fault("initiator frozen between seal and commit", revive_initiator, ("sealed", "stop")),
    Fault("initiator killed with the lock", nothing, ("locked", "kill")),
    Fault("initiator killed at any moment", kill_initiator),
    Fault("initiator frozen while it seals", revive_initiator, ("acknowledged", "stop")),
    Fault("a node frozen for a moment", freeze_for_a_moment),
    Fault("none", nothing),
)
