"""The events of a body, each as the bytes that were sent.

A large body is split in pieces, from the border between two events to one that is some hundred thousand bytes further on. A
place that looks like such a border may lie inside an event. But if what is before it is a list of whole values, it is one:
so the piece is read, and if it cannot be, the next place is tried. When none is right, the rest is read as a whole, which
tells what is wrong with it.
"""

import re
from collections.abc import Sequence
from operator import itemgetter

import msgspec

from meantime.errors import Malformed
from meantime.streams.publishing.steps import Steps, let_go

PIECE_BYTES = 256 * 1024
_TRIES = 64

_split = msgspec.json.Decoder(list[msgspec.Raw]).decode
_OPENING = re.compile(rb"[ \t\r\n]*\[")
_BORDER = re.compile(rb"\}[ \t\r\n]*,(?=[ \t\r\n]*\{)")
_PLACE = re.compile(r"byte (\d+)")
_OPENING_BRACE = 0x7B
_FIRST_BYTE = itemgetter(0)


def split(body: bytes) -> list[bytes]:
    """All at once."""
    try:
        if not body.isascii():
            str(body, "utf-8")
        events = list(map(bytes, _split(body)))
    except UnicodeDecodeError as error:
        raise Malformed(f"the body is not UTF-8: {error.reason} at byte {error.start}") from None
    except msgspec.ValidationError:
        raise Malformed("the body must be a JSON array of events") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise Malformed(f"the body is not JSON: {error}") from None
    check_objects(events)
    return events


def check_objects(events: Sequence[bytes]) -> None:
    if not {_OPENING_BRACE}.issuperset(map(_FIRST_BYTE, events)):
        raise Malformed("every event must be a JSON object")


def split_in_steps(body: bytes) -> Steps[list[bytes]]:
    """The same, piece by piece."""
    events: list[bytes] = []
    opening = _OPENING.match(body)
    if opening is None:
        return split(body)
    start, look_from, tries = opening.end(), opening.end() + PIECE_BYTES, 0
    while border := _BORDER.search(body, look_from):
        piece = _events(body[start : border.end() - 1])
        yield
        if piece is not None:
            events += piece
            start, look_from, tries = border.end(), border.end() + PIECE_BYTES, 0
        elif tries == _TRIES:
            break
        else:
            look_from, tries = border.end(), tries + 1
    try:
        events += _rest(body, start)
    except Malformed:
        yield from let_go(events)
        raise
    return events


def _rest(body: bytes, start: int) -> list[bytes]:
    """What begins with an event at `start`; places in errors are those in the whole body."""
    try:
        return split(b"[" + body[start:])
    except Malformed as error:
        raise Malformed(_PLACE.sub(lambda found: f"byte {int(found[1]) + start - 1}", error.detail)) from None


def _events(piece: bytes) -> list[bytes] | None:
    """None when it is no list of whole objects."""
    try:
        return split(b"[%b]" % piece)
    except Malformed:
        return None
