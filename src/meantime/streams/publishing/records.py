"""From the bytes that a publisher sent to the records that are written: all that happens before anything is sent.

Validating, partitioning and enriching are stages; each looks at every event, and if any fails there the whole batch is
rejected with one item per event and nothing is written. The rules of an event type are compiled once into a
`RecordBuilder`. Where they ask nothing of an event, it is never parsed: its bytes are cut out of the body and written as
they are. A large body is worked on in steps, so that others need not wait for all of it.
"""

from collections.abc import Sequence
from typing import Any
from uuid import uuid4

import msgspec

from meantime.clock import rfc3339
from meantime.kafka.batch import Records
from meantime.streams.model import UNDEFINED, EventType
from meantime.streams.publishing.enrichment import Enrichment
from meantime.streams.publishing.partitioning import NoPartition, anywhere, key_of, key_paths, partitioner
from meantime.streams.publishing.splitting import split, split_in_steps
from meantime.streams.publishing.steps import Steps, at_once, let_go, slices
from meantime.streams.publishing.validation import Validation

MAX_EVENT_BYTES = 999_000

_decode = msgspec.json.Decoder().decode

Event = dict[str, Any]


class BatchItemResponse(msgspec.Struct, frozen=True):
    """What became of one event."""

    eid: str | None
    publishing_status: str
    step: str
    detail: str


class BatchRejected(Exception):
    """The batch fails before sending; nothing of it was written."""

    def __init__(self, items: list[BatchItemResponse]) -> None:
        super().__init__("events were rejected")
        self.items = items


class RecordBuilder:
    """The rules of one event type, ready to be applied."""

    def __init__(self, event_type: EventType) -> None:
        self.event_type = event_type
        self._partitions = event_type.partitions
        self._validation = Validation(event_type)
        self._partition = partitioner(event_type)
        self._enriches = event_type.category != UNDEFINED
        self._compacts = event_type.cleanup_policy.startswith("compact")
        self._untouched = self._validation.trivial and not (self._partition or self._enriches or self._compacts)

    def records(self, body: bytes, flow_id: str, now_ms: int) -> Records:
        """All at once: for a body that takes no time to speak of."""
        sent = split(body)
        if self._untouched and max(map(len, sent), default=0) <= MAX_EVENT_BYTES:
            return Records.of(sent, anywhere(len(sent), self._partitions))
        return at_once(self._built(sent, flow_id, now_ms))

    def records_in_steps(self, body: bytes, flow_id: str, now_ms: int) -> Steps[Records]:
        sent = yield from split_in_steps(body)
        del body
        return (yield from self._built(sent, flow_id, now_ms))

    def _built(self, sent: list[bytes], flow_id: str, now_ms: int) -> Steps[Records]:
        """Every event is read, judged and enriched in one go, and what was read is let go with it: of a batch, only bytes
        are kept. The events in `sent` become the values of the records."""
        if self._untouched and (yield from _longest(sent)) <= MAX_EVENT_BYTES:
            return (yield from Records.in_steps(sent, anywhere(len(sent), self._partitions), ()))
        enrichment = self._enrichment(flow_id, now_ms)
        partitions = anywhere(len(sent), self._partitions) if self._partition is None else [0] * len(sent)
        keys: list[bytes] = []
        invalid, homeless = dict[int, str](), dict[int, str]()
        for first, some in slices(sent):
            for index, raw in enumerate(some, first):
                event, fault = self._read(raw)
                if fault is not None:
                    invalid[index] = fault
                if invalid:
                    continue
                try:
                    if self._partition is not None:
                        partitions[index] = self._partition(event)
                    if self._compacts:
                        keys.append(self._key(event))
                except NoPartition as error:
                    homeless[index] = str(error)
                if enrichment is not None:
                    sent[index] = enrichment.enrich(raw, event["metadata"], partitions[index])
            yield
        if invalid or homeless:
            step = "validating" if invalid else "partitioning"
            rejected = BatchRejected((yield from items(sent, invalid or homeless, step)))
            yield from let_go(sent)
            raise rejected
        return (yield from Records.in_steps(sent, partitions, keys))

    def _read(self, raw: bytes) -> tuple[Event, str | None]:
        try:
            event: Event = _decode(raw)
        except (msgspec.MsgspecError, RecursionError) as error:
            return {}, f"the event cannot be read: {error}"
        if len(raw) > MAX_EVENT_BYTES:
            return event, f"the event has {len(raw)} bytes; at most {MAX_EVENT_BYTES} are allowed"
        return event, self._validation.fault(event)

    def _key(self, event: Event) -> bytes:
        """Compacted topics take no record without a key; one that names none is kept for ever."""
        metadata = event.get("metadata")
        named = metadata.get("partition_compaction_key") if isinstance(metadata, dict) else None
        if isinstance(named, str):
            return named.encode()
        if paths := key_paths(self.event_type):
            return key_of(event, paths)
        return uuid4().hex.encode()

    def _enrichment(self, flow_id: str, now_ms: int) -> Enrichment | None:
        if not self._enriches:
            return None
        version = str(self.event_type.document["schema"].get("version", "1.0.0"))
        return Enrichment(self.event_type.name, rfc3339(now_ms), flow_id, version)


def _longest(sent: list[bytes]) -> Steps[int]:
    longest = 0
    for _, some in slices(sent):
        longest = max(longest, *map(len, some))
        yield
    return longest


def items(sent: Sequence[bytes], faults: dict[int, str], step: str) -> Steps[list[BatchItemResponse]]:
    """One item per event of a rejected batch: those with faults have failed, the others were given up for them."""
    made: list[BatchItemResponse] = []
    for first, some in slices(sent):
        made += [
            BatchItemResponse(eid_of(raw), "failed", step, faults[index])
            if index in faults
            else BatchItemResponse(eid_of(raw), "aborted", step, "another event of the batch was rejected")
            for index, raw in enumerate(some, first)
        ]
        yield
    return made


def eid_of(event: bytes) -> str | None:
    try:
        read = _decode(event)
    except (msgspec.MsgspecError, RecursionError):
        return None
    metadata = read.get("metadata")
    eid = metadata.get("eid") if isinstance(metadata, dict) else None
    return eid if isinstance(eid, str) else None
