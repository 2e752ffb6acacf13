"""Background tasks: one way to run them, and to end them for certain. Every failure is logged; what has to go on after one
is supervised, see `supervision`.

A cancellation can get lost. Until Python 3.12 `asyncio.wait_for` drops one that comes at the very moment at which the thing
it waits for is there, and the pool of database connections waits like that. Waiting for such a task would never end, so it
is cancelled again.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Generic, TypeVar

import structlog

from meantime.errors import Unavailable

log = structlog.get_logger(__name__)

Answer = TypeVar("Answer")

AGAIN_AFTER = 5.0
"""Seconds between cancellations; longer than a task needs to clean up."""


async def end(*tasks: "asyncio.Future[Any]") -> list[Any]:
    """Cancel them, and return when all have ended: what came of each, or its exception."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_AFTER)
    return await asyncio.gather(*tasks, return_exceptions=True)


def start(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
    """A task whose failure is logged when it happens. The caller keeps it and ends it."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_report_failure)
    return task


def _report_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("background_task_failed", task=task.get_name(), exc_info=error)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Run `work` beside the block and cancel it at the end. `work` should handle its errors and never return; if it fails
    nevertheless, that is logged when it happens."""
    task = start(work, name)
    try:
        yield task
    finally:
        await end(task)


class TaskSet:
    """The tasks that one owner has started: each is kept until it is done, and all end with their owner."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        task = start(work, name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def __len__(self) -> int:
        return len(self._tasks)

    def cancel(self) -> None:
        """Without waiting for their end."""
        for task in self._tasks:
            task.cancel()

    async def end(self) -> None:
        await end(*self._tasks)

    async def finished(self) -> None:
        """Wait until all that were started by now are done."""
        await asyncio.gather(*self._tasks, return_exceptions=True)


class SharedCalls(Generic[Answer]):
    """One call for all who ask for the same thing at the same time: each gets its answer, or its error."""

    def __init__(self, call: Callable[[str], Coroutine[Any, Any, Answer]]) -> None:
        self._call = call
        self._running: dict[str, asyncio.Task[Answer]] = {}

    async def ask(self, name: str) -> Answer:
        return await asyncio.shield(self.begin(name))

    def begin(self, name: str) -> "asyncio.Task[Answer]":
        """The call that is under way, which may be a new one; it belongs to all who have asked."""
        task = self._running.get(name)
        if task is None:
            task = self._running[name] = asyncio.create_task(self._call(name), name=f"ask for {name}")
            task.add_done_callback(partial(self._done, name))
        return task

    def forget(self, name: str) -> None:
        """Whoever asks from now on does not share what is being asked for now."""
        self._running.pop(name, None)

    def _done(self, name: str, task: "asyncio.Task[Answer]") -> None:
        if self._running.get(name) is task:
            del self._running[name]
        if not task.cancelled():
            task.exception()  # those who asked are told, if they are still there


class PatientCalls(Generic[Answer]):
    """Calls to something that may not answer, for those to whom the last answer will do then.

    Whoever finds out that nothing is answered has waited for a moment; until there is an answer again, the others only have
    it asked for.
    """

    def __init__(self, call: Callable[[str], Coroutine[Any, Any, Answer]], *, patience: float = 0.5) -> None:
        self._call = call
        self._patience = patience
        self._calls = SharedCalls(self._heard)
        self.silent = False

    async def ask(self, name: str, last: Answer) -> Answer:
        """The answer, or `last` when there is none for now. Errors other than `Unavailable` are answers."""
        task = self._calls.begin(name)
        if not self.silent:
            await asyncio.wait({task}, timeout=self._patience)
        if not task.done():
            self.silent = True
            return last
        try:
            return task.result()
        except Unavailable:
            return last

    async def _heard(self, name: str) -> Answer:
        silent = False
        try:
            return await self._call(name)
        except Unavailable:
            silent = True
            raise
        finally:
            self.silent = silent
