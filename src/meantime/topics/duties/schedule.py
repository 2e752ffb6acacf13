"""Runs duties again and again; one that fails is tried again at its next turn and hurts no other."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog

from meantime.errors import Unavailable
from meantime.tasks import end
from meantime.topics.meters import DUTY_FAILURES

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Duty:
    """`hurry`, when set, makes it run at once."""

    name: str
    run_once: Callable[[], Awaitable[Any]]
    every: float
    hurry: asyncio.Event | None = None


@asynccontextmanager
async def on_duty(duties: Sequence[Duty]) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(_repeat(duty), name=f"topics duty {duty.name}") for duty in duties]
    try:
        yield
    finally:
        await end(*tasks)


async def _repeat(duty: Duty) -> None:
    while True:
        try:
            await duty.run_once()
        except Unavailable as error:
            log.info("duty_postponed", duty=duty.name, reason=error.detail)
        except Exception:
            DUTY_FAILURES.labels(duty.name).inc()
            log.exception("duty_failed", duty=duty.name)
        await _until_next(duty)


async def _until_next(duty: Duty) -> None:
    if duty.hurry is None:
        await asyncio.sleep(duty.every)
        return
    try:
        async with asyncio.timeout(duty.every):
            await duty.hurry.wait()
    except TimeoutError:
        return
    duty.hurry.clear()
