"""Many callers, one statement: what arrives while a statement runs goes into the next one, together.

A call that finds a free lane starts at once. Under load the batches grow by themselves, and all calls of a batch share one
commit to disk. Each caller gets its own results; an error goes to all of them.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

from meantime.tasks import TaskSet

Item = TypeVar("Item")
Result = TypeVar("Result")


class _Call(Generic[Item, Result]):
    __slots__ = ("answer", "items", "weight")

    def __init__(self, items: Sequence[Item], weight: int, answer: "asyncio.Future[list[Result]]") -> None:
        self.items = items
        self.weight = weight
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Sizes(Generic[Item]):
    """How much fits into one statement: so many items, and so much weight."""

    most: int = 1000
    weigh: Callable[[Item], int] = lambda _: 0
    heaviest: int = 8 * 1024 * 1024

    def weight(self, items: Sequence[Item]) -> int:
        return sum(map(self.weigh, items))

    def pieces(self, items: Sequence[Item]) -> list[Sequence[Item]]:
        """Cut in order; an item that is too heavy alone is a piece of its own."""
        if len(items) <= self.most and self.weight(items) <= self.heaviest:
            return [items]
        cuts, start, weight = [0], 0, 0
        for index, item in enumerate(items):
            weight += self.weigh(item)
            if index > start and (index - start >= self.most or weight > self.heaviest):
                cuts.append(index)
                start, weight = index, self.weigh(item)
        return [items[begin:end] for begin, end in pairwise([*cuts, len(items)])]


class Merger(Generic[Item, Result]):
    """Runs `run(items)`, which answers with one result per item in the same order, at most `lanes` times at once."""

    def __init__(
        self,
        run: Callable[[Sequence[Item]], Awaitable[Sequence[Result]]],
        *,
        sizes: Sizes[Item] | None = None,
        lanes: int = 2,
    ) -> None:
        self._run = run
        self._sizes = sizes or Sizes()
        self._free_lanes = lanes
        self._waiting: deque[_Call[Item, Result]] = deque()
        self._tasks = TaskSet()

    async def submit(self, items: Sequence[Item]) -> list[Result]:
        """The results of these items; more than fit into a statement are run in pieces."""
        if len(items) == 1:
            return await self._enqueue(items)
        results: list[Result] = []
        for piece in self._sizes.pieces(items):
            results += await self._enqueue(piece)
        return results

    async def _enqueue(self, items: Sequence[Item]) -> list[Result]:
        call: _Call[Item, Result] = _Call(items, self._sizes.weight(items), asyncio.get_running_loop().create_future())
        self._waiting.append(call)
        if self._free_lanes:
            self._free_lanes -= 1
            self._tasks.start(self._drain(), name="merged statements")
        return await call.answer

    async def _drain(self) -> None:
        try:
            while self._waiting:
                await self._run_batch(self._take())
        finally:
            self._free_lanes += 1

    def _take(self) -> list[_Call[Item, Result]]:
        batch: list[_Call[Item, Result]] = []
        size = weight = 0
        while self._waiting:
            size += len(self._waiting[0].items)
            weight += self._waiting[0].weight
            if batch and (size > self._sizes.most or weight > self._sizes.heaviest):
                break
            batch.append(self._waiting.popleft())
        return batch

    async def _run_batch(self, batch: list[_Call[Item, Result]]) -> None:
        try:
            results = await self._run([item for call in batch for item in call.items])
        except asyncio.CancelledError:
            for call in batch:
                call.answer.cancel()
            raise
        except Exception as error:
            for call in batch:
                if not call.answer.done():
                    call.answer.set_exception(error)
            return
        start = 0
        for call in batch:
            if not call.answer.done():
                call.answer.set_result(list(results[start : start + len(call.items)]))
            start += len(call.items)
