"""One attempt at a job: the handler is called, in the loop or in a thread, within its time."""

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from typing import Any

from meantime.errors import Invalid, TimeLimitReached
from meantime.workers.app import Job, Message
from meantime.workers.meters import TALLIES
from meantime.workers.processing.threads import Threads


class JobExecution:
    """Calls handlers with the context of the process."""

    def __init__(self, threads: Threads, context: Any) -> None:
        self._threads = threads
        self._context = context

    async def attempt(self, job: Job, messages: Sequence[Message]) -> None:
        """Returns when the handler has returned; raises what it raised, or `TimeLimitReached`."""
        argument = job.argument(messages)
        began = time.perf_counter()
        try:
            if not job.asynchronous:
                result = await self._threads.run(job.handler, argument, self._context, time_limit=job.time_limit)
                if inspect.isawaitable(result):
                    await result  # a plain function that wraps a coroutine
            elif job.time_limit is None:
                await job.handler(argument, self._context)
            else:
                await self._within(job.time_limit, job, argument)
        finally:
            TALLIES.of(job.event_type).took(time.perf_counter() - began)

    async def _within(self, seconds: float, job: Job, argument: Any) -> None:
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                await job.handler(argument, self._context)
        except TimeoutError:
            if limit.expired():
                raise TimeLimitReached(f"the job took longer than {seconds:g} s") from None
            raise


@asynccontextmanager
async def entered(context: Any) -> AsyncIterator[Any]:
    """What an application's context gives, for as long as the block runs."""
    manager = _manager(context)
    if manager is None:
        yield None
    elif isinstance(manager, AbstractAsyncContextManager):
        async with manager as value:
            yield value
    else:
        with manager as value:
            yield value


def _manager(context: Any) -> Any:
    if context is None or isinstance(context, AbstractContextManager | AbstractAsyncContextManager):
        return context
    made = context() if callable(context) else context
    if not isinstance(made, AbstractContextManager | AbstractAsyncContextManager):
        raise Invalid(f"context is a context manager, or a function that makes one, not {context!r}")
    return made
