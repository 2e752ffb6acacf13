"""Whether an event is what its event type promised, decided by schemas that are compiled once per declaration."""

from typing import Any

from meantime.streams.catalog.schemas import (
    Validator,
    compile_schema,
    declared_schema,
    envelope_schema,
    first_line,
    payload_schema,
)
from meantime.streams.model import BUSINESS, DATA, UNDEFINED, EventType

_NOTES = frozenset({"$schema", "$id", "title", "description", "$comment"})
_ANYTHING: tuple[dict[str, Any], ...] = (
    {},
    {"type": "object"},
    {"additionalProperties": True},
    {"type": "object", "additionalProperties": True},
)


class Validation:
    """The compiled rules of one event type. `trivial` tells that every object is fine, so none has to be looked at."""

    def __init__(self, event_type: EventType) -> None:
        declared = payload_schema(declared_schema(event_type.document), event_type.category)
        self.trivial = event_type.category == UNDEFINED and _is_anything(declared)
        self._category = event_type.category
        self._payload = compile_schema(declared)
        self._payload_is_anything = _is_anything(declared)
        self._envelope = compile_schema(envelope_schema(event_type.category, event_type.name))

    def fault(self, event: dict[str, Any]) -> str | None:
        """What is wrong with the event, or None."""
        if self.trivial:
            return None
        try:
            return self._fault(event)
        except (ValueError, RecursionError) as error:
            return f"the event cannot be held against its schema: {first_line(error)}"

    def _fault(self, event: dict[str, Any]) -> str | None:
        if self._category != UNDEFINED and not self._envelope.is_valid(event):
            return _first_error(self._envelope, event, "#")
        if self._payload_is_anything:
            return None
        payload, place = self._payload_of(event)
        return None if self._payload.is_valid(payload) else _first_error(self._payload, payload, place)

    def _payload_of(self, event: dict[str, Any]) -> tuple[Any, str]:
        if self._category == DATA:
            return event["data"], "#/data"
        if self._category == BUSINESS:
            payload = event.copy()
            del payload["metadata"]
            return payload, "#"
        return event, "#"


def _first_error(validator: Validator, instance: Any, place: str) -> str:
    error = next(iter(validator.iter_errors(instance)))
    return f"{'/'.join([place, *map(str, error.instance_path)])}: {error.message}"


def _is_anything(schema: dict[str, Any]) -> bool:
    return {key: value for key, value in schema.items() if key not in _NOTES} in _ANYTHING
