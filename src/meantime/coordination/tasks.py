"""A background task that lives exactly as long as a block."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

from meantime.tasks import end

log = structlog.get_logger(__name__)


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None], name: str) -> AsyncIterator[asyncio.Task[None]]:
    """Run `work` beside the block and cancel it at the end. `work` should handle its errors and never return; if it fails
    nevertheless, that is logged when it happens."""
    task = asyncio.create_task(work, name=name)
    task.add_done_callback(_tell)
    try:
        yield task
    finally:
        await end(task)


def _tell(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()):
        log.error("a background task has failed", task=task.get_name(), exc_info=error)
