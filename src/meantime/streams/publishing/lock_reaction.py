"""The reaction of every publishing process to a version and its locks: close the gates of what is locked, open those of
what no longer is.

What keeps events from being lost
- A lock is acknowledged when nobody is inside its gate any more. A publish that takes too long does not hold the barrier up
  for ever: after a bounded wait it is left to the seal, which either comes after it or refuses it, and what such a publish
  has written is compared with the end of the timeline before it is acknowledged.
- A gate is opened only after the timelines were read anew.
- Under a forced lock there is no seal to rely on. Those inside are let go unanswered, and what was acknowledged is written
  down before the lock is. When the lock vanishes its gate stays closed until that switch is settled.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from meantime.coordination.switch_steps import SwitchSteps
from meantime.errors import MeantimeError, NotFound
from meantime.kafka.producer import Producers
from meantime.kafka.settings import Storage
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.publishing.gate import PublishGate
from meantime.streams.switching.acknowledged import AcknowledgedOffsets
from meantime.streams.switching.model import LockNotice, read_notice
from meantime.streams.switching.store import SwitchStore
from meantime.tasks import TaskSet

log = structlog.get_logger(__name__)

DRAIN_FOR = 2.0
DRAIN_DEAD_FOR = 0.2
READ_COMMIT_FOR = 5.0
SETTLE_EVERY = 0.05

Settle = Callable[[str], Awaitable[None]]
"""Return when no forced switch of the event type is open any more."""


class LockReaction:
    def __init__(
        self,
        catalog: Catalog,
        gate: PublishGate,
        producers: Producers,
        acknowledged: AcknowledgedOffsets,
        steps: SwitchSteps,
        switches: SwitchStore,
    ) -> None:
        self._catalog = catalog
        self._gate = gate
        self._producers = producers
        self._acknowledged = acknowledged
        self._steps = steps
        self._switches = switches
        self._notices: dict[str, LockNotice | None] = {}
        self._tasks = TaskSet()
        self.settle: Settle = self._settled_by_others
        """A node, which can conclude switches itself, puts its own way here."""

    async def __call__(self, version: int, locked: frozenset[str]) -> None:
        for name in locked:
            self._gate.close(name)
        released = self._gate.closed - locked
        reactions = [*map(self._locked, locked), *map(self._released, released)]
        failures = [result for result in await asyncio.gather(*reactions, return_exceptions=True) if result is not None]
        if failures:
            raise failures[0]

    async def _locked(self, name: str) -> None:
        draining = asyncio.ensure_future(self._gate.drained(name, DRAIN_FOR))
        try:
            notice = await self._notice(name)
            if notice is not None and notice.force:
                await self._let_go(name)
            else:
                if not await draining:
                    log.warning("publishes_left_to_the_seal", event_type=name, inside=self._gate.wait_no_longer(name))
                await self._tell_acknowledged(name)
        finally:
            draining.cancel()

    async def _notice(self, name: str) -> LockNotice | None:
        """What the lock says; who hears it for the first time prepares for what it announces."""
        holder = await self._steps.holder(name)
        notice = read_notice(holder) if holder else None
        if notice is not None and self._notices.get(name) != notice:
            self._warm(notice)
            self._read_commit_early(name)
        self._notices[name] = notice
        return notice

    async def _tell_acknowledged(self, name: str) -> None:
        """The initiator compares it with where the topic ends. It can do without: the end is read behind the seal."""
        try:
            await self._acknowledged.write()
        except MeantimeError as error:
            log.warning("acknowledged_offsets_not_written", event_type=name, error=error.detail)

    async def _let_go(self, name: str) -> None:
        if not await self._gate.drained(name, DRAIN_DEAD_FOR):
            log.warning("publishes_let_go", event_type=name, count=self._gate.abandon(name))
        await self._acknowledged.write()

    async def _released(self, name: str) -> None:
        notice = self._notices.get(name)
        if notice is not None and notice.force:
            await self.settle(name)
        try:
            await self._know_timelines(name, notice)
        except NotFound:
            log.debug("unlocked_event_type_is_unknown", event_type=name)
        self._notices.pop(name, None)
        self._gate.open(name)

    async def _know_timelines(self, name: str, notice: LockNotice | None) -> None:
        """They are read anew, unless what the lock announced has been read already: nothing newer can be there."""
        if notice is None or (await self._catalog.entry(name)).active.topic != notice.topic:
            await self._catalog.reload(name)

    def _warm(self, notice: LockNotice) -> None:
        """The first events after the switch should not have to wait for connections."""
        self._tasks.start(self._warm_up(notice), f"warm up {notice.topic}")

    def _read_commit_early(self, name: str) -> None:
        """The commit is notified before the lock goes: read it meanwhile."""
        self._tasks.start(self._read_commit(name), f"read the commit of {name}")

    async def _settled_by_others(self, name: str) -> None:
        while True:
            switch = await self._switches.running(name)
            if switch is None or switch.past_the_commit:
                return
            await asyncio.sleep(SETTLE_EVERY)

    async def end(self) -> None:
        await self._tasks.end()

    async def _read_commit(self, name: str) -> None:
        try:
            async with asyncio.timeout(READ_COMMIT_FOR):
                await self._catalog.wait_for_change(name, await self._catalog.timelines(name))
        except (TimeoutError, MeantimeError) as error:
            log.debug("commit_not_read_early", event_type=name, error=str(error))

    async def _warm_up(self, notice: LockNotice) -> None:
        try:
            await self._producers.of(await self._storage(notice.storage_id)).warm(notice.topic)
        except MeantimeError as error:
            log.info("warm_up_failed", storage_id=notice.storage_id, error=error.detail)

    async def _storage(self, id: str) -> Storage:
        try:
            return self._catalog.storage(id)
        except NotFound:
            await self._catalog.reload_storages()
            return self._catalog.storage(id)
