"""Consumes the retries of an application: this worker's share of the topic `<app>.retry`.

Messages are leased, so that each is with one worker, any of the application. Their order among themselves and
against their queue is lost, which is what `on_error="block"` is for.
"""

import asyncio
from collections.abc import Callable
from contextlib import aclosing, suppress

import msgspec
import structlog

from meantime.errors import LeaseLost, MeantimeError, NotFound
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.tasks import TaskSet
from meantime.workers.app import App, StopWorker
from meantime.workers.meters import FAILED, TALLIES
from meantime.workers.processing.failures import FailedMessages, RetryBody, retry_topic
from meantime.workers.processing.gate import JobGate
from meantime.workers.processing.job import JobExecution

log = structlog.get_logger(__name__)

AT_ONCE = 16
LEASE_FOR = 30.0
AGAIN_AFTER = 2.0
NOT_MINE_FOR = 30.0
"""Seconds for which a message is left to workers who have a job for it."""


class RetryConsumer:
    def __init__(
        self,
        client: AsyncClient,
        app: App,
        execution: JobExecution,
        failures: FailedMessages,
        gate: JobGate,
        stop_worker: Callable[[str], None],
    ) -> None:
        self._client = client
        self._app = app
        self._execution = execution
        self._failures = failures
        self._gate = gate
        self._stop_worker = stop_worker
        self._topic = retry_topic(app.name)
        self._running = TaskSet()

    async def run(self, consumer_id: str) -> None:
        """Process retries until cancelled; those that are running then are finished by `finish`."""
        while True:
            try:
                await self._wait_for_topic()
                await self._consume(consumer_id)
            except MeantimeError as error:
                log.warning("retries_interrupted", topic=self._topic, detail=error.detail)
            await asyncio.sleep(AGAIN_AFTER)

    async def finish(self) -> None:
        await self._running.finished()

    async def _wait_for_topic(self) -> None:
        """Wait for the topic; it is made here if a job of this worker can need it, else by another worker."""
        if any(job.retry and job.on_error == "retry" for job in self._app.jobs.values()):
            await self._failures.ensure(self._topic)
            return
        while True:
            with suppress(NotFound):
                await self._client.topic(self._topic)
                return
            await asyncio.sleep(LEASE_FOR)

    async def _consume(self, consumer_id: str) -> None:
        await self._gate.resumed()
        leases = self._client.consume(self._topic, consumer_id, buffer=AT_ONCE, lease_for=LEASE_FOR)
        async with aclosing(leases):
            async for lease in leases:
                if self._gate.paused:
                    await lease.release(AGAIN_AFTER)
                    return
                self._running.start(self._handle(lease), name=f"retry {lease.id}")

    async def _handle(self, lease: AsyncLease) -> None:
        try:
            await self._attempt(lease, msgspec.convert(lease.body, RetryBody))
        except msgspec.ValidationError as error:
            log.error("retry_unreadable", id=lease.id, detail=str(error))
            with suppress(MeantimeError):
                await lease.release(NOT_MINE_FOR)
        except LeaseLost:
            log.warning("retry_lost", id=lease.id, hint="the message was or will be tried by another worker")
        except MeantimeError as error:
            log.error("retry_not_settled", id=lease.id, detail=error.detail)
        except StopWorker as stop:
            self._stop_worker(str(stop))
            with suppress(MeantimeError):
                await lease.release()

    async def _attempt(self, lease: AsyncLease, body: RetryBody) -> None:
        job = self._app.jobs.get(body.event_type)
        if job is None:
            log.warning("retry_without_job", event_type=body.event_type, id=lease.id)
            await lease.release(NOT_MINE_FOR)
            return
        try:
            await self._execution.attempt(job, [body.message])
        except StopWorker:
            raise
        except (Exception, SystemExit) as error:
            FAILED.labels(job.event_type).inc()
            log.warning(
                "job_failed", job=job.name, cursor=body.cursor, attempt=body.attempt, error=repr(error), exc_info=error
            )
            await self._failures.put(job, body.message, error, body.history)
        else:
            TALLIES.of(job.event_type).done += 1
        await lease.delete()
