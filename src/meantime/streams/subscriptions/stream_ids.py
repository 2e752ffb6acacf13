"""Ids of streams that tell with which key a stream was opened, on every node and without asking anybody.

Half of an id is drawn at random, the other half is made of that and of the key. It is no secret, and need be
none: what counts is the id of the stream that holds a partition.
"""

import hashlib
import secrets
from uuid import UUID

_HALF = 8


def new_stream_id(key_id: str | None) -> UUID:
    """For a stream that is opened with this key; None where no keys are asked for."""
    return _stream_id(secrets.token_bytes(_HALF), key_id)


def opened_with(stream_id: UUID, key_id: str | None) -> bool:
    return _stream_id(stream_id.bytes[:_HALF], key_id) == stream_id


def _stream_id(drawn: bytes, key_id: str | None) -> UUID:
    drawn = UUID(bytes=drawn + bytes(_HALF), version=4).bytes[:_HALF]
    made = hashlib.blake2b(drawn + (key_id or "").encode(), digest_size=_HALF).digest()
    return UUID(bytes=drawn + made, version=4)
