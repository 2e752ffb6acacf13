"""Progress of long work, on standard error and only on a terminal; and its result."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from meantime.cli.instants import human
from meantime.cli.output import print_json, say
from meantime.errors import Invalid

#: Told after each batch: how many items, and how many bytes of the input they were.
Advance = Callable[[int, int], None]


@contextmanager
def progress(what: str, files: Sequence[Path]) -> Iterator[Advance]:
    """A bar over the bytes of the files, or a running count where their end is not known."""
    if not sys.stderr.isatty():
        yield lambda _items, _bytes: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = [TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[items]:,}"), TimeElapsedColumn()]
    with Progress(*columns, console=Console(stderr=True), transient=True, refresh_per_second=4) as bar:
        task = bar.add_task(what, total=_size(files), items=0)
        done = 0

        def advance(items: int, read_bytes: int) -> None:
            nonlocal done
            done += items
            bar.update(task, advance=read_bytes, items=done)

        yield advance


def _size(files: Sequence[Path]) -> int | None:
    if not files or any(not file.is_file() for file in files):
        return None
    return sum(file.stat().st_size for file in files)


@dataclass
class Rejects:
    """Refused lines: named on standard error, and kept in a file if one was given."""

    file: Path | None = None
    count: int = 0
    _kept: IO[bytes] | None = field(default=None, repr=False)

    def __enter__(self) -> Self:
        try:
            self._kept = self.file.open("wb") if self.file else None
        except OSError as error:
            raise Invalid(f"cannot write {self.file}: {error.strerror}; give another file with --rejects") from error
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._kept:
            self._kept.close()

    def add(self, place: str, text: bytes, reason: str) -> None:
        self.count += 1
        say(f"rejected {place}: {reason}")
        if self._kept:
            self._kept.write(text + b"\n")


@dataclass
class Summary:
    """How much was done and how fast."""

    verb: str
    noun: str
    done: int = 0
    began: float = field(default_factory=time.monotonic)

    @contextmanager
    def reported_on_failure(self) -> Iterator[None]:
        """After a failure, say how far it went: it may have to be continued by hand."""
        try:
            yield
        except BaseException:
            if self.done:
                say(f"{self.verb} {self._counted} before it ended")
            raise

    def report(self, json: bool, **others: int) -> None:
        """`others` are what became of the rest, like `rejected=3`."""
        took = max(time.monotonic() - self.began, 1e-9)
        if json:
            print_json({self.verb: self.done, **others, "took_ms": round(took * 1000)})
            return
        rest = "".join(f", {count:,} {fate}" for fate, count in others.items() if count)
        say(f"{self.verb} {self._counted}{rest} in {human(took)} ({self.done / took:,.0f}/s)")

    @property
    def _counted(self) -> str:
        return f"{self.done:,} {self.noun}" if self.done != 1 else f"1 {self.noun.removesuffix('s')}"
