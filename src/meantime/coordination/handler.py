"""Kazoo on an asyncio loop.

Kazoo runs one thread for its connection and hands callbacks to two more. Here those two are the event loop itself: results
and watch events are queued to the loop by the connection thread, in the order in which ZooKeeper sent them, so that a watch
event is always seen before a result that is newer than it, and each costs one hop between threads. Waiting for a socket is
one system call here, where kazoo makes five: in a busy process each of them may have to wait for the interpreter.
"""

import asyncio
import math
import select
from collections.abc import Callable, Sequence
from typing import Any

from kazoo.handlers.threading import SequentialThreadingHandler


class LoopQueue:
    """What kazoo believes to be a queue with a worker thread behind it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def put(self, callback: Callable[[], object]) -> None:
        try:
            self._loop.call_soon_threadsafe(callback)
        except RuntimeError:
            if not self._loop.is_closed():
                raise


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self.completion_queue = self.callback_queue = LoopQueue(loop)

    @property
    def running(self) -> bool:
        return True

    def start(self) -> None:
        """Nothing to start: the loop is running."""

    def stop(self) -> None:
        """Nothing to stop: what comes late is dropped by the closed loop."""

    def select(
        self, rlist: Sequence[Any], wlist: Sequence[Any], xlist: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        """As `select.select`, for descriptors of any number."""
        poll = select.poll()
        for sockets, events in ((rlist, select.POLLIN), (wlist, select.POLLOUT)):
            for socket in sockets:
                poll.register(socket, events)
        ready = {fd for fd, _ in poll.poll(None if timeout is None else math.ceil(timeout * 1000))}
        return [s for s in rlist if s.fileno() in ready], [s for s in wlist if s.fileno() in ready], []
