"""Bodies: a JSON text in which four words in double braces are filled in. Nothing else is evaluated.

What is filled in is made of letters, digits and `.:@_+-` only, so it can neither end a JSON text nor begin one. A body that
is given as a string is the template itself, so that numbers may stand without quotes: `{"n": {{firing}}}`.
"""

import re
from dataclasses import dataclass

import msgspec

from meantime.clock import rfc3339
from meantime.errors import UNREADABLE, Invalid
from meantime.json_depth import MOST_DEEP, is_shallow

WORDS = ("schedule", "instant", "scheduled_at", "firing")
_PLACE = re.compile(rb"\{\{(schedule|instant|scheduled_at|firing)\}\}")


@dataclass(frozen=True, slots=True)
class Filling:
    """`firing` is the number of the firing, from 1."""

    schedule: str
    at_ms: int
    firing: int


def filled(template: bytes, filling: Filling) -> bytes:
    if b"{{" not in template:
        return template
    words = {
        b"schedule": filling.schedule.encode(),
        b"instant": str(filling.at_ms).encode(),
        b"scheduled_at": rfc3339(filling.at_ms).encode(),
        b"firing": str(filling.firing).encode(),
    }
    return _PLACE.sub(lambda found: words[found[1]], template)


def template_of(body: bytes) -> bytes:
    """The template that a body is: its own text, or the text in it if it is a string."""
    try:
        given = msgspec.json.decode(body)
        template = given.encode() if isinstance(given, str) else body
        sample = filled(template, Filling("sample", 0, 1))
        msgspec.json.decode(sample)
    except UNREADABLE as error:
        raise Invalid(
            f"body is not JSON when its words are filled in ({error}); a text stands in quotes of its own", field="body"
        ) from error
    if not is_shallow(sample):
        raise Invalid(f"body is nested deeper than {MOST_DEEP}", field="body")
    return template
