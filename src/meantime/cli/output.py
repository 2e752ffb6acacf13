"""What commands print. Tables and colours only on a terminal; elsewhere tab-separated lines, and JSON where asked for.

A reader that goes away (`meantime tail orders | head -1`) ends the command quietly.
"""

import io
import os
import select
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
import typer

from meantime.cli.exit_codes import READER_GONE


class _ReaderWatch(io.FileIO):
    """Standard output that ends the command when its reader has gone, whoever writes."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except BrokenPipeError:
            drop_output()
            raise SystemExit(READER_GONE) from None


def watch_the_reader() -> None:
    """From now on no write to a closed pipe ends in a traceback."""
    raw = io.BufferedWriter(_ReaderWatch(sys.stdout.fileno(), "wb", closefd=False))
    sys.stdout = io.TextIOWrapper(raw, sys.stdout.encoding, sys.stdout.errors, line_buffering=on_terminal())


def on_terminal() -> bool:
    return sys.stdout.isatty()


def print_json(value: Any) -> None:
    """A document for scripts."""
    text = msgspec.json.format(msgspec.json.encode(value, order="deterministic"), indent=2)
    print_line(text.decode())


def print_json_line(value: Any) -> None:
    """One line of a stream for scripts."""
    print_line(msgspec.json.encode(value).decode())


def print_line(text: str) -> None:
    with _reader():
        sys.stdout.write(text + "\n")
        sys.stdout.flush()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    cells = [["" if cell is None else str(cell) for cell in row] for row in rows]
    if not on_terminal():
        print_line("\n".join("\t".join(row) for row in [list(columns), *cells]))
        return
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False, header_style="bold")
    for row in cells:
        table.add_row(*row)
    print_rich(table)


def print_rich(renderable: Any) -> None:
    from rich.console import Console

    with _reader():
        Console(highlight=False).print(renderable)


def say(text: str) -> None:
    """Something for people, beside the output proper."""
    typer.echo(text, err=True)


@contextmanager
def _reader() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        drop_output()
        raise typer.Exit(READER_GONE) from None


def end_when_the_reader_goes() -> None:
    """For commands that may print nothing for long: end as soon as the pipe is closed, not at the next line."""
    if not _into_pipe():
        return
    gone = threading.Event()

    def leave(number: int, frame: object) -> None:
        raise typer.Exit(READER_GONE) if gone.is_set() else KeyboardInterrupt

    signal.signal(signal.SIGINT, leave)
    threading.Thread(target=_interrupt_when_nobody_reads, args=(sys.stdout.fileno(), gone), daemon=True).start()


def _into_pipe() -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(sys.stdout.fileno()).st_mode)
    except OSError:
        return False


def _interrupt_when_nobody_reads(descriptor: int, gone: threading.Event) -> None:
    poll = select.poll()
    poll.register(descriptor, 0)
    poll.poll()
    drop_output()
    gone.set()
    os.kill(os.getpid(), signal.SIGINT)


def drop_output() -> None:
    """Nobody reads any more: what is left in buffers goes nowhere, without complaint at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
