"""Background work that must not end unseen: what fails is logged, counted, and begun again after a pause.

    working ──fails──► pausing, longer each time ──► working
       └── for a while without a failure: the next pause is short again

Work that keeps failing is named by `failing_tasks`, from which `/ready` takes it. Names are few, since they are labels of a
metric; what the work is about (a topic, a path) is its subject, which only logs and reasons mention. As with metrics, there
is one list for a process.

A cancellation that nobody asked for, such as that of something awaited, is a failure like any other.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import structlog
from prometheus_client import Counter

from meantime.errors import Unavailable
from meantime.metrics import REGISTRY
from meantime.tasks import end, start

log = structlog.get_logger(__name__)

FAILURES = Counter(
    "meantime_background_task_failures_total",
    "Failures of background tasks; each was begun again.",
    ["task"],
    registry=REGISTRY,
)
PAUSE_FIRST = 0.1
PAUSE_MOST = 10.0
STEADY_AFTER = 10.0
"""Seconds without a failure after which earlier ones are forgotten."""
KEEPS_FAILING = 3
"""So many failures in a row are told."""

Work = Callable[[], Coroutine[Any, Any, None]]


class TaskRecord:
    """The failures of one task since it last went well."""

    def __init__(self, name: str, subject: str = "") -> None:
        self.name = name
        self.subject = subject
        self.failures = 0
        self.error = ""

    def __str__(self) -> str:
        return f"{self.name} {self.subject}".rstrip()

    @property
    def pause(self) -> float:
        """Seconds to wait before the work is begun again."""
        return min(PAUSE_MOST, PAUSE_FIRST * float(2 ** min(self.failures - 1, 16)))

    def failed(self, error: BaseException) -> None:
        self.failures += 1
        self.error = f"{type(error).__name__}: {error}".strip(": ").split("\n", maxsplit=1)[0]
        FAILURES.labels(self.name).inc()
        if self.failures >= KEEPS_FAILING:
            _failing.add(self)

    def went_well(self) -> None:
        self.failures = 0
        _failing.discard(self)


_failing: set[TaskRecord] = set()


def failing_tasks() -> list[TaskRecord]:
    """Those that keep failing, in the order of their names."""
    return sorted(_failing, key=str)


def _ends_this_task(error: BaseException) -> bool:
    """Whether it is a cancellation, and one that was meant for this task."""
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling() > 0)


async def supervised(work: Work, name: str, subject: str = "") -> None:
    """Do the work until it returns; begin it again whenever it fails."""
    record = TaskRecord(name, subject)
    loop = asyncio.get_running_loop()
    try:
        while True:
            steady = loop.call_later(STEADY_AFTER, record.went_well)
            try:
                return await work()
            except (Exception, asyncio.CancelledError) as error:
                if _ends_this_task(error):
                    raise
                record.failed(error)
                log.exception("background_task_failed", task=name, subject=subject, again_in=record.pause)
            finally:
                steady.cancel()
            await asyncio.sleep(record.pause)
    finally:
        record.went_well()


@asynccontextmanager
async def kept_running(work: Work, name: str, subject: str = "") -> AsyncIterator[asyncio.Task[None]]:
    """Do the work beside the block, supervised; it is cancelled at the end of the block."""
    task = start(supervised(work, name, subject), name=f"{name} {subject}".rstrip())
    try:
        yield task
    finally:
        await end(task)


@dataclass(frozen=True, slots=True)
class Duty:
    """Work that is done again and again. `hurry`, when set, makes it run at once."""

    name: str
    run_once: Callable[[], Awaitable[Any]]
    every: float
    hurry: asyncio.Event | None = None


@asynccontextmanager
async def on_duty(duties: Sequence[Duty], failed: Callable[[str], None] = lambda _: None) -> AsyncIterator[None]:
    """Repeat the duties beside the block. One that fails is tried again at its next turn and hurts no other; `failed` is
    told its name."""
    tasks = [start(_repeat(duty, TaskRecord(duty.name), failed), f"duty {duty.name}") for duty in duties]
    try:
        yield
    finally:
        await end(*tasks)


async def _repeat(duty: Duty, record: TaskRecord, failed: Callable[[str], None]) -> None:
    try:
        while True:
            try:
                await duty.run_once()
                record.went_well()
            except Unavailable as error:
                log.info("duty_postponed", duty=duty.name, reason=error.detail)
            except (Exception, asyncio.CancelledError) as error:
                if _ends_this_task(error):
                    raise
                record.failed(error)
                failed(duty.name)
                log.exception("duty_failed", duty=duty.name)
            await _until_next(duty)
    finally:
        record.went_well()


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
