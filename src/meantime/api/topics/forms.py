"""What topics read and write over HTTP.

A batch is decoded in one go when all of it is well-formed. Otherwise each entry is decoded alone, so that a bad one is
judged alone. JSON bodies are never looked into: their bytes are stored and sent as they came.
"""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Raw, UnsetType

from meantime.errors import Invalid, Malformed
from meantime.topics.model import Lease, MessageDraft, Refused, StoredMessage, Topic
from meantime.topics.rules import status

MOST_ENTRIES = 10_000

Form = TypeVar("Form")


class DraftsForm(msgspec.Struct):
    messages: list[MessageDraft] | None = None


class EntriesForm(msgspec.Struct):
    """Any batch, with its entries not looked into yet."""

    messages: list[Raw] | None = None
    leases: list[Raw] | None = None
    ids: list[Raw] | None = None
    consumer_id: str | None = None


class ClaimForm(msgspec.Struct):
    id: str
    version: int | None = None
    at_ms: int | None = None
    after_ms: int | None = None


class ClaimsForm(msgspec.Struct):
    consumer_id: str | None = None
    leases: list[ClaimForm] | None = None


class PullForm(msgspec.Struct):
    consumer_id: str | None = None
    limit: int | None = None
    lease_ms: int | None = None
    wait_ms: int | None = None


class MoveForm(msgspec.Struct):
    at_ms: int | None = None
    after_ms: int | None = None
    version: int | None = None


class RedriveForm(msgspec.Struct):
    to: str | None = None
    limit: int | None = None


class _Named(msgspec.Struct):
    id: str | None = None


class LeaseView(msgspec.Struct, frozen=True):
    id: str
    version: int
    at_ms: int
    created_for_ms: int
    attempts: int
    producer_group: str
    body: Raw | UnsetType = UNSET
    body_b64: str | UnsetType = UNSET
    dead_letter: Raw | UnsetType = UNSET


class MessageView(msgspec.Struct, frozen=True):
    id: str
    at_ms: int
    created_for_ms: int
    status: str
    producer_group: str
    lock_consumer_id: str | None
    version: int
    bucket_id: int
    attempts: int
    body: Raw | UnsetType = UNSET
    body_b64: str | UnsetType = UNSET
    dead_letter: Raw | UnsetType = UNSET


def read(body: bytes, form: type[Form]) -> Form:
    """An empty body is an empty form."""
    try:
        if not body.isascii():
            body.decode()
        return msgspec.json.decode(body or b"{}", type=form)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"the body cannot be read: {error}") from error


def read_drafts(body: bytes) -> Sequence[MessageDraft | Refused]:
    try:
        drafts: Sequence[MessageDraft | Refused] | None = read(body, DraftsForm).messages
    except Malformed:
        entries = read(body, EntriesForm).messages
        drafts = None if entries is None else [_draft(entry) for entry in entries]
    return check_batch(drafts, "messages")


def read_claims(body: bytes) -> tuple[str | None, Sequence[ClaimForm | Refused]]:
    """Who asks, and about which leases."""
    try:
        form = read(body, ClaimsForm)
        return form.consumer_id, check_batch(form.leases, "leases")
    except Malformed:
        loose = read(body, EntriesForm)
        entries = check_batch(loose.leases, "leases")
        return loose.consumer_id, [_claim(entry) for entry in entries]


def read_ids(body: bytes) -> list[str | None]:
    """None for an entry that is not a string."""
    entries = check_batch(read(body, EntriesForm).ids, "ids")
    return [_decoded(entry, str) for entry in entries]


def check_batch(entries: Sequence[Form] | None, field: str) -> Sequence[Form]:
    if not entries:
        raise Invalid(f"{field} is empty; give 1 to {MOST_ENTRIES} entries", field=field)
    if len(entries) > MOST_ENTRIES:
        raise Invalid(f"{field} has {len(entries)} entries; at most {MOST_ENTRIES} are taken at once", field=field)
    return entries


def _draft(entry: Raw) -> MessageDraft | Refused:
    try:
        return msgspec.json.decode(entry, type=MessageDraft)
    except msgspec.DecodeError as error:
        return Refused(_id_of(entry), str(error))


def _claim(entry: Raw) -> ClaimForm | Refused:
    """A version or an instant that cannot be read is none: what follows from that is for the rules to say."""
    try:
        return msgspec.json.decode(entry, type=ClaimForm)
    except msgspec.DecodeError as error:
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


def lease_view(lease: Lease) -> LeaseView:
    content, encoded = _content(lease)
    return LeaseView(
        lease.id,
        lease.version,
        lease.at_ms,
        lease.created_for_ms,
        lease.attempts,
        lease.producer_group,
        content,
        encoded,
        _history(lease),
    )


def message_view(message: StoredMessage, now_ms: int) -> MessageView:
    content, encoded = _content(message)
    return MessageView(
        message.id,
        message.at_ms,
        message.created_for_ms,
        status(message, now_ms),
        message.producer_group,
        message.lock_consumer_id,
        message.version,
        message.bucket_id,
        message.attempts,
        content,
        encoded,
        _history(message),
    )


def topic_view(topic: Topic) -> dict[str, Any]:
    return {"name": topic.name, **msgspec.structs.asdict(topic.settings)}


def _content(carrier: Lease | StoredMessage) -> tuple[Raw | UnsetType, str | UnsetType]:
    if carrier.is_json:
        return Raw(carrier.body), UNSET
    return UNSET, b64encode(carrier.body).decode()


def _history(carrier: Lease | StoredMessage) -> Raw | UnsetType:
    return UNSET if carrier.dead_letter is None else Raw(carrier.dead_letter)
