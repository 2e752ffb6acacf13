"""Work in steps of a few milliseconds: a generator that yields between them, and returns what it has made.

The event loop is held for a few milliseconds at a time, however much there is to do, and by one piece of such work only,
however many wait; what is small is done at once.
"""

import asyncio
import time
from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

Steps = Generator[None, None, Made]
AT_ONCE_BYTES = 64 * 1024
"""What is no larger is not worth a pause."""
STEP_ITEMS = 250
STEP_BYTES = 64 * 1024
HOLD_FOR = 0.005


def at_once(steps: Steps[Made]) -> Made:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made


class Turns:
    """Those who have much to do take turns, in the order in which they asked."""

    def __init__(self) -> None:
        self._turn = asyncio.Lock()

    async def take(self, steps: Steps[Made]) -> Made:
        """Everybody else has a turn after some milliseconds of work."""
        while True:
            async with self._turn:
                until = time.perf_counter() + HOLD_FOR
                try:
                    while time.perf_counter() < until:
                        next(steps)
                except StopIteration as end:
                    made: Made = end.value
                    return made
                await asyncio.sleep(0)


def slices(items: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
    """As many as a step has time for, each with the index of its first."""
    first, count = 0, len(items)
    while first < count:
        some = items[first : first + STEP_ITEMS]
        while len(some) > 1 and sum(map(len, some)) > STEP_BYTES:
            some = some[: len(some) // 2]
        yield first, some
        first += len(some)


def let_go(items: list[Item]) -> Steps[None]:
    """To let go of very many takes its time too."""
    while items:
        del items[-STEP_ITEMS:]
        yield
