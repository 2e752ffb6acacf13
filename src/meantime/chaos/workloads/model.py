"""What all workloads have in common: a site to work on, a record of when things went well, and a verdict."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from meantime.chaos.checks.model import Control, Finding
from meantime.stack.model import Places

SETTLE_WITHIN = 120.0


@dataclass(frozen=True, slots=True)
class Site:
    """Where the users work. `scratch` outlives every fault; `name` makes what they create their own."""

    places: Places
    data: Path
    scratch: Path
    name: str
    seed: int
    key: str | None = None

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.places.nodes]

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"} if self.key else {}

    def rng(self, who: str) -> random.Random:
        """Choices of one user: the same for the same seed, whatever others do."""
        return random.Random(f"{self.seed}/{who}")


@dataclass(slots=True)
class Progress:
    """When something went well, and how late what has an instant of its own came: seconds since 1970, and seconds."""

    at: list[float] = field(default_factory=list)
    late: list[tuple[float, float]] = field(default_factory=list)

    def note(self) -> None:
        self.at.append(time.time())


@dataclass(frozen=True, slots=True)
class WorkloadVerdict:
    findings: tuple[Finding, ...]
    controls: tuple[Control, ...]
    counts: dict[str, int]


class Workload(Protocol):
    """One capability in use."""

    name: str
    progress: Progress

    async def prepare(self) -> None: ...

    async def run(self, stop: asyncio.Event) -> None:
        """Use it until told to stop; then return once everybody has had an answer."""
        ...

    async def settle(self) -> None:
        """Wait, with a limit, until what is still under way has arrived."""
        ...

    def verdict(self, rng: random.Random) -> WorkloadVerdict: ...


async def until(holds: Callable[[], bool | Awaitable[bool]], within: float, every: float = 0.5) -> bool:
    """Whether it came true in time."""
    deadline = time.monotonic() + within
    while True:
        found = holds()
        if found if isinstance(found, bool) else await found:
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(every)


async def together(stop: asyncio.Event, works: Sequence[Callable[[asyncio.Event], Awaitable[None]]]) -> None:
    async with asyncio.TaskGroup() as group:
        for work in works:
            group.create_task(_as_coroutine(work, stop))


async def _as_coroutine(work: Callable[[asyncio.Event], Awaitable[None]], stop: asyncio.Event) -> None:
    await work(stop)


async def pause(stop: asyncio.Event, seconds: float) -> None:
    """Less if it is time to stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        pass
