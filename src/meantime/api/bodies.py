"""What a route takes: how the bytes of its body become what its handler gets, and the type that describes them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from meantime.errors import Invalid, Malformed
from meantime.names import has_nul
from meantime.unknown_fields import KnownFields, known_fields, merged, misspelt


@dataclass(frozen=True, slots=True)
class Takes:
    """A body. `type` describes it in the OpenAPI document; `read` makes of it what the handler gets. Fields
    beside those that are `known` are ignored, and named in the answer; where none are, nothing is ignored."""

    type: Any
    read: Callable[[bytes], Any]
    optional: bool = False
    known: KnownFields = field(default_factory=dict)


def form(kind: Any) -> Takes:
    """The body becomes an object of this type. An empty body is an empty form."""
    decoder = msgspec.json.Decoder(kind)
    fields = msgspec.structs.fields(kind)

    def read(body: bytes) -> Any:
        try:
            if not body.isascii():
                body.decode()
            return decoder.decode(body or b"{}")
        except msgspec.ValidationError as error:
            raise misspelt(error, kind, body) or unreadable(error) from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise unreadable(error) from error

    return Takes(kind, read, optional=not any(field.required for field in fields))


def document(kind: Any, shown: Any = None, *, optional: bool = False) -> Takes:
    """The body becomes a plain JSON object: its slice decides what it means. Whoever sends back what was `shown` to them
    sends nothing unknown."""
    known = known_fields(kind) if shown is None else merged(known_fields(kind), known_fields(shown))

    def read(body: bytes) -> dict[str, Any]:
        found = decoded(body or (b"{}" if optional else b""))
        if not isinstance(found, dict):
            raise Malformed("the body must be a JSON object")
        if b"\\u0000" in body and has_nul(found):
            raise Invalid("texts must not contain the character U+0000: it cannot be stored")
        return found

    return Takes(kind, read, optional, known)


def raw(kind: Any) -> Takes:
    """The body stays as it is: its slice decodes each entry alone, or never looks into it."""
    return Takes(kind, lambda body: body)


def decoded(text: bytes | str, what: str = "the body") -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"{what} is not JSON: {error}") from error


def unreadable(error: Exception, what: str = "the body") -> Malformed | Invalid:
    """A value out of its bounds is invalid; anything else cannot be read."""
    text = str(error)
    if isinstance(error, msgspec.ValidationError) and ", got `" not in text:
        place = text.rpartition("at `$")[2].strip("`.") if "at `$" in text else ""
        return Invalid(text, field=place) if place else Invalid(text)
    return Malformed(f"{what} cannot be read: {text}")
