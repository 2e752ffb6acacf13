"""What a time buffer is made of: its two ends, the name of the topic between them, and a record as it lies in that topic.

An end is a Kafka topic of the default storage, or an event type. A record keeps key, value and headers as they were, in a
JSON body that people can read.
"""

import re
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from meantime.errors import UNREADABLE, Invalid
from meantime.names import check_event_type

EVENT_TYPE = "event-type:"
_KAFKA_TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_LONGEST = 120


@dataclass(frozen=True, slots=True)
class Endpoint:
    name: str
    is_event_type: bool = False

    def __str__(self) -> str:
        return f"{EVENT_TYPE}{self.name}" if self.is_event_type else self.name


def endpoint(text: str, option: str) -> Endpoint:
    if text.startswith(EVENT_TYPE):
        return Endpoint(check_event_type(text.removeprefix(EVENT_TYPE)), is_event_type=True)
    if not _KAFKA_TOPIC.fullmatch(text) or text in (".", ".."):
        raise Invalid(f"{option} is a Kafka topic or {EVENT_TYPE}<name>, not {text!r}", option=option)
    return Endpoint(text)


def buffer_name(source: Endpoint, target: Endpoint) -> str:
    """The topic that holds what is between the two; the same ends have the same one, so that a buffer can be resumed."""
    name = f"buffer.{source}.{target}"
    return name if len(name) <= _LONGEST else f"buffer.{sha256(name.encode()).hexdigest()[:32]}"


class Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    key: str
    value: bytes | None = None


class BufferedRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Bytes are base64 in JSON; what is absent was null."""

    key: bytes | None = None
    value: bytes | None = None
    headers: list[Header] = []


def decode_record(body: bytes) -> BufferedRecord | None:
    """None for a message that the inbound half has not made."""
    try:
        return msgspec.json.decode(body, type=BufferedRecord)
    except UNREADABLE:
        return None
