"""What the broker adds to the metadata of `business` and `data` events.

Everything else in an event stays byte for byte what the publisher sent; events of category `undefined` are not touched
at all. What the publisher says about these fields is overwritten, but for the flow id, which belongs to the publisher.

An event that says nothing about them, and names `metadata` only once, gets them at the beginning of its metadata, and is not
taken apart for that. Any other is, and put together again.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

_NAME, _ESCAPE = b'"metadata"', b"\\"
_BEGINNING = re.compile(rb'"metadata"[ \t\r\n]*:[ \t\r\n]*\{')
_ADDED = frozenset({"received_at", "event_type", "partition", "flow_id", "version"})
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Enrichment:
    """What is the same for every event of a batch."""

    event_type: str
    received_at: str
    flow_id: str
    version: str
    _beginnings: dict[int, bytes] = field(default_factory=dict)
    """By partition, how metadata begin that say nothing about what is added."""

    def enrich(self, raw: bytes, metadata: dict[str, Any], partition: int) -> bytes:
        """The event as it is written. `metadata` is the event's own, already read and not empty."""
        name = raw.find(_NAME)
        if raw.find(_NAME, name + 1) < 0 and _ESCAPE not in raw and metadata and _ADDED.isdisjoint(metadata):
            found = _BEGINNING.match(raw, name)
            if found is not None:
                return b"%b%b%b" % (raw[:name], self._beginning(partition), raw[found.end() :])
        fields: dict[str, Any] = _fields(raw)
        fields["metadata"] = metadata | self._added(partition, metadata.get("flow_id"))
        return _encode(fields)

    def _beginning(self, partition: int) -> bytes:
        known = self._beginnings.get(partition)
        if known is None:
            added = _encode(self._added(partition, None))[1:-1]
            known = self._beginnings[partition] = b'"metadata":{%b,' % added
        return known

    def _added(self, partition: int, flow_id: str | None) -> dict[str, str]:
        return {
            "received_at": self.received_at,
            "event_type": self.event_type,
            "partition": str(partition),
            "flow_id": flow_id or self.flow_id,
            "version": self.version,
        }
