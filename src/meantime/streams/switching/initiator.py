"""The initiator's part of a switch, up to the commit: each step is written down, so that another node can conclude it.

    prepare ──► lock + first bump ──┬──► nodes acknowledge ──────────┬──► snapshot ──► commit
                                    └──► quiet here: seal and prove ─┘

Everything slow is done before the lock: the new topic is made, connections for the seal and its proof are opened. From the
lock on publishers wait, so what can be done at the same time is. The seal needs nobody's acknowledgement: what a slow
node still sends is taken before it or refused by it, and then sent on by that node. It is begun when this node's own
publishers are out, because by then those of the others are too, as a rule, and nothing has to be sent twice.

A node that is dead or frozen does not hold the others up: once the seal is proved, the switch goes on without those that
have not acknowledged within `overtake_after`. Why that loses nothing, whenever such a node wakes up:
- What it sent before the seal lies in the topic, and the end that the timeline is closed at is behind it. Kafka shows an
  end only up to what all replicas in sync have; that there is nothing beyond it on the leader is proved, too, since a
  record may be acknowledged to its sender later than the end was looked at. If that cannot be proved, all are waited for.
- What it sends after the seal, or sends again, is refused by the seal. It then reads the timelines anew, and sends on.
- It has not seen the lock, or sees it late: then its gate is closed until it has seen the end of the lock, too.
- It acknowledges nothing by what it believes, only by what Kafka has said. The old topic is never opened again after the
  commit; before the commit the switch has not happened.
A forced switch leaves a topic that cannot be sealed, so it goes on without nobody.
"""

import asyncio
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from operator import gt

import structlog

from meantime.errors import StorageUnavailable
from meantime.streams.model import EventType, Timeline
from meantime.streams.switching.fault_points import passing
from meantime.streams.switching.model import Switch, SwitchState, notice_of
from meantime.streams.switching.tools import SwitchTools
from meantime.streams.switching.trace import SwitchTrace

log = structlog.get_logger(__name__)

SHOWS_ALL_WITHIN = 5.0


class SwitchRun:
    """One attempt."""

    def __init__(self, tools: SwitchTools, switch: Switch, event_type: EventType, active: Timeline) -> None:
        self._tools = tools
        self._event_type = event_type
        self._active = active
        self._source = tools.catalog.storage(switch.old_storage_id)
        self._log = log.bind(event_type=switch.event_type, switch=str(switch.id))
        self._left_behind = False
        self._version = 0
        self._seen_ends: list[int] = []
        self.switch = switch
        self.trace = SwitchTrace()

    async def to_the_commit(self) -> Switch:
        trace, store = self.trace, self._tools.store
        with trace.phase("prepare"):
            await self._prepare()
        passing("prepared")
        await self._lock()
        with trace.phase("snapshot"):
            ends = None if self._left_behind else await self._final_snapshot()
        passing("sealed")
        with trace.phase("commit"):
            self.switch = await store.commit(trace.on(self.switch), self._active, ends, self._tools.clock.now_ms())
        self._log.info("switch_committed", new_topic=self.switch.new_topic, since_lock_ms=self._since_lock_ms())
        passing("committed")
        return self.switch

    async def _prepare(self) -> None:
        storage = self._tools.catalog.storage(self.switch.storage_id)
        self._log.info(
            "switch_started",
            old=f"{self.switch.old_storage_id}/{self.switch.old_topic}",
            new=f"{self.switch.storage_id}/{self.switch.new_topic}",
        )
        self._left_behind = self.switch.force and await self._source_is_dead()
        making = asyncio.create_task(self._tools.topics.make(storage, self.switch.new_topic, self._event_type))
        try:
            await self._tools.steps.prepare()
            if not self._left_behind:
                await self._survey()
        finally:
            # A topic that is made after a failed switch was cleaned up would be nobody's.
            (made,) = await asyncio.gather(making, return_exceptions=True)
        if made is not None:
            raise made
        self._log.info("switch_prepared", leaving_a_dead_storage=self._left_behind)

    async def _source_is_dead(self) -> bool:
        try:
            await self._tools.admins.of(self._source).reach(self._tools.options.ask_dead_for)
        except StorageUnavailable:
            return True
        return False

    async def _survey(self) -> None:
        """What a seal would change is written down before anything is changed."""
        sealer = self._tools.sealer(self._source)
        surveyed = await sealer.survey(self._active.topic)
        self.switch = await self._tools.store.advance(self.switch, SwitchState.PREPARING, old_settings=surveyed)
        await sealer.make_probeable(self._active.topic)
        await sealer.rehearse(self._active.topic, self._active.partitions)

    async def _lock(self) -> None:
        """The lock tells nodes whether it is forced in effect, not whether that was asked for."""
        self.trace.lock()
        notice = notice_of(replace(self.switch, force=self._left_behind))
        with self.trace.phase("lock"):
            self._version = await self._tools.steps.begin(str(self.switch.id), self.switch.event_type, notice)
        self._log.info("switch_locked", version=self._version, since_lock_ms=self._since_lock_ms())
        passing("locked")
        # Both come to their end, also when one fails: a seal that is still under way could not be taken back.
        results = await asyncio.gather(self._acknowledged(), self._seal(), return_exceptions=True)
        for result in results:
            if result is not None:
                raise result

    async def _acknowledged(self) -> None:
        barrier, options = self._tools.barrier, self._tools.options
        patience = math.inf if self._left_behind else options.overtake_after
        with self.trace.phase("acknowledge"):
            await barrier.missing_after(self._version, patience, options.barrier_for, seen=self._seen)
        self._log.info("switch_acknowledged", version=self._version, since_lock_ms=self._since_lock_ms())
        passing("acknowledged")

    async def _seal(self) -> None:
        """Who was taken over finds out before it touches the topic."""
        self.switch, _ = await asyncio.gather(
            self._tools.store.advance(self.trace.on(self.switch), SwitchState.LOCKED),
            self._tools.barrier.wait_here(self._version, self._tools.options.barrier_for),
        )
        if self._left_behind:
            return
        sealer, topic = self._tools.sealer(self._source), self._active.topic
        with self.trace.phase("seal"):
            await sealer.seal_surveyed(topic, self.switch.old_settings)
            self._log.info("switch_sealing", topic=topic, since_lock_ms=self._since_lock_ms())
            self.switch, self._seen_ends, _ = await asyncio.gather(
                self._tools.store.advance(self.trace.on(self.switch), SwitchState.SEALED),
                sealer.ends(topic, self._active.partitions),
                sealer.prove(topic, self._active.partitions),
            )
        self._log.info("switch_proved", topic=topic, since_lock_ms=self._since_lock_ms())

    async def _final_snapshot(self) -> tuple[int, ...]:
        """With the seal proved. Who has acknowledged by now has been waited for; the others are overtaken, if nothing of
        theirs can be behind the end."""
        barrier, options = self._tools.barrier, self._tools.options
        missing = await barrier.missing_after(self._version, 0, options.barrier_for, seen=self._seen)
        ends = await self._snapshot()
        if not missing:
            return ends
        if await self._tools.sealer(self._source).nothing_beyond(self._active.topic, ends):
            self.switch = replace(self.switch, overtaken=tuple(missing))
            self._log.warning("switch_overtakes", nodes=missing, since_lock_ms=self._since_lock_ms())
            return ends
        self._log.warning("switch_waits_for_all", nodes=missing, since_lock_ms=self._since_lock_ms())
        await barrier.missing_after(self._version, math.inf, options.barrier_for, seen=self._seen)
        return await self._snapshot()

    def _seen(self, reached: Mapping[str, int]) -> None:
        self.trace.reached(self._version, reached)

    async def _snapshot(self) -> tuple[int, ...]:
        """Where the sealed topic ends. A replica that has just become the leader may show less than the former one has
        acknowledged, until it has caught up; one that has lost something of it never will."""
        sealer, topic = self._tools.sealer(self._source), self._active.topic
        ends, acknowledged = await asyncio.gather(
            sealer.end(topic, self._active.partitions, self._seen_ends), self._tools.store.acknowledged(self._active)
        )
        give_up_at = time.monotonic() + SHOWS_ALL_WITHIN
        while any(map(gt, acknowledged, ends)):
            if time.monotonic() > give_up_at:
                raise StorageUnavailable(f"topic {topic!r} ends before what it has acknowledged: {ends}, {acknowledged}")
            await asyncio.sleep(0.05)
            ends = await sealer.end(topic, self._active.partitions, [])
        self._log.info("switch_sealed", topic=topic, latest_offsets=ends, since_lock_ms=self._since_lock_ms())
        return ends

    def _since_lock_ms(self) -> float:
        return self.trace.since_lock_ms()
