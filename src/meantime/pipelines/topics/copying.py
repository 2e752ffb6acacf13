"""Messages as PostgreSQL reads them in its binary COPY format. Pure.

A frame may have millions of rows, so what all rows share is put together once, and each row costs one packing.
"""

import struct
from collections.abc import Sequence

from meantime.topics.model import NewMessage

COLUMNS = (
    "at_ms",
    "created_for_ms",
    "bucket_id",
    "is_json",
    "topic_id",
    "version",
    "attempts",
    "stage",
    "producer_group",
    "id",
    "body",
)
"""In the order in which they are written: of fixed size and each row's own, the same in all rows, of varying size."""

_START = b"PGCOPY\n\xff\r\n\x00" + struct.pack("!ii", 0, 0)
_END = struct.pack("!h", -1)
_OWN = struct.Struct("!hiqiqiii?")
_SHARED = struct.Struct("!iiiiiiih")
_LENGTH = struct.Struct("!i")


def encoded(topic_id: int, rows: Sequence[NewMessage]) -> bytes:
    """All of what COPY is sent."""
    length = _LENGTH.pack
    own, count = _OWN.pack, len(COLUMNS)
    tails = {group: _shared(topic_id, group) for group in {row.producer_group for row in rows}}
    pieces = [_START]
    for row in rows:
        id, body = row.id.encode(), row.body
        pieces += (
            own(count, 8, row.at_ms, 8, row.at_ms, 4, row.bucket_id, 1, row.is_json),
            tails[row.producer_group],
            length(len(id)),
            id,
            length(len(body)),
            body,
        )
    pieces.append(_END)
    return b"".join(pieces)


def _shared(topic_id: int, group: str) -> bytes:
    """A new message: version 1, no attempts, stage 0."""
    name = group.encode()
    return _SHARED.pack(4, topic_id, 4, 1, 4, 0, 2, 0) + _LENGTH.pack(len(name)) + name
