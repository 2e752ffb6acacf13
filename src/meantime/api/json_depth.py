"""How deep JSON is nested. What is deeper than anybody means is refused before it is decoded: decoders recurse."""

import asyncio
import re

from meantime.errors import Malformed

MOST_DEEP = 200
AT_ONCE = 1 << 20
"""So many bytes are looked at before others get their turn."""

_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")
_STRINGS = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)


async def check_depth(body: bytes) -> None:
    """Raise Malformed for JSON nested deeper than 200."""
    if len(body) <= 2 * MOST_DEEP:
        return
    if len(body) <= AT_ONCE:
        left = body.translate(None, _ALL_BUT_BRACKETS)
        if len(left) <= MOST_DEEP:
            return
        left = _without_pairs(left)
    else:
        left = b""
        for start in range(0, len(body), AT_ONCE):
            left = _without_pairs(left + body[start : start + AT_ONCE].translate(None, _ALL_BUT_BRACKETS))
            await asyncio.sleep(0)
    if left and _depth(_STRINGS.sub(b"", body)) > MOST_DEEP:
        raise too_deep()


def check_small(text: bytes) -> None:
    """The same for what is short anyhow, as headers are."""
    if len(text) > 2 * MOST_DEEP and _depth(_STRINGS.sub(b"", text)) > MOST_DEEP:
        raise too_deep()


def too_deep() -> Malformed:
    return Malformed(f"the JSON is nested deeper than {MOST_DEEP}")


def _without_pairs(brackets: bytes) -> bytes:
    """What is left when pairs are taken out from the inside, as many times as JSON may be deep. Of JSON that is not too deep
    nothing is left. Brackets inside of strings may leave something, so what is left is only a suspicion."""
    for _ in range(MOST_DEEP):
        before = len(brackets)
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(brackets) == before:
            break
    return brackets


def _depth(text: bytes) -> int:
    deepest = depth = 0
    for byte in text.translate(None, _ALL_BUT_BRACKETS):
        if byte in b"[{":
            depth += 1
            if depth > deepest:
                deepest = depth
                if deepest > MOST_DEEP:
                    return deepest
        else:
            depth -= 1
    return deepest
