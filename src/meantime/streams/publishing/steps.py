"""Work in steps of a few milliseconds: a generator that yields between them, and returns what it has made.

The event loop is held by one step at a time, however much there is to do; what is small is done at once.
"""

import asyncio
from collections.abc import Generator, Iterator, Sequence
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")

Steps = Generator[None, None, Made]
STEP_ITEMS = 500


def at_once(steps: Steps[Made]) -> Made:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made


async def with_pauses(steps: Steps[Made]) -> Made:
    """Everybody else has a turn after each step."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            made: Made = end.value
            return made
        await asyncio.sleep(0)


def slices(items: Sequence[Item]) -> Iterator[tuple[int, Sequence[Item]]]:
    """As many as a step has time for, each with the index of its first."""
    for first in range(0, len(items), STEP_ITEMS):
        yield first, items[first : first + STEP_ITEMS]
