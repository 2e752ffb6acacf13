"""Threads for jobs that are plain functions, with time limits as far as Python has them.

A function cannot be stopped from outside. At its time limit an exception is raised in its thread, which takes effect at the
next Python instruction; a call that waits in C — a sleep, a socket — is not interrupted, but the exception is raised when it
returns. If the function has not ended a moment later the thread is left to itself: its result counts for nothing, and it is
not used again. Threads are daemons, so one that hangs does not keep the process from ending.
"""

import asyncio
import contextvars
import ctypes
import threading
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import structlog

from meantime.errors import TimeLimitReached

log = structlog.get_logger(__name__)

GRACE = 0.5
"""Seconds that a function has to end after its time limit before its thread is left to itself."""


class Threads:
    """Up to `most` functions at once; more wait for their turn."""

    def __init__(self, most: int) -> None:
        self._room = asyncio.Semaphore(most)
        self._idle: deque[_Thread] = deque()

    async def run(self, function: Callable[..., Any], *arguments: Any, time_limit: float | None = None) -> Any:
        """What the function returns or raises; `TimeLimitReached` when it takes longer than it may."""
        async with self._room:
            thread = self._idle.popleft() if self._idle else _Thread()
            answer = thread.begin(function, arguments)
            try:
                return await self._answer(thread, answer, time_limit)
            finally:
                if answer.done() and thread.usable:
                    self._idle.append(thread)
                else:
                    thread.dismiss()

    async def _answer(self, thread: "_Thread", answer: "asyncio.Future[Any]", time_limit: float | None) -> Any:
        if time_limit is None:
            return await answer
        done, _ = await asyncio.wait({answer}, timeout=time_limit)
        if not done:
            thread.interrupt()
            done, _ = await asyncio.wait({answer}, timeout=GRACE)
            if not done:
                log.warning(
                    "thread_left_to_itself", after=time_limit, hint="the job waits in a call that Python cannot interrupt"
                )
            elif not isinstance(answer.exception(), _Interrupted):
                return answer.result()
            raise TimeLimitReached(f"the job took longer than {time_limit:g} s")
        return answer.result()

    def close(self) -> None:
        for thread in self._idle:
            thread.dismiss()
        self._idle.clear()


class _Interrupted(BaseException):
    """Raised in a thread whose time is up. Not an Exception, so that a job does not swallow it by accident."""


class _Thread:
    def __init__(self) -> None:
        self.usable = True
        self._loop = asyncio.get_running_loop()
        self._tasks: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._live, name="job", daemon=True)
        self._thread.start()

    def begin(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> "asyncio.Future[Any]":
        answer: asyncio.Future[Any] = self._loop.create_future()
        context = contextvars.copy_context()
        self._tasks.put(lambda: self._carry_out(answer, lambda: context.run(function, *arguments)))
        return answer

    def interrupt(self) -> None:
        self.usable = False
        identity = ctypes.c_ulong(self._thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(_Interrupted))

    def dismiss(self) -> None:
        """End when the present function has ended."""
        self._tasks.put(None)

    def _live(self) -> None:
        try:
            while task := self._tasks.get():
                task()
        except _Interrupted:
            return  # it came when the function had ended already

    def _carry_out(self, answer: "asyncio.Future[Any]", call: Callable[[], Any]) -> None:
        try:
            result, error = call(), None
        except BaseException as raised:
            result, error = None, raised
        try:
            self._loop.call_soon_threadsafe(_settle, answer, result, error)
        except RuntimeError:
            return  # the loop has ended; nobody waits


def _settle(answer: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if answer.done():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(StoppedIteration(error) if isinstance(error, StopIteration) else error)


class StoppedIteration(RuntimeError):
    """A job raised StopIteration, which a future cannot carry."""
