"""What the machine itself did meanwhile: a process that only sleeps and writes, and notes when either took too long.

Beside a measurement of lateness it tells whether a late message is the broker's doing. It runs until its standard input
ends, and then prints what it saw: for each kind the durations beyond the plan, with the instants at which they began.
"""

import asyncio
import os
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

WAKE_EVERY = 0.005
WRITE_EVERY = 0.1
"""Seldom enough to be no load itself: what the database writes waits for what is written here."""
Sample = tuple[float, float]
"""When it began, in seconds of the wall clock, and how many milliseconds it took too long."""


class Seen(msgspec.Struct, frozen=True):
    wakes: list[Sample]
    writes: list[Sample]


@dataclass(frozen=True)
class Pauses:
    """Spans of the wall clock, in milliseconds, in which the machine kept everybody waiting."""

    seen: Seen
    spans: Sequence[tuple[float, float]]

    @classmethod
    def of(cls, seen: Seen, wake_ms: float = 5.0, write_ms: float = 20.0) -> "Pauses":
        long = [(at, took) for at, took in seen.wakes if took > wake_ms]
        long += [(at, took) for at, took in seen.writes if took > write_ms]
        return cls(seen, sorted((at * 1000, at * 1000 + took) for at, took in long))

    @classmethod
    def together(cls, several: Sequence["Pauses"]) -> "Pauses":
        wakes = [one for pauses in several for one in pauses.seen.wakes]
        writes = [one for pauses in several for one in pauses.seen.writes]
        return cls.of(Seen(wakes, writes))

    def within(self, begin_ms: float, end_ms: float) -> float:
        """How many milliseconds of this span they take; what overlaps counts once."""
        total, until = 0.0, begin_ms
        for begin, end in self.spans:
            total += max(0.0, min(end, end_ms) - max(begin, until))
            until = max(until, end)
        return total

    def __str__(self) -> str:
        return f"wake-ups late by {_summary(self.seen.wakes)}, 4 KiB to disk in {_summary(self.seen.writes)}"


def _summary(samples: Sequence[Sample]) -> str:
    took = sorted(one for _, one in samples)
    return f"p99 {took[len(took) * 99 // 100]:.1f} worst {took[-1]:.0f} ms" if took else "–"


@asynccontextmanager
async def watched() -> AsyncIterator[list[Pauses]]:
    """Watch the machine during the block; afterwards the list has what was seen."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(sys.executable, __file__, stdin=pipe, stdout=pipe)
    found: list[Pauses] = []
    try:
        yield found
    finally:
        answer, _ = await process.communicate(b"")
        found.append(Pauses.of(msgspec.json.decode(answer, type=Seen)))


async def calm(idle: float = 0.9, within: float = 30.0) -> None:
    """Wait until the machine has little to do: servers that have just started are still busy with themselves."""
    give_up_at = time.monotonic() + within
    before = _ticks()
    while time.monotonic() < give_up_at:
        await asyncio.sleep(1.0)
        now = _ticks()
        if now is None or before is None or now[0] - before[0] >= idle * (now[1] - before[1]):
            return
        before = now


def _ticks() -> tuple[int, int] | None:
    """How long the processors were idle since the machine started, and how long in all; None where nobody tells."""
    try:
        numbers = [int(number) for number in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except OSError:
        return None
    return numbers[3] + numbers[4], sum(numbers)


def _sleep_on(wakes: list[Sample], done: threading.Event) -> None:
    while not done.is_set():
        due, due_wall = time.perf_counter() + WAKE_EVERY, time.time() + WAKE_EVERY
        time.sleep(WAKE_EVERY)
        wakes.append((due_wall, (time.perf_counter() - due) * 1000))


def _write_on(writes: list[Sample], done: threading.Event) -> None:
    with tempfile.TemporaryFile() as file:
        while not done.wait(WRITE_EVERY):
            began, began_wall = time.perf_counter(), time.time()
            os.pwrite(file.fileno(), os.urandom(4096), 0)
            os.fdatasync(file.fileno())
            writes.append((began_wall, (time.perf_counter() - began) * 1000))


def main() -> None:
    wakes: list[Sample] = []
    writes: list[Sample] = []
    done = threading.Event()
    threads = [
        threading.Thread(target=_sleep_on, args=(wakes, done)),
        threading.Thread(target=_write_on, args=(writes, done)),
    ]
    for thread in threads:
        thread.start()
    sys.stdin.read()
    done.set()
    for thread in threads:
        thread.join()
    sys.stdout.buffer.write(msgspec.json.encode(Seen(wakes, writes)))


if __name__ == "__main__":
    main()
