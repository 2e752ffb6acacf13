"""Kazoo's callbacks, on the event loop: results and watch events are delivered where they arrive, in ZooKeeper's order.

A watch event is therefore always seen before a result that is newer than it.
"""

from collections.abc import Callable

import structlog
from kazoo.handlers.threading import SequentialThreadingHandler

log = structlog.get_logger(__name__)


class NoQueue:
    """What kazoo believes to be a queue with a worker thread behind it."""

    def put(self, callback: Callable[[], object]) -> None:
        try:
            callback()
        except Exception:
            log.exception("zookeeper_callback_failed")


class LoopHandler(SequentialThreadingHandler):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.completion_queue = self.callback_queue = NoQueue()

    @property
    def running(self) -> bool:
        return True
