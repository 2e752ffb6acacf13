"""All kinds of faults: what each needs is set up before the stack starts, or the kind is left out, and that is said."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from meantime.chaos.injecting.clocks import clocks, why_not_clocks
from meantime.chaos.injecting.disks import DiskTrouble, disks
from meantime.chaos.injecting.mounts import why_not
from meantime.chaos.injecting.partitions import partitions, why_not_partitions
from meantime.chaos.injecting.plan import FaultKind, PlannedFault
from meantime.chaos.injecting.power import PowerCut, power
from meantime.chaos.injecting.signals import Freezing, Killing
from meantime.chaos.injecting.stage import Stage
from meantime.stack.model import StackOptions

Workers = Callable[[], dict[str, int]]


class Injector(Protocol):
    async def inject(self, fault: PlannedFault) -> str | None: ...


class Setup(Protocol):
    """What a kind of fault needs: a change of how the stack is started, and then an injector on it."""

    options: StackOptions

    def injector(self, stage: Stage) -> Injector: ...


@dataclass(frozen=True, slots=True)
class Injectors:
    options: StackOptions
    kinds: tuple[FaultKind, ...]
    left_out: tuple[str, ...]
    setups: dict[FaultKind, Setup]

    async def inject(self, stage: Stage, workers: Workers, fault: PlannedFault) -> str | None:
        """What was done; `None` if there was nobody to do it to."""
        if fault.kind == "kill":
            return await Killing(stage, workers).inject(fault)
        if fault.kind == "freeze":
            return await Freezing(stage, workers).inject(fault)
        return await self.setups[fault.kind].injector(stage).inject(fault)

    def key(self, stage: Stage) -> str | None:
        return stage.folder.first_key.read_text() if self.options.auth else None


SETUPS: dict[FaultKind, Callable[[StackOptions, Path], AbstractContextManager[Setup]]] = {
    # A disk of its own for each service lies on that of the machine.
    "power": power,
    "disk": disks,
    "clock": clocks,
    "partition": partitions,
}
ORDER: tuple[FaultKind, ...] = ("kill", "freeze", "power", "disk", "clock", "partition")
WHY_NOT: dict[FaultKind, Callable[[], str | None]] = {
    "power": why_not,
    "disk": why_not,
    "clock": why_not_clocks,
    "partition": why_not_partitions,
}


@contextmanager
def open_injectors(options: StackOptions, folder: Path, kinds: Sequence[FaultKind]) -> Iterator[Injectors]:
    possible: list[FaultKind] = []
    left_out: list[str] = []
    setups: dict[FaultKind, Setup] = {}
    with ExitStack() as opened:
        for kind in sorted(kinds, key=ORDER.index):
            if kind in ("kill", "freeze"):
                possible.append(kind)
            elif why := WHY_NOT[kind]():
                left_out.append(f"{kind}: {why}")
            else:
                setups[kind] = opened.enter_context(SETUPS[kind](options, folder))
                options = setups[kind].options
                possible.append(kind)
        match setups.get("power"), setups.get("disk"):
            case PowerCut() as cut, DiskTrouble() as trouble:
                cut.inner = tuple(trouble.mounts.values())
        yield Injectors(options, tuple(possible), tuple(left_out), setups)
