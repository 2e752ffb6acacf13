"""Fields that nobody knows: most are misspelt. A form that allows none of them says which one it meant."""

import re
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from meantime.errors import Invalid, Malformed

_REPORT = re.compile(r"Object contains unknown field `(?P<name>.*?)`(?: - at `\$\.?(?P<place>.*)`)?", re.DOTALL)
_SHOWN = 100

KnownFields = Mapping[str, "KnownFields"]
"""The fields of an object, each with those of the object in it; empty where anything may be inside."""


def misspelt(error: msgspec.ValidationError, kind: Any, text: bytes | msgspec.Raw = b"{}") -> Invalid | Malformed | None:
    """What to tell the caller when `kind` knows no such field; None when that is not what is wrong with `text`."""
    found = _REPORT.fullmatch(str(error))
    if found is None:
        return None
    if not _is_json(text):
        return Malformed("the body is not JSON")
    name, place = found["name"][:_SHOWN], found["place"] or ""
    place = place if place != "[...]" else ""
    field = f"{place}.{name}" if place else name
    return Invalid(f"{field} is not known here{hint(name, set(_inside(known_fields(kind), place)))}", field=field)


def _is_json(text: bytes | msgspec.Raw) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def hint(name: str, known: set[str]) -> str:
    """`; did you mean …?` where a known name is near, otherwise all that is known."""
    nearest = get_close_matches(name, known, 1)
    if nearest:
        return f"; did you mean {nearest[0]}?"
    return f"; known are {', '.join(sorted(known))}" if known else ""


def unknown_fields(document: Any, known: KnownFields, place: str = "") -> Iterator[str]:
    """The fields of a JSON document that are not known, each with its place: `options.retention`."""
    if isinstance(document, list):
        for entry in document:
            yield from unknown_fields(entry, known, place)
    elif isinstance(document, dict) and known:
        for name, value in document.items():
            if name not in known:
                yield f"{place}{name}"
            else:
                yield from unknown_fields(value, known[name], f"{place}{name}.")


@cache
def known_fields(kind: Any) -> KnownFields:
    return _fields(inspect.type_info(kind))


def merged(first: KnownFields, second: KnownFields) -> KnownFields:
    return {name: merged(first.get(name, {}), second.get(name, {})) for name in {**first, **second}}


def _fields(kind: inspect.Type) -> KnownFields:
    if isinstance(kind, inspect.Metadata):
        return _fields(kind.type)
    if isinstance(kind, inspect.StructType):
        return {field.encode_name: _fields(field.type) for field in kind.fields}
    if isinstance(kind, inspect.ListType):
        return _fields(kind.item_type)
    if isinstance(kind, inspect.UnionType):
        found: KnownFields = {}
        for one in kind.types:
            found = merged(found, _fields(one))
        return found
    return {}


def _inside(known: KnownFields, place: str) -> KnownFields:
    for name in re.sub(r"\[[^]]*\]", "", place).split("."):
        known = known.get(name, {}) if name else known
    return known
