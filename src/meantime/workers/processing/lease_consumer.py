"""Consumes one of an application's own topics: this worker's share of `<app>.retry` or `<app>.periodic`.

Messages are leased, so that each is with one worker, any of the application. What fails is put on the topic of retries or
of dead letters first, then its message is deleted; so a crash in between repeats an attempt, and never loses one.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Protocol

import msgspec
import structlog

from meantime.errors import Forbidden, LeaseLost, MeantimeError, Unauthenticated
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.tasks import TaskSet
from meantime.workers.app import App, Message, StopWorker
from meantime.workers.letters import PastAttempt
from meantime.workers.meters import FAILED, TALLIES
from meantime.workers.processing.failures import FailedMessages
from meantime.workers.processing.gate import JobGate
from meantime.workers.processing.job import JobExecution

log = structlog.get_logger(__name__)

AT_ONCE = 16
LEASE_FOR = 30.0
AGAIN_AFTER = 2.0
NOT_ALLOWED_FOR = 60.0
"""Seconds until a worker whose key may not consume the topic tries again: its queues go on, others may do it."""
NOT_MINE_FOR = 30.0
"""Seconds for which a message is left to workers who have a job for it."""


class LeasedTopic(Protocol):
    """A topic of the application, and how its messages are read."""

    @property
    def name(self) -> str: ...

    async def wait(self) -> None:
        """Returns when the topic is there."""

    def read(self, lease: AsyncLease) -> tuple[Message, list[PastAttempt]]:
        """What the job is to be given, and how earlier attempts failed; ValidationError for what is no such message."""


@dataclass(frozen=True, slots=True)
class LeaseTools:
    """What consumers of an application's topics share."""

    client: AsyncClient
    app: App
    execution: JobExecution
    failures: FailedMessages
    gate: JobGate
    stop_worker: Callable[[str], None]


class LeaseConsumer:
    def __init__(self, tools: LeaseTools, topic: LeasedTopic) -> None:
        self._tools = tools
        self._topic = topic
        self._running = TaskSet()

    async def run(self, consumer_id: str) -> None:
        """Process messages until cancelled; those that are running then are finished by `finish`."""
        while True:
            pause = AGAIN_AFTER
            try:
                await self._topic.wait()
                await self._consume(consumer_id)
            except MeantimeError as error:
                log.warning("consuming_interrupted", topic=self._topic.name, detail=error.detail)
                if isinstance(error, Forbidden | Unauthenticated):
                    pause = NOT_ALLOWED_FOR
            await asyncio.sleep(pause)

    async def finish(self) -> None:
        await self._running.finished()

    async def _consume(self, consumer_id: str) -> None:
        gate = self._tools.gate
        await gate.resumed()
        leases = self._tools.client.consume(self._topic.name, consumer_id, buffer=AT_ONCE, lease_for=LEASE_FOR)
        async with aclosing(leases):
            async for lease in leases:
                if gate.paused:
                    await lease.release(AGAIN_AFTER)
                    return
                self._running.start(self._handle(lease), name=f"{self._topic.name} {lease.id}")

    async def _handle(self, lease: AsyncLease) -> None:
        where = {"topic": self._topic.name, "id": lease.id}
        try:
            await self._attempt(lease, *self._topic.read(lease))
        except msgspec.ValidationError as error:
            log.error("message_unreadable", **where, detail=str(error))
            with suppress(MeantimeError):
                await lease.release(NOT_MINE_FOR)
        except LeaseLost:
            log.warning("lease_lost", **where, hint="the message was or will be tried by another worker")
        except MeantimeError as error:
            log.error("message_not_settled", **where, detail=error.detail)
        except StopWorker as stop:
            self._tools.stop_worker(str(stop))
            with suppress(MeantimeError):
                await lease.release(after=0)

    async def _attempt(self, lease: AsyncLease, message: Message, history: list[PastAttempt]) -> None:
        job = self._tools.app.job_for(message.event_type)
        if job is None:
            log.warning("message_without_job", topic=self._topic.name, event_type=message.event_type, id=lease.id)
            await lease.release(NOT_MINE_FOR)
            return
        try:
            await self._tools.execution.attempt(job, [message])
        except StopWorker:
            raise
        except (Exception, SystemExit) as error:
            FAILED.labels(job.event_type).inc()
            log.warning(
                "job_failed", job=job.name, cursor=message.cursor, attempt=message.attempt, error=repr(error), exc_info=error
            )
            await self._tools.failures.put(job, message, error, history)
        else:
            TALLIES.of(job.event_type).done += 1
        await lease.delete()
