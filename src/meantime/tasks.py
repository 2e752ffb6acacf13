"""How to end tasks for certain.

A cancellation can get lost. Until Python 3.12 `asyncio.wait_for` drops one that comes in the very moment in which the thing
it waits for is there, and the pool of database connections waits like that. Whoever then waits for the task waits for ever:
so it is asked again.
"""

import asyncio
from typing import Any

AGAIN_AFTER = 5.0
"""Longer than a task that was asked needs to tidy up."""


async def end(*tasks: "asyncio.Future[Any]") -> list[Any]:
    """Cancel them, and return when all have ended: what came of each, or its exception."""
    left = set(tasks)
    while left:
        for task in left:
            task.cancel()
        _, left = await asyncio.wait(left, timeout=AGAIN_AFTER)
    return await asyncio.gather(*tasks, return_exceptions=True)
