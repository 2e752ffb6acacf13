"""What schedules read over HTTP. Bounds are described here and enforced by the slice, which names the field."""

from typing import Annotated

import msgspec
from msgspec import Meta, Raw

from meantime.names import IDENTIFIER
from meantime.schedules.model import DAY_MS, Fold, Gap, Missed, Overlap, ScheduleDraft, ScheduleTarget

LATEST_MS = 4_102_444_800_000
MOST_NEXT = 1_000
MOST_LISTED = 1_000
MOST_INSTANTS = 10_000


def bounds(least: int, most: int) -> Meta:
    return Meta(extra_json_schema={"minimum": least, "maximum": most})


Identifier = Annotated[str, Meta(extra_json_schema={"pattern": f"^{IDENTIFIER.pattern}$"})]
Instant = Annotated[int, bounds(0, LATEST_MS)]
Count = Annotated[int, bounds(1, MOST_NEXT)]


class TargetForm(ScheduleTarget, frozen=True, forbid_unknown_fields=True):
    """`topic` with the `group` that owns its messages, or `event_type`, or `kafka_topic` with a `key`."""

    topic: Identifier | None = None
    group: Identifier | None = None
    event_type: str | None = None
    kafka_topic: str | None = None
    key: str | None = None


class ScheduleForm(ScheduleDraft, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule: one of `cron`, `every_ms` and `at_ms`, and its target. What is left out has its default."""

    cron: Annotated[str, Meta(description="Five fields, or six with seconds first.")] | None = None
    every_ms: Annotated[int, bounds(1_000, 366 * DAY_MS)] | None = None
    phase_ms: Annotated[int, Meta(description="Less than every_ms.", extra_json_schema={"minimum": 0})] | None = None
    at_ms: Annotated[list[Instant], Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_INSTANTS})] | None = None
    time_zone: Annotated[str, Meta(description="A name of the IANA database; UTC.")] | None = None
    target: TargetForm | None = None
    body: Raw = msgspec.field(default_factory=Raw)
    body_b64: Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})] | None = None
    on_gap: Gap | None = "after"
    on_overlap: Fold | None = "first"
    missed: Missed | None = "last"
    missed_within_ms: Annotated[int, bounds(0, 366 * DAY_MS)] | None = DAY_MS
    overlap: Overlap | None = "allow"
    jitter_ms: Annotated[int, bounds(0, DAY_MS)] | None = 0
    starts_at_ms: Instant | None = None
    ends_at_ms: Instant | None = None
    max_firings: Annotated[int, bounds(1, 2**31 - 1)] | None = None
    paused: Annotated[bool, Meta(description="Left out, it stays as it is; a new one is not paused.")] | None = None
    note: Annotated[str, Meta(description="Left out, it stays as it is.", extra_json_schema={"maxLength": 1_000})] | None = (
        None
    )
    version: Annotated[int, Meta(description="The version that is to be changed; 409 when it is another.")] | None = None


class PreviewForm(ScheduleForm, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A schedule that is not stored; its target may be left out."""

    count: Count | None = 10
    from_ms: Instant | None = None


class PauseForm(msgspec.Struct, forbid_unknown_fields=True):
    note: Annotated[str, Meta(extra_json_schema={"maxLength": 1_000})] | None = None


class PrefixForm(msgspec.Struct, forbid_unknown_fields=True):
    prefix: Annotated[str, Meta(description="How the ids begin; empty for all that the caller may change.")]


class PausePrefixForm(PrefixForm, forbid_unknown_fields=True):
    note: Annotated[str, Meta(extra_json_schema={"maxLength": 1_000})] | None = None


class FireForm(msgspec.Struct, forbid_unknown_fields=True):
    at_ms: Annotated[Instant, Meta(description="Its natural id: the same again is the same firing; now.")] | None = None


class BackfillForm(msgspec.Struct, forbid_unknown_fields=True):
    from_ms: Instant
    to_ms: Annotated[Instant, Meta(description="After from_ms, not after now.")]
    dry_run: bool | None = False


class ListQuery(msgspec.Struct, forbid_unknown_fields=True):
    prefix: str = ""
    target: Annotated[str, Meta(description="`topic:<name>`, `event_type:<name>` or `kafka_topic:<name>`.")] | None = None
    paused: bool | None = None
    moved: Annotated[bool, Meta(description="Those whose firings another release of tzdata has moved.")] = False
    after: Annotated[str, Meta(description="The id after which the list begins; `next` of the page before.")] = ""
    limit: Annotated[int, bounds(1, MOST_LISTED)] = 100


class NextQuery(msgspec.Struct, forbid_unknown_fields=True):
    count: Count = 10
    from_ms: Instant | None = None


class FiringsQuery(msgspec.Struct, forbid_unknown_fields=True):
    from_ms: Instant | None = None
    to_ms: Instant | None = None
    limit: Annotated[int, bounds(1, MOST_LISTED)] = 100
