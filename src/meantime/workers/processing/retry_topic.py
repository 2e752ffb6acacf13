"""The retries of an application: its topic `<app>.retry`, as this worker consumes it.

Their order among themselves and against their queue is lost, which is what `on_error="block"` is for.
"""

import asyncio
from contextlib import suppress

import msgspec

from meantime.errors import NotFound
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.workers.app import App, Message
from meantime.workers.letters import PastAttempt, RetryBody, retry_topic
from meantime.workers.processing.failures import FailedMessages

LOOK_EVERY = 30.0


class RetryTopic:
    """Fulfils `lease_consumer.LeasedTopic`."""

    def __init__(self, client: AsyncClient, app: App, failures: FailedMessages) -> None:
        self.name = retry_topic(app.name)
        self._client = client
        self._failures = failures
        self._needed = bool(app.periodic_jobs) or any(job.on_error == "retry" for job in app.jobs.values())

    async def wait(self) -> None:
        """Wait for the topic; it is made here if a job of this worker can need it, else by another worker. A job without
        retries makes dead letters, which may be sent back."""
        if self._needed:
            await self._failures.ensure(self.name)
            return
        while True:
            with suppress(NotFound):
                await self._client.topic(self.name)
                return
            await asyncio.sleep(LOOK_EVERY)

    def read(self, lease: AsyncLease) -> tuple[Message, list[PastAttempt]]:
        body = msgspec.convert(lease.body, RetryBody)
        return body.message, body.history
