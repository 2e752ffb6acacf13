"""Publishing: a batch goes through its gate into the active timeline, and its publisher learns what became of each event.

    prepare ──► wait for the gate ──► send ──► all written: 200
                     ▲                  ├──► refused by a sealed topic: reload the timelines, send the rest to the new one
                     └──────────────────┘    refused otherwise, or nobody knows: 207

What many publish at once is sent together, see `merging`. Two rules keep order and once. An event whose fate is unknown is
never sent again. An event that was refused is sent again only if no later event of its batch and partition was written or
may have been; otherwise it has failed.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from prometheus_client import Counter

from meantime.clock import Clock
from meantime.coordination.liveness import SessionLiveness
from meantime.errors import MeantimeError, NotFound, Unavailable
from meantime.kafka.batch import RecordBatch, RecordOutcome, Records
from meantime.kafka.producer import Producers
from meantime.metrics import REGISTRY, NamedCounter
from meantime.streams.catalog.catalog import Catalog
from meantime.streams.model import EventType, Timeline
from meantime.streams.publishing.gate import PublishGate
from meantime.streams.publishing.merging import PublishMerger, SentBatch
from meantime.streams.publishing.records import BatchItemResponse, RecordBuilder, eid_of
from meantime.streams.publishing.refusals import Advice, Refusals, resendable
from meantime.streams.publishing.steps import AT_ONCE_BYTES, STEP_ITEMS, Turns, let_go
from meantime.streams.switching.acknowledged import AcknowledgedOffsets
from meantime.streams.switching.store import SwitchStore

PUBLISHED = NamedCounter("meantime_events_published_total", "Events written.", "event_type")
REGISTRY.register(PUBLISHED)
RESENT = Counter("meantime_events_resent_total", "Events that a sealed topic sent on to the next.", registry=REGISTRY)

_MOST_ROUNDS = 20
NO_ANSWER = "the storage gave no answer in time; the event may have been written"
OVERTAKEN = "refused, while a later event of the same partition was taken; it was not written"


@dataclass(frozen=True, slots=True)
class PublisherParts:
    """What publishing works with. `liveness` proves that initiators of switches count this process; for one that they do not
    count it never does. `wait_for`: seconds that a publisher waits for a switch."""

    catalog: Catalog
    gate: PublishGate
    producers: Producers
    acknowledged: AcknowledgedOffsets
    refusals: Refusals
    switches: SwitchStore
    liveness: SessionLiveness
    clock: Clock
    wait_for: float = 30.0
    permitted: Callable[[], None] = lambda: None
    """Asked right before anything is handed to Kafka's client; raises if it must not be any more."""


class Fate:
    """What has become of each event of a batch, and which are still to be sent."""

    def __init__(self, records: Records) -> None:
        self.records = records
        self.outcomes = [RecordOutcome.FAILED] * len(records.values)
        self.details: dict[int, str] = {}
        self.left = list(range(len(records.values)))

    def note(self, sent: list[int], batch: SentBatch) -> None:
        outcomes, details = batch.results()
        for place, index in enumerate(sent):
            self.outcomes[index] = outcomes[place]
            if place in details:
                self.details[index] = details[place]
        refused = [index for index in sent if self.outcomes[index] in (RecordOutcome.REFUSED, RecordOutcome.MISSING)]
        self.left = resendable(self.outcomes, self.records.partitions)
        for index in set(refused) - set(self.left):
            self.details[index] = OVERTAKEN

    def give_up(self, error: MeantimeError) -> None:
        """A publisher whose batch is certainly not written gets the error and may retry; else it gets an item per event."""
        if len(self.left) == len(self.outcomes):
            raise error
        self.details |= dict.fromkeys(self.left, f"not written: {error.detail}")

    def items(self) -> list[BatchItemResponse]:
        return [
            BatchItemResponse(eid_of(value), "submitted", "publishing", "")
            if outcome is RecordOutcome.WRITTEN
            else BatchItemResponse(eid_of(value), "failed", "publishing", self.details.get(index, NO_ANSWER))
            for index, (value, outcome) in enumerate(zip(self.records.values, self.outcomes, strict=True))
        ]


class Publisher:
    def __init__(self, parts: PublisherParts) -> None:
        self._parts = parts
        self._catalog = parts.catalog
        self._gate = parts.gate
        self._turns = Turns()
        self._merger = PublishMerger(self._send)
        self._builders: dict[str, RecordBuilder] = {}

    async def publish(self, name: str, body: bytes, flow_id: str) -> list[BatchItemResponse] | None:
        """None when every event is written, else what became of each; `Rejected` when nothing was sent."""
        deadline = time.monotonic() + self._parts.wait_for
        entry = self._catalog.known(name) or await self._catalog.for_publishing(name)
        builder, now_ms = self._builder(entry.event_type), self._parts.clock.now_ms()
        if len(body) <= AT_ONCE_BYTES:
            records = builder.records(body, flow_id, now_ms)
        else:
            steps = builder.records_in_steps(body, flow_id, now_ms)
            del body
            records = await self._turns.take(steps)
        if not records.values:
            return None
        send = self._merger.send if self._merger.takes(records) else self._send
        timeline, batch = await send(name, records, deadline)
        if batch.clean:
            if len(records.values) > STEP_ITEMS:
                await self._turns.take(let_go(records.values))
            return None
        return await self._send_on(timeline, records, batch, deadline)

    async def check(self, name: str, body: bytes) -> None:
        """Refuse what `publish` would refuse before it sends anything; nothing is sent."""
        entry = self._catalog.known(name) or await self._catalog.for_publishing(name)
        builder = self._builder(entry.event_type)
        await self._turns.take(builder.records_in_steps(body, "", self._parts.clock.now_ms()))

    def kept(self) -> set[str]:
        """The event types of which something is kept here."""
        return {*self._builders, *PUBLISHED.names}

    def forget(self, name: str) -> None:
        """The event type does not exist any more."""
        self._builders.pop(name, None)
        PUBLISHED.forget(name)

    def _builder(self, event_type: EventType) -> RecordBuilder:
        builder = self._builders.get(event_type.name)
        if builder is None or builder.event_type is not event_type:
            builder = self._builders[event_type.name] = RecordBuilder(event_type)
        return builder

    async def _send(self, name: str, records: Records, deadline: float) -> tuple[Timeline, RecordBatch]:
        while True:
            if self._gate.is_closed(name):
                await self._gate.wait_open(name, deadline)
            closings = self._gate.closings
            timeline = (self._catalog.known(name) or await self._catalog.for_publishing(name)).active
            producer = self._parts.producers.of(self._catalog.storage(timeline.storage_id))
            if not producer.has_room(records.size):
                await producer.wait_for_room(records.size, deadline)
                continue  # the timeline may have been closed meanwhile
            # Nothing is awaited from here until the gate is entered; none was closed since the timeline was looked up.
            if closings == self._gate.closings and not self._gate.is_closed(name):
                break
        self._parts.permitted()
        flight, proof = self._gate.enter(name), self._parts.liveness.proof
        try:
            batch = flight.batch = producer.begin(records)
            if producer.takes_long(records):
                await producer.hand_over_with_pauses(timeline.topic, records, batch)
            else:
                producer.hand_over(timeline.topic, records, batch)
            await batch.done
            self._parts.acknowledged.note(timeline.storage_id, timeline.topic, batch.offsets)
        finally:
            self._gate.leave(flight)
        # Initiators have waited for this publish if the session was there all the while, not if it has come back.
        if flight.late or proof is None or proof != self._parts.liveness.proof:
            await self._answer_for(timeline, batch)
        written = len(records.values) if batch.clean else batch.results()[0].count(RecordOutcome.WRITTEN)
        PUBLISHED.add(name, written)
        return timeline, batch

    async def _answer_for(self, timeline: Timeline, batch: RecordBatch) -> None:
        """Whoever closes the timeline did not wait for this node, or not for this publish: it makes sure that what was
        written lies inside before it acknowledges anything."""
        if not batch.offsets:
            return
        try:
            if not await self._parts.switches.acknowledge(timeline, batch.offsets):
                batch.disown("the storage was left before the event was written; it will not be read")
        except MeantimeError as error:
            batch.disown(f"written, but it is not sure that it will be read: {error.detail}")

    async def _send_on(
        self, timeline: Timeline, records: Records, batch: SentBatch, deadline: float
    ) -> list[BatchItemResponse] | None:
        """Not everything was written at the first attempt: send on what may be, as often as timelines change."""
        fate = Fate(records)
        fate.note(fate.left, batch)
        for _ in range(_MOST_ROUNDS):
            if not fate.left:
                break
            try:
                timeline = await self._send_left(timeline, fate, deadline)
            except (NotFound, Unavailable) as error:
                fate.give_up(error)
                break
        return None if fate.outcomes.count(RecordOutcome.WRITTEN) == len(fate.outcomes) else fate.items()

    async def _send_left(self, timeline: Timeline, fate: Fate, deadline: float) -> Timeline:
        advice = await self._parts.refusals.advice(timeline, deadline)
        RESENT.inc(len(fate.left))
        if advice is Advice.AGAIN:
            timeline, batch = await self._send(timeline.event_type, fate.records.select(fate.left), deadline)
            fate.note(fate.left, batch)
        elif advice is Advice.ONE_BY_ONE:
            for index in fate.left:
                timeline, batch = await self._send(timeline.event_type, fate.records.select([index]), deadline)
                fate.note([index], batch)
            fate.left = []
        else:
            fate.left = []
        return timeline
