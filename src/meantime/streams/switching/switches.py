"""Switching the storage of an event type: who may start, what a repeated request gets, and what happens to orphans.

A switch runs as a task of the node: it does not depend on the client that asked for it. Every node looks for orphans, that
is for running switches whose owner's session is gone or whose owner has stopped working on them, and concludes them.
"""

import asyncio
from dataclasses import dataclass
from uuid import UUID, uuid4

import structlog

from meantime.errors import Conflict, CoordinationLost, Invalid, MeantimeError, NotFound, Unavailable, UnknownReference
from meantime.streams.catalog.catalog import CatalogEntry
from meantime.streams.catalog.timeline_topics import new_topic_name
from meantime.streams.model import Timeline
from meantime.streams.switching.conclusion import conclude, finish
from meantime.streams.switching.initiator import SwitchRun
from meantime.streams.switching.model import Switch, SwitchState
from meantime.streams.switching.store import Superseded
from meantime.streams.switching.tools import SwitchTools

log = structlog.get_logger(__name__)

REMEMBER_KEYS_MS = 24 * 3600 * 1000
LOOK_EVERY = 1.0
ROLL_BACK_WITHIN = 10.0


@dataclass(frozen=True, slots=True)
class SwitchRequest:
    event_type: str
    storage_id: str
    force: bool = False
    idempotency_key: str | None = None


class Switches:
    def __init__(self, tools: SwitchTools) -> None:
        self._tools = tools
        self._mine: set[UUID] = set()
        self._tasks: set[asyncio.Task[Switch]] = set()
        self._look = asyncio.Event()

    async def start(self, request: SwitchRequest) -> tuple[Timeline, bool]:
        """The new timeline, and whether this call made it; returns when all nodes use it."""
        entry = await self._tools.catalog.reload(request.event_type)
        if request.idempotency_key is not None:
            earlier = await self._by_key(request)
            if earlier is not None:
                return await self._outcome(earlier), False
        await self._check(request, entry)
        switch = self._new(request, entry)
        task = asyncio.create_task(self._claimed_run(switch, entry), name=f"switch {request.event_type}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await self._timeline(await asyncio.shield(task)), True

    async def of(self, event_type: str) -> list[Switch]:
        await self._tools.catalog.event_type(event_type)
        return await self._tools.store.of(event_type)

    async def get(self, event_type: str, id: UUID) -> Switch:
        switch = await self._tools.store.get(id)
        if switch is None or switch.event_type != event_type:
            raise NotFound(f"event type {event_type!r} has no switch {id}")
        return switch

    # Starting

    async def _by_key(self, request: SwitchRequest) -> Switch | None:
        since_ms = self._tools.clock.now_ms() - REMEMBER_KEYS_MS
        earlier = await self._tools.store.by_key(request.event_type, str(request.idempotency_key), since_ms)
        if earlier is not None and (earlier.storage_id, earlier.force) != (request.storage_id, request.force):
            raise Invalid("this Idempotency-Key was used for a different switch")
        return earlier

    async def _check(self, request: SwitchRequest, entry: CatalogEntry) -> None:
        if entry.event_type.cleanup_policy.startswith("compact"):
            raise Invalid(f"event type {request.event_type!r} is compacted; its storage cannot be switched")
        storages = {storage.id for storage in await self._tools.catalog.reload_storages()}
        if request.storage_id not in storages:
            raise UnknownReference(f"storage {request.storage_id!r} does not exist")
        if await self._tools.steps.holder(request.event_type) is not None:
            raise Conflict(f"event type {request.event_type!r} is locked: a switch is running")

    def _new(self, request: SwitchRequest, entry: CatalogEntry) -> Switch:
        order = max(entry.active.order, 1) + 1
        return Switch(
            id=uuid4(),
            event_type=request.event_type,
            state=SwitchState.PREPARING,
            epoch=1,
            owner=self._tools.me(),
            force=request.force,
            old_storage_id=entry.active.storage_id,
            old_topic=entry.active.topic,
            old_settings={},
            storage_id=request.storage_id,
            new_topic=new_topic_name(request.event_type, order),
            timeline_id=uuid4(),
            idempotency_key=request.idempotency_key,
            started_at_ms=self._tools.clock.now_ms(),
        )

    # Running

    async def _claimed_run(self, switch: Switch, entry: CatalogEntry) -> Switch:
        """It is known as this node's own before anybody can see its row."""
        self._mine.add(switch.id)
        try:
            await self._tools.store.begin(switch)
            return await self._run(switch, entry)
        finally:
            self._mine.discard(switch.id)

    async def _run(self, switch: Switch, entry: CatalogEntry) -> Switch:
        run = SwitchRun(self._tools, switch, entry.event_type, entry.active)
        try:
            await run.to_the_commit()
            return await finish(self._tools, run.switch, run.trace)
        except Exception as error:
            return await self._conclude_failed(run.switch, error)

    async def _conclude_failed(self, switch: Switch, error: Exception) -> Switch:
        """What went wrong does not tell on which side of the commit it went wrong; the row does."""
        reason = error.detail if isinstance(error, MeantimeError) else f"{type(error).__name__}: {error}"
        if not isinstance(error, (MeantimeError, Superseded)):
            log.exception("switch_broke", event_type=switch.event_type, switch=str(switch.id), exc_info=error)
        try:
            async with asyncio.timeout(ROLL_BACK_WITHIN):
                await conclude(self._tools, switch, reason)
        except (TimeoutError, MeantimeError) as trouble:
            log.warning("switch_left_to_others", switch=str(switch.id), error=str(trouble))
            self._look.set()
        latest = await self._tools.store.get(switch.id)
        if latest is not None and latest.past_the_commit:
            return latest
        if latest is None or not latest.running:
            # Whoever rolled back while this node was away cannot know what it made since.
            await self._tools.topics.drop(switch.storage_id, switch.new_topic)
        if isinstance(error, MeantimeError):
            raise error
        raise Unavailable(f"the switch did not happen: {reason}") from error

    async def _outcome(self, switch: Switch) -> Timeline:
        """The timeline of a switch that may still be running, perhaps on another node."""
        while switch.running and not switch.past_the_commit:
            await asyncio.sleep(0.05)
            latest = await self._tools.store.get(switch.id)
            if latest is None or latest.state is SwitchState.FAILED:
                raise Unavailable("the switch with this Idempotency-Key has just failed; try again")
            switch = latest
        return await self._timeline(switch)

    async def _timeline(self, switch: Switch) -> Timeline:
        for timeline in (await self._tools.catalog.reload(switch.event_type)).timelines:
            if timeline.id == switch.timeline_id:
                return timeline
        raise NotFound(f"the timeline of switch {switch.id} does not exist any more")

    # Orphans

    def look_for_orphans(self) -> None:
        """A node may have died: look now instead of at the next round."""
        self._look.set()

    async def run(self) -> None:
        while True:
            try:
                async with asyncio.timeout(LOOK_EVERY):
                    await self._look.wait()
            except TimeoutError:
                log.debug("looking_for_orphans")
            self._look.clear()
            try:
                await self.conclude_orphans()
            except MeantimeError as error:
                log.debug("no_look_for_orphans", error=error.detail)
            except Exception:
                log.exception("look_for_orphans_failed")

    async def conclude_orphans(self) -> None:
        for switch in await self._tools.store.all_running():
            if await self._orphaned(switch):
                await self._conclude_orphan(switch)

    async def settle_forced(self, event_type: str) -> None:
        """Return when no switch of the event type stands before its commit any more."""
        while True:
            switch = await self._tools.store.running(event_type)
            if switch is None or switch.past_the_commit:
                return
            if await self._orphaned(switch):
                await self._conclude_orphan(switch)
            await asyncio.sleep(0.05)

    async def _orphaned(self, switch: Switch) -> bool:
        try:
            mine = self._tools.me() == switch.owner
        except CoordinationLost:
            return False
        return switch.id not in self._mine if mine else not await self._tools.alive(switch.owner)

    async def _conclude_orphan(self, switch: Switch) -> None:
        log.info("switch_orphaned", event_type=switch.event_type, switch=str(switch.id), owner=switch.owner.node_id)
        try:
            await conclude(self._tools, switch, f"its initiator {switch.owner.node_id!r} went away")
        except MeantimeError as error:
            log.warning("orphan_not_concluded_yet", switch=str(switch.id), error=error.detail)

    async def close(self) -> None:
        """Let what is running come to its end."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._tools.options.barrier_for)
