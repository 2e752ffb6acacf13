"""How deep JSON is nested. What is deeper than anybody means is refused before it is decoded: decoders recurse.

A quick look takes pairs of brackets out from the inside, strings or not. Where that leaves too much, brackets in strings are
left out and the others are counted. Both take time in proportion to the length, and a large body is looked at in pieces.
"""

import asyncio
from collections.abc import Iterator
from itertools import accumulate

from meantime.errors import Malformed

MOST_DEEP = 200
AT_ONCE = 128 * 1024
"""So many bytes are looked at before others get their turn."""

_ROUNDS = 16
MOST_LEFT = MOST_DEEP - 2 * _ROUNDS
"""With more brackets than these left over, what the quick look takes out of the next piece may be too deep."""
_BRACKETS = b"[]{}"
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in _BRACKETS)
_STEPS = {ord("["): 1, ord("{"): 1, ord("]"): -1, ord("}"): -1}


async def check_depth(body: bytes) -> None:
    """Raise Malformed for JSON nested deeper than 200."""
    if len(body) <= 2 * MOST_DEEP:
        return
    if len(body) <= AT_ONCE:
        left = body.translate(None, _ALL_BUT_BRACKETS)
        if len(left) > MOST_DEEP and _without_pairs(left):
            _check(body)
        return
    left = b""
    for start in range(0, len(body), AT_ONCE):
        left = _without_pairs(left + body[start : start + AT_ONCE].translate(None, _ALL_BUT_BRACKETS))
        await asyncio.sleep(0)
        if len(left) > MOST_LEFT or b"[]" in left or b"{}" in left:
            break
    if left:
        for depth in _depths(body):
            if depth > MOST_DEEP:
                raise too_deep()
            await asyncio.sleep(0)


def check_small(text: bytes) -> None:
    """The same for what is short anyhow, as headers are."""
    if not is_shallow(text):
        raise too_deep()


def is_shallow(text: bytes) -> bool:
    """Whether it may be decoded by whoever is some calls deep itself."""
    return text.count(b"[") + text.count(b"{") <= MOST_DEEP or max(_depths(text)) <= MOST_DEEP


def too_deep() -> Malformed:
    return Malformed(f"the JSON is nested deeper than {MOST_DEEP}")


def _check(text: bytes) -> None:
    if max(_depths(text)) > MOST_DEEP:
        raise too_deep()


def _without_pairs(brackets: bytes) -> bytes:
    """What is left when pairs are taken out from the inside, some times: nothing of JSON that is not deeper. What is left,
    as of deeper JSON or of brackets inside of strings, is only a suspicion."""
    for _ in range(_ROUNDS):
        before = len(brackets)
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(brackets) == before:
            break
    return brackets


def _depths(text: bytes) -> Iterator[int]:
    """The greatest depth in each piece. Without escaped backslashes and escaped quotes, every other part between quotes is
    outside of strings; an escape that a piece would cut in two goes to the next."""
    depth, inside, carried = 0, 0, b""
    for start in range(0, len(text), AT_ONCE // 2):
        piece = carried + text[start : start + AT_ONCE // 2]
        carried = b"\\" if (len(piece) - len(piece.rstrip(b"\\"))) % 2 else b""
        parts = piece[: len(piece) - len(carried)].replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        brackets = b"".join(parts[inside::2]).translate(None, _ALL_BUT_BRACKETS)
        inside = (inside + len(parts) - 1) % 2
        steps = [depth, *accumulate(map(_STEPS.__getitem__, brackets), initial=depth)]
        depth = steps[-1]
        yield max(steps)
