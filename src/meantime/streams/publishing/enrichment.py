"""What the broker adds to the metadata of `business` and `data` events.

Everything else in an event stays byte for byte what the publisher sent; events of category `undefined` are not touched
at all. What the publisher says about these fields is overwritten, but for the flow id, which belongs to the publisher.
"""

from dataclasses import dataclass
from typing import Any

import msgspec

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Enrichment:
    """What is the same for every event of a batch."""

    event_type: str
    received_at: str
    flow_id: str
    version: str

    def enrich(self, raw: bytes | msgspec.Raw, metadata: dict[str, Any], partition: int) -> bytes:
        """The event as it is written. `metadata` is the event's own, already read."""
        fields: dict[str, Any] = _fields(raw)
        fields["metadata"] = metadata | {
            "received_at": self.received_at,
            "event_type": self.event_type,
            "partition": str(partition),
            "flow_id": metadata.get("flow_id") or self.flow_id,
            "version": self.version,
        }
        return _encode(fields)
