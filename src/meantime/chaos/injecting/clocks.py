"""Wrong clocks: processes of Meantime run under libfaketime, each with a file that says by how much its clock is wrong.

Only the wall clock can be set, as on a real machine; what measures durations goes on.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import msgspec

from meantime.chaos.injecting.plan import PlannedFault
from meantime.chaos.injecting.stage import Stage
from meantime.stack.model import StackOptions

TIMERS = ("oscillator-1", "oscillator-2", "dispatcher-1")


def library() -> Path | None:
    """libfaketime as PyPI has it: that of some distributions does not work with Python."""
    spec = find_spec("libfaketime")
    if spec is None or not spec.submodule_search_locations:
        return None
    found = sorted(Path(spec.submodule_search_locations[0]).rglob("libfaketime*.so*"))
    return found[0] if found else None


def why_not_clocks() -> str | None:
    return None if library() else "libfaketime is not installed: `pip install libfaketime`"


class WrongClocks:
    def __init__(self, options: StackOptions, folder: Path) -> None:
        self._folder = folder
        nodes = [f"node-{number}" for number in range(1, (options.nodes or 0) + 1)]
        names = [*nodes, *(TIMERS if options.timers else ())]
        for name in names:
            self.set(name, "+0")
        settings = {name: self._settings(name) for name in names}
        self.options = msgspec.structs.replace(options, process_env={**options.process_env, **settings})

    def _settings(self, name: str) -> dict[str, str]:
        return {
            "LD_PRELOAD": str(library()),
            "FAKETIME_TIMESTAMP_FILE": str(self._folder / name),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def set(self, name: str, seconds: str) -> None:
        """By so many seconds from the right time, at once."""
        new = self._folder / f"{name}.new"
        new.write_text(f"{seconds}\n")
        new.rename(self._folder / name)

    def injector(self, stage: Stage) -> "ClockInjector":
        return ClockInjector(self)


@contextmanager
def clocks(options: StackOptions, folder: Path) -> Iterator[WrongClocks]:
    home = folder / "clocks"
    home.mkdir(exist_ok=True)
    yield WrongClocks(options, home)


class ClockInjector:
    def __init__(self, clocks: WrongClocks) -> None:
        self._clocks = clocks

    async def inject(self, fault: PlannedFault) -> str | None:
        self._clocks.set(fault.target, fault.detail)
        try:
            await asyncio.sleep(fault.lasts)
        finally:
            self._clocks.set(fault.target, "+0")
        return f"set the clock of {fault.target} by {fault.detail} s"
