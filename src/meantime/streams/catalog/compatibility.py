"""What a new version of a schema may change, by the event type's compatibility mode.

    compatible   optional properties and definitions may be added, at any depth; nothing else, and the mode stays
    forward      anything
    none         anything

Texts for people (titles, descriptions) may always change.
"""

from collections.abc import Mapping
from typing import Any

from meantime.errors import Invalid

COMPATIBLE = "compatible"
MODES = (COMPATIBLE, "forward", "none")

_NOTES = frozenset({"title", "description", "$comment", "examples"})
_GROWING = frozenset({"properties", "definitions", "$defs"})
_ABSENT: Any = object()

Schema = Mapping[str, Any]


def check_change(mode: str, new_mode: str, old: Schema, new: Schema) -> None:
    """`Invalid` says what was changed that may not be."""
    if mode != COMPATIBLE:
        return
    if new_mode != COMPATIBLE:
        raise Invalid(f"compatibility_mode cannot be changed from {COMPATIBLE!r} to {new_mode!r}")
    changed = first_break(old, new)
    if changed is not None:
        raise Invalid(f"the schema is not compatible with the one before: {changed}; only optional properties may be added")


def first_break(old: Schema, new: Schema, place: str = "#") -> str | None:
    """The first change that is more than an addition, or None."""
    for key in sorted((old.keys() | new.keys()) - _NOTES):
        broken = _break_at(key, old.get(key, _ABSENT), new.get(key, _ABSENT), f"{place}/{key}")
        if broken is not None:
            return broken
    return None


def _break_at(key: str, old: Any, new: Any, place: str) -> str | None:
    if key in _GROWING and isinstance(new, dict) and (old is _ABSENT or isinstance(old, dict)):
        return _first_missing({} if old is _ABSENT else old, new, place)
    if key == "required" and isinstance(old, list) and isinstance(new, list):
        return None if set(map(str, old)) == set(map(str, new)) else f"{place} was changed"
    return _break_of(old, new, place)


def _first_missing(old: Schema, new: Schema, place: str) -> str | None:
    for name, part in old.items():
        broken = _break_of(part, new.get(name, _ABSENT), f"{place}/{name}")
        if broken is not None:
            return broken
    return None


def _break_of(old: Any, new: Any, place: str) -> str | None:
    if isinstance(old, dict) and isinstance(new, dict):
        return first_break(old, new, place)
    if new is _ABSENT:
        return f"{place} was removed"
    if old is _ABSENT:
        return f"{place} was added"
    # In Python True equals 1 and 1 equals 1.0; in a schema the first are different and the second are not.
    return None if old == new and isinstance(old, bool) == isinstance(new, bool) else f"{place} was changed"
