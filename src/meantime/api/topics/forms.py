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
from meantime.topics.filters import STATUSES
from meantime.topics.leasing.leasing import LONGEST_WAIT_MS, MOST_LEASES
from meantime.topics.model import MessageDraft, Refused
from meantime.topics.rules import MIN_AHEAD_MS, MOST_REASON
from meantime.topics.settings import BOUNDS, RETRY_BOUNDS, RetryChange, SettingsChange
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


def _retry(name: str) -> Meta:
    return bounds(*RETRY_BOUNDS[name])


class RetryForm(RetryChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """When a message that is released without an instant is due again; what is left out keeps its value."""

    delay_ms: Annotated[int, _retry("delay_ms")] | None = None
    factor: Annotated[float, _retry("factor")] | None = None
    max_ms: Annotated[int, _retry("max_ms")] | None = None
    jitter: Annotated[float, _retry("jitter")] | None = None


class SettingsForm(SettingsChange, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Settings of a topic; one that is left out keeps its value."""

    bucket_count: Annotated[int, _setting("bucket_count")] | None = None
    max_future_ms: Annotated[int, _setting("max_future_ms")] | None = None
    max_lease_ms: Annotated[int, _setting("max_lease_ms")] | None = None
    max_body_bytes: Annotated[int, _setting("max_body_bytes")] | None = None
    max_attempts: Annotated[int, _setting("max_attempts")] | None = None
    dead_letter_topic: Identifier | None = None
    dedupe_ms: Annotated[int, _setting("dedupe_ms")] | None = None
    retry: RetryForm | None = None


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


class ReleaseForm(ClaimForm, forbid_unknown_fields=True):
    """A lease, when its message is to be due again (without an instant: when the topic's `retry` says), and why."""

    reason: Annotated[str, Meta(extra_json_schema={"maxLength": MOST_REASON})] | None = None


class ClaimsForm(msgspec.Struct, forbid_unknown_fields=True):
    leases: Annotated[list[ClaimForm], ENTRIES]
    consumer_id: Identifier | None = None


class ReleasesForm(msgspec.Struct, forbid_unknown_fields=True):
    leases: Annotated[list[ReleaseForm], ENTRIES]
    consumer_id: Identifier | None = None


class FinishForm(msgspec.Struct, forbid_unknown_fields=True):
    leases: Annotated[list[FinishedForm], ENTRIES]
    consumer_id: Identifier | None = None


class FilterForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which messages are meant: all conditions that are given. `ids` go with `status` only."""

    status: Annotated[str, Meta(extra_json_schema={"enum": list(STATUSES)})] | None = None
    from_ms: int | None = None
    to_ms: Annotated[int, Meta(description="Exclusive.")] | None = None
    id_prefix: Identifier | None = None
    ids: Annotated[list[str], ENTRIES] | None = None


EXPECT = Annotated[int, Meta(ge=0, description="How many the filter holds; with another number nothing is changed.")]
DRY_RUN = Annotated[bool, Meta(description="Only say how many would be changed; nothing is.")]


class MoveManyForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    filter: FilterForm
    at_ms: int | None = None
    after_ms: int | None = None
    expect: EXPECT | None = None
    dry_run: DRY_RUN = False


class DeleteManyForm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """By their owner those of `ids`, with a result for each; or all that `filter` holds."""

    ids: Annotated[list[str], ENTRIES] | None = None
    filter: FilterForm | None = None
    expect: EXPECT | None = None
    dry_run: DRY_RUN = False


class DraftEntries(msgspec.Struct, forbid_unknown_fields=True):
    """A batch whose entries are not looked into yet."""

    messages: list[Raw] | None = None


class ClaimEntries(msgspec.Struct, forbid_unknown_fields=True):
    leases: list[Raw] | None = None
    consumer_id: str | None = None


class IdEntries(msgspec.Struct, forbid_unknown_fields=True):
    ids: list[Raw] | None = None
    filter: Raw = Raw()
    expect: int | None = None
    dry_run: bool = False


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


class MessageQuery(ConsumerQuery, forbid_unknown_fields=True):
    all: Annotated[bool, Meta(description="Whoever owns it; asks for the scope of operators.")] = False


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
    return _read_claims(body, ClaimsForm, ClaimForm)


def read_releases(body: bytes) -> tuple[str | None, Sequence[ClaimForm | Refused]]:
    """The same about leases that are given back."""
    return _read_claims(body, ReleasesForm, ReleaseForm)


def _read_claims(
    body: bytes, batch: type[ClaimsForm | ReleasesForm], kind: type[ClaimForm]
) -> tuple[str | None, Sequence[ClaimForm | Refused]]:
    try:
        form = read(body, batch)
        return form.consumer_id, check_batch(form.leases, "leases")
    except Malformed:
        loose = read(body, ClaimEntries)
        entries = check_batch(loose.leases, "leases")
        return loose.consumer_id, [_claim(entry, kind) for entry in entries]


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


def _claim(entry: Raw, kind: type[ClaimForm]) -> ClaimForm | Refused:
    """A version that cannot be read is none, and an instant is one that nobody can use: what follows from that is for the
    rules to say."""
    try:
        return msgspec.json.decode(entry, type=kind)
    except msgspec.ValidationError as error:
        if fault := misspelt(error, kind, entry):
            raise fault from error
        if "$.reason" in str(error):
            raise Invalid(f"a reason is a text: {error}", field="reason") from error
        fields = _decoded(entry, dict[str, Any]) or {}
        message_id = fields.get("id")
        if not isinstance(message_id, str):
            return Refused(None, str(error))
        version = fields.get("version")
        unusable = 0 if fields.keys() & {"at_ms", "after_ms"} else None
        return ClaimForm(message_id, version if type(version) is int else None, at_ms=unusable)


def _id_of(entry: Raw) -> str | None:
    named = _decoded(entry, _Named)
    return named.id if named else None


def _decoded(entry: Raw, kind: type[Form]) -> Form | None:
    try:
        return msgspec.json.decode(entry, type=kind)
    except msgspec.DecodeError:
        return None
