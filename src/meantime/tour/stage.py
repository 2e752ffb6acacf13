"""Where the tour plays: a stack in a temporary folder, a voice that tells the story, and a way to be sure.

`check` is what makes the tour a test: a claim that does not hold ends it with an exit code that is not 0.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
from rich.console import Console
from rich.table import Table

from meantime.errors import MeantimeError
from meantime.stack.control import look
from meantime.stack.folder import Folder
from meantime.stack.logfiles import last_lines
from meantime.stack.model import Event, Places
from meantime.stack.reports import line
from meantime.stack.services.nodes import environment

T = TypeVar("T")


class TourFailed(MeantimeError):
    """Something that the tour claims did not happen."""

    code = "tour_failed"


@dataclass(slots=True)
class Voice:
    """Tells the story. Colours only on a terminal."""

    console: Console = field(default_factory=lambda: Console(highlight=False))
    chapters: int = 0

    def chapter(self, title: str) -> None:
        self.chapters += 1
        self.console.print()
        self.console.rule(f"[bold]{self.chapters}. {title}", align="left")

    def say(self, text: str) -> None:
        self.console.print(text)

    def fact(self, text: str) -> None:
        self.console.print(f"  [green]✓[/] {text}")

    def event(self, event: Event) -> None:
        """What happens to the stack: whoever is ready is worth a line, whoever takes long is, too."""
        if event.kind == "ready":
            self.fact(line(event))
        elif event.kind == "waiting":
            self.console.print(f"  … {line(event)}", style="dim", markup=False)
        elif event.kind not in ("starting", "up"):
            self.console.print(f"  {line(event)}", markup=False)

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        table = Table(*columns, box=None, pad_edge=True, header_style="dim")
        for row in rows:
            table.add_row(*(str(cell) for cell in row))
        self.console.print(table)

    @contextmanager
    def waiting(self, text: str) -> Iterator[None]:
        if self.console.is_terminal:
            with self.console.status(text):
                yield
        else:
            self.console.print(f"  … {text}")
            yield


@dataclass(frozen=True, slots=True)
class TourStage:
    data: Path
    places: Places
    voice: Voice
    http: httpx.Client

    @property
    def urls(self) -> list[str]:
        return [node.url for node in self.places.nodes]

    def pid_of(self, process: str) -> int:
        """The present process id; another one after a restart."""
        return next(row.mark.pid for row in look(Folder(self.data)).alive if row.name == process and row.mark)

    def kill(self, process: str) -> None:
        os.kill(self.pid_of(process), signal.SIGKILL)

    def is_ready(self, process: str) -> bool:
        """Whether the supervisor says so. Its own end would be the end of the tour, and its log says why."""
        folder = Folder(self.data)
        if not folder.is_locked():
            raise TourFailed(f"the stack has ended:\n{last_lines(folder.logs / 'supervisor.log')}")
        return any(row.name == process and row.state == "ready" for row in look(folder).alive)

    def nodes(self, url: str | None = None) -> dict[str, dict[str, Any]]:
        answer = self.http.get(f"{url or self.urls[0]}/nodes")
        return {node["id"]: node for node in answer.json()["nodes"]}

    def until(self, what: str, look: Callable[[], T | None], within: float = 30.0) -> tuple[T, float]:
        """Wait until `look` returns something true; what it returned, and the seconds that it took."""
        started = time.monotonic()
        with self.voice.waiting(what):
            while time.monotonic() - started < within:
                try:
                    found = look()
                except (httpx.HTTPError, KeyError, StopIteration):
                    found = None
                if found:
                    return found, time.monotonic() - started
                time.sleep(0.05)
        raise TourFailed(f"waited {within:.0f} s in vain for {what}")

    def check(self, holds: bool, claim: str) -> None:
        if not holds:
            raise TourFailed(f"this should hold and does not: {claim}")
        self.voice.fact(claim)

    @contextmanager
    def extra_node(self, id: str, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
        """A node beside those of the stack, for as long as the block runs."""
        command = [sys.executable, "-m", "meantime", "node", "--id", id, "--port", "0", *flags]
        with (self.data / "logs" / f"{id}.log").open("wb") as log:
            process = subprocess.Popen(command, env=os.environ | environment(self.places), stdout=log, stderr=log)
            try:
                yield process
            finally:
                process.terminate()
                process.wait(timeout=30)
