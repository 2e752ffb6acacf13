"""An event loop in a thread of its own, for what a sync client lets happen in the background."""

import asyncio
import atexit
import threading
from collections.abc import Coroutine
from concurrent.futures import CancelledError
from typing import Any, TypeVar

from meantime.tasks import end

T = TypeVar("T")

CLOSED_WITHIN = 10.0


class BackgroundLoopClosed(RuntimeError):
    """The client was closed."""


class BackgroundLoop:
    """Runs coroutines for threads that block. Closed at the latest when the interpreter ends."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, name="meantime-client", daemon=True)
        self._gate = threading.Lock()
        self._closed = False
        self._thread.start()
        atexit.register(self.close)

    @property
    def closed(self) -> bool:
        return self._closed

    def run(self, coroutine: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        with self._gate:  # what gets in here is in the loop before `stop` is, so it is run or cancelled, never forgotten
            if self._closed:
                coroutine.close()
                raise BackgroundLoopClosed("the client is closed")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result(timeout)
        except CancelledError:
            raise BackgroundLoopClosed("the client was closed") from None
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        with self._gate:
            if not self._closed:
                self._closed = True
                self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSED_WITHIN)
        atexit.unregister(self.close)

    def _serve(self) -> None:
        self._loop.run_forever()
        self._loop.run_until_complete(end(*asyncio.all_tasks(self._loop)))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()
