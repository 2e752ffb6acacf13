"""Firings for periodic jobs: the topic `<app>.periodic`, as this worker consumes it."""

import msgspec

from meantime.sdk.consuming.async_lease import AsyncLease
from meantime.workers.app import App, Message
from meantime.workers.letters import PastAttempt
from meantime.workers.periodic import FiringBody, FiringEvent, periodic_topic
from meantime.workers.processing.failures import FailedMessages


class PeriodicTopic:
    """Fulfils `lease_consumer.LeasedTopic`."""

    def __init__(self, app: App, failures: FailedMessages) -> None:
        self.name = periodic_topic(app.name)
        self._failures = failures

    async def wait(self) -> None:
        await self._failures.ensure(self.name)

    def read(self, lease: AsyncLease) -> tuple[Message, list[PastAttempt]]:
        origin = lease.message.schedule
        if origin is None:
            raise msgspec.ValidationError("it is not a firing of a schedule")
        firing = msgspec.convert(lease.body, FiringBody, strict=False).firing
        event = FiringEvent(schedule=origin.id, version=origin.version, at_ms=origin.at_ms, firing=firing)
        return Message(msgspec.to_builtins(event), event.source, "", str(origin.at_ms), origin.at_ms), []
