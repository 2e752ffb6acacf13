"""What a new version of a schema may change."""

from typing import Any

import pytest

from meantime.errors import Invalid
from meantime.streams.catalog.compatibility import check_change, first_break

ORDER: dict[str, Any] = {
    "title": "An order",
    "type": "object",
    "properties": {
        "id": {"type": "string", "maxLength": 10},
        "address": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "lines": {"type": "array", "items": {"properties": {"sku": {"$ref": "#/definitions/sku"}}}},
    },
    "required": ["id", "address"],
    "definitions": {"sku": {"type": "string"}},
}


def changed(*path: str, to: Any) -> dict[str, Any]:
    """The order with one place changed; None removes it."""
    return _changed(ORDER, path, to)


def _changed(part: dict[str, Any], path: tuple[str, ...], to: Any) -> dict[str, Any]:
    first, *rest = path
    copy = dict(part)
    if rest:
        copy[first] = _changed(copy.get(first, {}), tuple(rest), to)
    elif to is None:
        del copy[first]
    else:
        copy[first] = to
    return copy


@pytest.mark.parametrize(
    "new",
    [
        ORDER,
        changed("properties", "note", to={"type": "string"}),
        changed("properties", "address", "properties", "zip", to={"type": "string"}),
        changed("properties", "lines", "items", "properties", "count", to={"type": "integer"}),
        changed("definitions", "price", to={"type": "number"}),
        changed("$defs", to={"price": {"type": "number"}}),
        changed("title", to="A better name"),
        changed("properties", "id", "description", to="What it is called"),
        changed("required", to=["address", "id"]),
    ],
)
def test_optional_properties_definitions_and_notes_may_be_added(new: dict[str, Any]) -> None:
    assert first_break(ORDER, new) is None
    check_change("compatible", "compatible", ORDER, new)


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (changed("properties", "id", to=None), "#/properties/id was removed"),
        (changed("properties", to=None), "#/properties was removed"),
        (changed("properties", "id", "type", to="integer"), "#/properties/id/type was changed"),
        (changed("properties", "id", "maxLength", to=20), "#/properties/id/maxLength was changed"),
        (changed("properties", "id", "minLength", to=1), "#/properties/id/minLength was added"),
        (changed("required", to=["id", "address", "lines"]), "#/required was changed"),
        (changed("required", to=["id"]), "#/required was changed"),
        (changed("properties", "address", "required", to=None), "#/properties/address/required was removed"),
        (changed("definitions", "sku", "type", to="integer"), "#/definitions/sku/type was changed"),
        (changed("additionalProperties", to=False), "#/additionalProperties was added"),
        (changed("properties", "id", "maxLength", to=True), "#/properties/id/maxLength was changed"),
    ],
)
def test_every_other_change_is_named_and_refused(new: dict[str, Any], said: str) -> None:
    assert first_break(ORDER, new) == said
    with pytest.raises(Invalid, match="not compatible"):
        check_change("compatible", "compatible", ORDER, new)


@pytest.mark.parametrize("mode", ["forward", "none"])
def test_other_modes_let_everything_change(mode: str) -> None:
    for new_mode in ("compatible", "forward", "none"):
        check_change(mode, new_mode, ORDER, {})


def test_a_compatible_event_type_stays_so() -> None:
    with pytest.raises(Invalid, match="compatibility_mode"):
        check_change("compatible", "none", ORDER, ORDER)
