"""How events reach people: a live picture on a terminal, plain lines elsewhere, and always the log of the supervisor."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

import msgspec
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from meantime.stack.folder import Folder
from meantime.stack.logfiles import open_log
from meantime.stack.model import Event, Tell

_SENTENCES = {
    "starting": "{name}: starting",
    "waiting": "{name}: waiting for {detail}, {seconds:.1f} s so far",
    "ready": "{name}: ready{gap}{detail} after {seconds:.1f} s",
    "stopping": "{name}: stopping",
    "stopped": "{name}: stopped after {seconds:.1f} s",
    "up": "the stack is ready",
}


def line(event: Event) -> str:
    """The event as a sentence."""
    sentence = _SENTENCES.get(event.kind, "{name}: {detail}" if event.name else "{detail}")
    return sentence.format(**msgspec.structs.asdict(event), gap=" " if event.detail else "")


@contextmanager
def reporter(quiet: bool = False) -> Iterator[Tell]:
    """To standard error, so that standard output stays clean for what was asked for."""
    console = Console(stderr=True)
    if quiet:
        yield lambda _: None
    elif console.is_terminal:
        with _live(console) as tell:
            yield tell
    else:
        yield lambda event: print(line(event), file=sys.stderr, flush=True)


@contextmanager
def _live(console: Console) -> Iterator[Tell]:
    progress = Progress(
        SpinnerColumn(finished_text="[green]✓"), TextColumn("{task.description}"), TimeElapsedColumn(), console=console
    )
    rows: dict[str, TaskID] = {}

    def show(event: Event, done: bool = False) -> None:
        if event.name not in rows:
            rows[event.name] = progress.add_task(event.name, total=1)
        progress.update(rows[event.name], description=line(event).partition(", ")[0], completed=int(done))

    def tell(event: Event) -> None:
        if event.kind in ("fetching", "starting", "waiting"):
            progress.start()
            show(event)
        elif event.kind == "ready" and not event.detail:
            show(event, done=True)
        elif event.kind == "up":
            progress.stop()
        else:
            progress.console.print(line(event), highlight=False)

    try:
        yield tell
    finally:
        progress.stop()


@contextmanager
def logged(folder: Folder, tell: Tell) -> Iterator[Tell]:
    """The same, and written down in `logs/supervisor.log`."""
    with open_log(folder.logs / "supervisor.log") as log:

        def both(event: Event) -> None:
            at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            log.write(f"{at} {line(event)}\n".encode())
            log.flush()
            tell(event)

        yield both


def to_pipe(pipe: BinaryIO) -> Tell:
    """For a supervisor in the background: to whoever started it, for as long as they listen."""
    closed = False

    def tell(event: Event) -> None:
        nonlocal closed
        if closed:
            return
        try:
            pipe.write(msgspec.json.encode(event) + b"\n")
        except OSError:
            closed = True

    return tell


def from_pipe(pipe: BinaryIO) -> Iterator[Event]:
    for text in pipe:
        yield msgspec.json.decode(text, type=Event)
