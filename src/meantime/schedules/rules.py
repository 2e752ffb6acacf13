"""The decisions of schedules, as pure functions: what may be asked for, names, jitter. A refusal names the field."""

from base64 import b64decode
from hashlib import blake2b
from itertools import pairwise

import msgspec

from meantime.errors import Invalid
from meantime.names import EVENT_TYPE as EVENT_TYPE_NAME
from meantime.names import IDENTIFIER, check_event_type, check_identifier, has_nul
from meantime.schedules.calendar import calendar_of, check_cron, first_after
from meantime.schedules.model import DAY_MS, Recurrence, ScheduleDeclaration, ScheduleDraft, ScheduleTarget
from meantime.schedules.templates import template_of
from meantime.schedules.zones import zone_names
from meantime.unknown_fields import hint

LATEST_MS = 4_102_444_800_000
"""2100; no instant lies after it."""
LEAST_EVERY_MS = 1_000
MOST_EVERY_MS = 366 * DAY_MS
MOST_INSTANTS = 10_000
MOST_CRON = 256
MOST_ID = 100
"""Characters; with what is added to it an id still names a message and a timer."""
MOST_NOTE = 1_000
MOST_BODY = 262_144

_NULL = b"null"


def check_id(schedule_id: str) -> str:
    check_identifier(schedule_id, "schedule")
    if len(schedule_id) > MOST_ID:
        raise Invalid(f"the name of a schedule has at most {MOST_ID} characters, not {len(schedule_id)}", field="id")
    return schedule_id


def declared(draft: ScheduleDraft, now_ms: int) -> ScheduleDeclaration:
    """What is asked for, or the first reason why not."""
    recurrence = recurrence_of(draft)
    if first_after(calendar_of(recurrence), now_ms) is None:
        field = "ends_at_ms" if recurrence.ends_at_ms is not None else "at_ms" if recurrence.at_ms else "cron"
        raise Invalid("it never fires: nothing is left of it after now", field=field)
    if draft.target is None:
        raise Invalid("target is missing: {topic, group}, {event_type} or {kafka_topic, key}", field="target")
    return with_target(draft, recurrence, draft.target)


def previewed(draft: ScheduleDraft) -> Recurrence:
    """When it would fire, if all that is asked for makes sense; its target may be left out."""
    recurrence = recurrence_of(draft)
    with_target(draft, recurrence, draft.target or ScheduleTarget(topic="any", group="any"))
    return recurrence


def with_target(draft: ScheduleDraft, recurrence: Recurrence, asked: ScheduleTarget) -> ScheduleDeclaration:
    target, (body, is_json) = checked_target(asked), _body(draft)
    if target.event_type is not None and not (is_json and body.lstrip()[:1] == b"{"):
        raise Invalid("the body for an event type must be a JSON object", field="body")
    if target.topic is None and draft.overlap == "skip":
        raise Invalid("only messages of a topic can be looked for: overlap skip needs a topic", field="overlap")
    check_note(draft.note)
    return ScheduleDeclaration(
        recurrence=recurrence,
        target=target,
        body=body,
        is_json=is_json,
        missed=draft.missed or "last",
        missed_within_ms=_within("missed_within_ms", draft.missed_within_ms, 0, MOST_EVERY_MS, DAY_MS),
        overlap=draft.overlap or "allow",
        jitter_ms=_within("jitter_ms", draft.jitter_ms, 0, DAY_MS, 0),
        max_firings=_optional("max_firings", draft.max_firings, 1, 2**31 - 1),
    )


def recurrence_of(draft: ScheduleDraft) -> Recurrence:
    given = [name for name in ("cron", "every_ms", "at_ms") if getattr(draft, name) is not None]
    if len(given) != 1:
        raise Invalid("give exactly one of cron, every_ms and at_ms", field=given[1] if given else "cron")
    if draft.phase_ms is not None and draft.every_ms is None:
        raise Invalid("phase_ms goes with every_ms", field="phase_ms")
    every_ms = _optional("every_ms", draft.every_ms, LEAST_EVERY_MS, MOST_EVERY_MS)
    starts_at_ms = _optional("starts_at_ms", draft.starts_at_ms, 0, LATEST_MS)
    ends_at_ms = _optional("ends_at_ms", draft.ends_at_ms, 0, LATEST_MS)
    if starts_at_ms is not None and ends_at_ms is not None and ends_at_ms <= starts_at_ms:
        raise Invalid("ends_at_ms must be after starts_at_ms", field="ends_at_ms")
    return Recurrence(
        cron=_cron(draft.cron),
        every_ms=every_ms,
        phase_ms=_within("phase_ms", draft.phase_ms, 0, (every_ms or 1) - 1, 0),
        at_ms=_instants(draft.at_ms),
        time_zone=_zone(draft.time_zone or "UTC"),
        on_gap=draft.on_gap or "after",
        on_overlap=draft.on_overlap or "first",
        starts_at_ms=starts_at_ms,
        ends_at_ms=ends_at_ms,
    )


def checked_target(target: ScheduleTarget) -> ScheduleTarget:
    """Exactly one kind, with nothing of another."""
    kinds = [name for name in ("topic", "event_type", "kafka_topic") if getattr(target, name) is not None]
    if len(kinds) != 1:
        raise Invalid("a target is a topic with a group, an event_type, or a kafka_topic with a key", field="target")
    if (target.group is not None) != (target.topic is not None):
        raise Invalid("a topic needs a group, which owns its messages, and nothing else has one", field="target.group")
    if target.key is not None and target.kafka_topic is None:
        raise Invalid("only a kafka_topic has a key", field="target.key")
    for field in ("topic", "group"):
        name = getattr(target, field)
        if name is not None and not IDENTIFIER.fullmatch(name):
            raise Invalid(f"{name!r} cannot be a {field}", field=f"target.{field}")
    if target.event_type is not None and not EVENT_TYPE_NAME.fullmatch(target.event_type):
        raise Invalid(f"{target.event_type!r} cannot be an event type", field="target.event_type")
    if target.event_type is not None:
        check_event_type(target.event_type)
    if target.kafka_topic is not None and (not target.kafka_topic or has_nul(target.kafka_topic) or has_nul(target.key)):
        raise Invalid("this cannot be a Kafka topic and key", field="target.kafka_topic")
    return target if type(target) is ScheduleTarget else ScheduleTarget(**msgspec.structs.asdict(target))


def check_note(note: str | None) -> None:
    if note is not None and (len(note) > MOST_NOTE or has_nul(note)):
        raise Invalid(f"a note has at most {MOST_NOTE} characters, and no U+0000", field="note")


def natural_id(schedule_id: str, at_ms: int) -> str:
    """Of the message or timer of an instant."""
    return f"s:{schedule_id}@{at_ms}"


def jitter(schedule_id: str, at_ms: int, jitter_ms: int) -> int:
    """The same for the same schedule and instant, on every node and after every restart."""
    if jitter_ms == 0:
        return 0
    return int.from_bytes(blake2b(natural_id(schedule_id, at_ms).encode(), digest_size=8).digest()) % (jitter_ms + 1)


def _cron(expression: str | None) -> str | None:
    if expression is None:
        return None
    text = " ".join(expression.split())
    if len(text) > MOST_CRON or not text.isascii():
        raise Invalid(f"cron has at most {MOST_CRON} characters, all of them ASCII", field="cron")
    fault = check_cron(text)
    if fault is not None:
        raise Invalid(f"cron {text!r}: {fault}", field="cron")
    return text


def _zone(name: str) -> str:
    known = zone_names()
    if name not in known:
        raise Invalid(f"time_zone {name[:100]!r} is not in the IANA database{_nearest(name)}", field="time_zone")
    return name


def _nearest(name: str) -> str:
    near = hint(name[:100], set(zone_names()))
    return near if "did you mean" in near else "; a name is like Europe/Berlin"


def _instants(given: list[int] | None) -> tuple[int, ...] | None:
    if given is None:
        return None
    if not 1 <= len(given) <= MOST_INSTANTS:
        raise Invalid(f"at_ms has 1 to {MOST_INSTANTS} instants, not {len(given)}", field="at_ms")
    ordered = tuple(sorted(set(given)))
    if ordered[0] < 0 or ordered[-1] > LATEST_MS:
        raise Invalid(f"an instant lies between 0 and {LATEST_MS}", field="at_ms")
    if any(second - first < LEAST_EVERY_MS for first, second in pairwise(ordered)):
        raise Invalid("instants of a schedule are at least a second apart", field="at_ms")
    return ordered


def _optional(field: str, value: int | None, least: int, most: int) -> int | None:
    if value is not None and not least <= value <= most:
        why = "; a schedule fires at most once a second" if field == "every_ms" and value < least else ""
        raise Invalid(f"{field} must be from {least} to {most}, not {value}{why}", field=field)
    return value


def _within(field: str, value: int | None, least: int, most: int, default: int) -> int:
    checked = _optional(field, value, least, most)
    return default if checked is None else checked


def _body(draft: ScheduleDraft) -> tuple[bytes, bool]:
    given = bytes(draft.body).strip()
    if draft.body_b64 is None:
        body, is_json = (template_of(given), True) if given else (_NULL, True)
    elif given and given != _NULL:
        raise Invalid("give only one of body and body_b64", field="body")
    else:
        body, is_json = _decoded(draft.body_b64), False
    if len(body) > MOST_BODY:
        raise Invalid(f"the body has {len(body)} bytes; at most {MOST_BODY} are taken", field="body")
    return body, is_json


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise Invalid("body_b64 is not base64", field="body_b64") from error
