"""What to do when a storage refused events: may they be sent again, and where to?

A sealed topic refuses everything, and a switch explains it: the timelines are read anew until they lead elsewhere. If no
switch is running and the active topic is sealed, an initiator came to grief between the seal and its record; the topic is
opened again, under the same row that a new switch would have to hold, so the two cannot meet.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import structlog

from meantime.errors import NotFound
from meantime.kafka.admin import Admins
from meantime.kafka.batch import RecordOutcome
from meantime.kafka.sealing import OPEN_AGAIN, SEALED_BYTES, SIZE_LIMIT
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.model import Timeline
from meantime.streams.publishing.gate import PublishGate, still_switching
from meantime.streams.switching.store import SwitchStore
from meantime.tasks import SharedCalls

log = structlog.get_logger(__name__)

_LOOK_FIRST = 0.02
_LOOK_MOST = 0.5


class Advice(Enum):
    """AGAIN: they may be sent again. ONE_BY_ONE: the topic takes records, so find out which ones. NEVER: give up."""

    AGAIN = "again"
    ONE_BY_ONE = "one by one"
    NEVER = "never"


def resendable(outcomes: Sequence[RecordOutcome], partitions: Sequence[int]) -> list[int]:
    """The events that were not written and can still be written in their place: behind them, nothing of their partition
    was written or may have been."""
    behind: set[int] = set()
    chosen: list[int] = []
    for index in range(len(outcomes) - 1, -1, -1):
        if outcomes[index] in (RecordOutcome.WRITTEN, RecordOutcome.FAILED):
            behind.add(partitions[index])
        elif partitions[index] not in behind:
            chosen.append(index)
    return chosen[::-1]


@dataclass(frozen=True, slots=True)
class _Sight:
    """An event type at a moment after something of it was refused."""

    active: Timeline
    switching: bool


class Refusals:
    """However many publishers of an event type were refused, one look tells all of them; and it is looked less and less
    often, since a change is notified."""

    def __init__(self, catalog: Catalog, gate: PublishGate, switches: SwitchStore, admins: Admins) -> None:
        self._catalog = catalog
        self._gate = gate
        self._switches = switches
        self._admins = admins
        self._looks = SharedCalls(self._look)

    async def advice(self, refused_by: Timeline, deadline: float) -> Advice:
        """Wait until it is clear what to do; `Unavailable` when a switch takes longer than the deadline."""
        name, pause = refused_by.event_type, _LOOK_FIRST
        while True:
            seen = await self._looks.ask(name)
            if (seen.active.storage_id, seen.active.topic) != (refused_by.storage_id, refused_by.topic):
                return Advice.AGAIN
            if not self._gate.is_closed(name) and not seen.switching:
                return await self._mended(seen.active)
            if time.monotonic() + pause > deadline:
                raise still_switching(name)
            await self._catalog.changed(name, within=pause)
            pause = min(_LOOK_MOST, pause * 2)

    async def _look(self, name: str) -> _Sight:
        active = (await self._catalog.reload(name)).active
        return _Sight(active, await self._switches.running(name) is not None)

    async def _mended(self, timeline: Timeline) -> Advice:
        admin = self._admins.of(self._catalog.storage(timeline.storage_id))
        try:
            limit, _ = (await admin.topic_settings(timeline.topic))[SIZE_LIMIT]
        except NotFound:
            return Advice.NEVER
        if limit != SEALED_BYTES:
            return Advice.ONE_BY_ONE
        async with self._switches.without_switch(timeline) as still:
            if still:
                log.warning("opening_a_topic_left_sealed", event_type=timeline.event_type, topic=timeline.topic)
                await admin.change(timeline.topic, OPEN_AGAIN | await self._switches.settings_before(timeline))
        return Advice.AGAIN
