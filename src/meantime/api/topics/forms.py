"""What topics read over HTTP.

A batch is decoded in one go when all of it is well-formed. Otherwise each entry is decoded alone, so that a bad one is
judged alone; but a field that nobody knows is a mistake of the calling program and refuses the whole request. JSON bodies
are never looked into: their bytes are stored and sent as they came. Bounds are described here and enforced where they are
known, by topics themselves.
"""

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Raw

from meantime.errors import Invalid, Malformed
from meantime.names import IDENTIFIER
from meantime.topics.leasing.leasing import LONGEST_WAIT_MS, MOST_LEASES
from meantime.topics.model import MessageDraft, Refused
from meantime.topics.rules import MIN_AHEAD_MS
from meantime.topics.settings import BOUNDS, SettingsChange
from meantime.unknown_fields import misspelt

MOST_ENTRIES = 10_000
MOST_REDRIVEN = 10_000
LEASES = 10
LEASE_MS = 30_000

Form = TypeVar("Form")


def bounds(least: int, most: int) -> Meta:
    return Meta(extra_json_schema={"minimum": least, "maximum": most})


def _setting(name: str) -> Meta:
    return bounds(*BOUNDS[name])


ONE_INSTANT = Meta(
    extra_json_schema={
        "oneOf": [{"required": [name], "properties": {name: {"type": "integer"}}} for name in ("at_ms", "after_ms")]
    }
)
ENTRIES = Meta(extra_json_schema={"minItems": 1, "maxItems": MOST_ENTRIES})
Identifier = Annotated[str, Meta(extra_json_schema={"pattern": f"^{IDENTIFIER.pattern}$"})]
LeaseLimit = Annotated[int, bounds(1, MOST_LEASES)]
LeaseTime = Annotated[
    int, Meta(extra_json_schema={"minimum": MIN_AHEAD_MS}, description="At most the topic's max_lease_ms.")
]


class SettingsForm(SettingsChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a topic; one that is left out keeps its value."""

    bucket_count: Annotated[int, _setting("bucket_count")] | None = None
    max_future_ms: Annotated[int, _setting("max_future_ms")] | None = None
    max_lease_ms: Annotated[int, _setting("max_lease_ms")] | None = None
    max_body_bytes: Annotated[int, _setting("max_body_bytes")] | None = None
    max_attempts: Annotated[int, _setting("max_attempts")] | None = None
    dead_letter_topic: Identifier | None = None
    dedupe_ms: Annotated[int, _setting("dedupe_ms")] | None = None


class DraftForm(MessageDraft, frozen=True, forbid_unknown_fields=True):
    """A message: when it is due, and any JSON or (`body_b64`) any bytes."""

    id: Identifier | None = None
    body: Raw = msgspec.field(default_factory=Raw)
    body_b64: Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})] | None = None


class DraftsForm(msgspec.Struct, forbid_unknown_fields=True):
    messages: Annotated[list[Annotated[DraftForm, ONE_INSTANT]], ENTRIES]


class FinishedForm(msgspec.Struct, forbid_unknown_fields=True):
    """A lease, by the version that its holder got."""

    id: str
    version: int | None = None


class ClaimForm(FinishedForm, forbid_unknown_fields=True):
    """A lease, and when it is to end or the message to be due: one of the instants."""

    at_ms: int | None = None
    after_ms: int | None = None


class ClaimsForm(msgspec.Struct, forbid_unknown_fields=True):
    leases: Annotated[list[ClaimForm], ENTRIES]
    consumer_id: Identifier | None = None


class FinishForm(msgspec.Struct, forbid_unknown_fields=True):
    leases: Annotated[list[FinishedForm], ENTRIES]
    consumer_id: Identifier | None = None


class IdsForm(msgspec.Struct, forbid_unknown_fields=True):
    ids: Annotated[list[str], ENTRIES]


class DraftEntries(msgspec.Struct, forbid_unknown_fields=True):
    """A batch whose entries are not looked into yet."""

    messages: list[Raw] | None = None


class ClaimEntries(msgspec.Struct, forbid_unknown_fields=True):
    leases: list[Raw] | None = None
    consumer_id: str | None = None


class IdEntries(msgspec.Struct, forbid_unknown_fields=True):
    ids: list[Raw] | None = None


class PullForm(msgspec.Struct, forbid_unknown_fields=True):
    consumer_id: Identifier | None = None
    limit: LeaseLimit | None = LEASES
    lease_ms: LeaseTime | None = LEASE_MS
    wait_ms: Annotated[int, bounds(0, LONGEST_WAIT_MS)] | None = 0


class MoveForm(msgspec.Struct, forbid_unknown_fields=True):
    at_ms: int | None = None
    after_ms: int | None = None
    version: int | None = None


class RedriveForm(msgspec.Struct, forbid_unknown_fields=True):
    to: Annotated[str, Meta(description="A topic; 404 where there is none of this name.")] | None = None
    limit: Annotated[int, bounds(1, MOST_REDRIVEN)] | None = MOST_REDRIVEN


class ProducerHeader(msgspec.Struct, rename={"group": "X-Producer-Group"}):
    group: Identifier


class AnyProducerHeader(msgspec.Struct, rename={"group": "X-Producer-Group"}):
    group: Identifier | None = None


class ConsumerQuery(msgspec.Struct, forbid_unknown_fields=True):
    consumer_id: Identifier | None = None


class _Named(msgspec.Struct):
    id: str | None = None


def read(body: bytes, form: type[Form]) -> Form:
    """An empty body is an empty form."""
    try:
        if not body.isascii():
            body.decode()
        return msgspec.json.decode(body or b"{}", type=form)
    except msgspec.ValidationError as error:
        raise misspelt(error, form, body) or Malformed(f"the body cannot be read: {error}") from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body cannot be read: {error}") from error


def read_drafts(body: bytes) -> Sequence[MessageDraft | Refused]:
    try:
        drafts: Sequence[MessageDraft | Refused] | None = read(body, DraftsForm).messages
    except Malformed:
        entries = read(body, DraftEntries).messages
        drafts = None if entries is None else [_draft(entry) for entry in entries]
    return check_batch(drafts, "messages")


def read_claims(body: bytes) -> tuple[str | None, Sequence[ClaimForm | Refused]]:
    """Who asks, and about which leases."""
    try:
        form = read(body, ClaimsForm)
        return form.consumer_id, check_batch(form.leases, "leases")
    except Malformed:
        loose = read(body, ClaimEntries)
        entries = check_batch(loose.leases, "leases")
        return loose.consumer_id, [_claim(entry) for entry in entries]


def read_ids(body: bytes) -> list[str | None]:
    """None for an entry that is not a string."""
    entries = check_batch(read(body, IdEntries).ids, "ids")
    return [_decoded(entry, str) for entry in entries]


def check_batch(entries: Sequence[Form] | None, field: str) -> Sequence[Form]:
    if not entries:
        raise Invalid(f"{field} is empty; give 1 to {MOST_ENTRIES} entries", field=field)
    if len(entries) > MOST_ENTRIES:
        raise Invalid(f"{field} has {len(entries)} entries; at most {MOST_ENTRIES} are taken at once", field=field)
    return entries


def _draft(entry: Raw) -> MessageDraft | Refused:
    try:
        return msgspec.json.decode(entry, type=DraftForm)
    except msgspec.ValidationError as error:
        if fault := misspelt(error, DraftForm, entry):
            raise fault from error
        return Refused(_id_of(entry), str(error))


def _claim(entry: Raw) -> ClaimForm | Refused:
    """A version or an instant that cannot be read is none: what follows from that is for the rules to say."""
    try:
        return msgspec.json.decode(entry, type=ClaimForm)
    except msgspec.ValidationError as error:
        if fault := misspelt(error, ClaimForm, entry):
            raise fault from error
        fields = _decoded(entry, dict[str, Any]) or {}
        message_id = fields.get("id")
        if not isinstance(message_id, str):
            return Refused(None, str(error))
        version = fields.get("version")
        return ClaimForm(message_id, version if type(version) is int else None)


def _id_of(entry: Raw) -> str | None:
    named = _decoded(entry, _Named)
    return named.id if named else None


def _decoded(entry: Raw, kind: type[Form]) -> Form | None:
    try:
        return msgspec.json.decode(entry, type=kind)
    except msgspec.DecodeError:
        return None
