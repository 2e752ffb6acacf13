"""Items from files and standard input: NDJSON or one JSON array, cut into batches.

A file is read line by line, so its size does not matter; only an array has to fit into memory. From a pipe, a batch that is
not full is handed on after a short while: `tail -f x | meantime publish …` publishes at once.
"""

import queue
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec
import typer

from meantime.errors import Invalid

LINGER = 0.1
END = None


@dataclass(frozen=True, slots=True)
class InputLine:
    """One JSON text and where it stood; `fault` is what was found wrong before it was read."""

    place: str
    text: bytes
    fault: str = ""


def items(files: Sequence[Path]) -> Iterator[InputLine]:
    """Everything in the files, in order; standard input if there are none or one is called `-`."""
    for file in files or [Path("-")]:
        if str(file) == "-":
            yield from parse(sys.stdin.buffer, "stdin")
            continue
        try:
            with file.open("rb") as opened:
                yield from parse(opened, str(file))
        except OSError as error:
            raise Invalid(f"cannot read {file}: {error.strerror}") from error


def parse(source: BinaryIO, name: str) -> Iterator[InputLine]:
    lines = enumerate(source, start=1)
    for number, line in lines:
        text = line.strip()
        if not text:
            continue
        if text.startswith(b"[") and number == 1:
            yield from _array(line + source.read(), name)
            return
        yield InputLine(f"{name}:{number}", text)


def _array(text: bytes, name: str) -> Iterator[InputLine]:
    try:
        entries = msgspec.json.decode(text, type=list[msgspec.Raw])
    except msgspec.MsgspecError as error:
        raise Invalid(f"{name} begins like a JSON array and is none: {error}") from error
    for number, entry in enumerate(entries, start=1):
        yield InputLine(f"{name}[{number}]", bytes(entry))


def size(batch: Sequence[InputLine]) -> int:
    """Bytes of the input that a batch stood in, its line feeds included."""
    return sum(len(item.text) + 1 for item in batch)


def batches(source: Iterable[InputLine], size: int, linger: float = LINGER) -> Iterator[list[InputLine]]:
    """Batches of `size`, or fewer when the source pauses for longer than `linger` seconds."""
    arrived: queue.Queue[InputLine | BaseException | None] = queue.Queue(maxsize=4 * size)
    threading.Thread(target=_pump, args=(source, arrived), daemon=True).start()
    batch: list[InputLine] = []
    while True:
        try:
            item = arrived.get(timeout=linger if batch else None)
        except queue.Empty:
            yield batch
            batch = []
            continue
        if not isinstance(item, InputLine):
            break
        batch.append(item)
        if len(batch) == size:
            yield batch
            batch = []
    if batch:
        yield batch
    if isinstance(item, BaseException):
        raise item


def _pump(source: Iterable[InputLine], arrived: "queue.Queue[InputLine | BaseException | None]") -> None:
    try:
        for item in source:
            arrived.put(item)
    except BaseException as error:
        arrived.put(error)
    else:
        arrived.put(END)


def one_or_three(replicas: int | None) -> int | None:
    """How many of each service a stack can have; two would be down with either of them."""
    if replicas not in (None, 1, 3):
        raise typer.BadParameter(f"a stack has 1 or 3 of each service, not {replicas}")
    return replicas
