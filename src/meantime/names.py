"""Which names are valid. Checked at the edge, so that nothing inside has to quote or escape a name."""

import re
from ipaddress import ip_address

from meantime.errors import Invalid

EVENT_TYPE = re.compile(r"[a-zA-Z][-0-9a-zA-Z_]*(\.[0-9a-zA-Z][-0-9a-zA-Z_]*)*")
IDENTIFIER = re.compile(r"[0-9A-Za-z._:@-]{1,128}")

TIMELINE_TOPIC = re.compile(r".+\.[0-9]+\.[0-9a-f]{8}")
"""The Kafka topics that are made for timelines. What an event type has adopted may have any name."""
SYSTEM_TOPIC = re.compile(r"__.*|buffer\..+\.ledger")
"""Kafka's own topics, and those in which time buffers keep what they have published."""


def check_event_type(name: str) -> str:
    if len(name) > 255 or not EVENT_TYPE.fullmatch(name):
        raise Invalid(
            f"{name!r} cannot name an event type: start with a letter, then letters, digits, '-', '_' and single dots, "
            "at most 255 characters"
        )
    return name


def is_identifier(text: object) -> bool:
    return isinstance(text, str) and IDENTIFIER.fullmatch(text) is not None


def check_identifier(text: str, what: str) -> str:
    """For topics, groups, consumers, messages and tokens."""
    if not is_identifier(text):
        raise Invalid(f"{text!r} cannot be a {what}: use 1 to 128 characters of 0-9 A-Z a-z . _ : @ -")
    return text


def is_loopback(host: str) -> bool:
    """Whether a host is this machine and what is sent to it cannot leave it."""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def has_nul(document: object) -> bool:
    """Whether a text anywhere in a JSON document has the one character that PostgreSQL cannot store."""
    match document:
        case str():
            return "\x00" in document
        case dict():
            return any(has_nul(key) or has_nul(value) for key, value in document.items())
        case list():
            return any(map(has_nul, document))
    return False
