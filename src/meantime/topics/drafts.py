"""From what a producer asks for to what can be stored, entry by entry: a bad one says why and hurts no other."""

from base64 import b64decode
from collections.abc import Sequence
from random import Random

from meantime.errors import Invalid
from meantime.names import is_identifier
from meantime.topics import rules
from meantime.topics.model import MessageDraft, NewMessage, Refused, Topic

_NULL = b"null"
_random_bits = Random().getrandbits


def relative(drafts: Sequence[MessageDraft | Refused]) -> bool:
    """Does any of them need this node's idea of now?"""
    return any(isinstance(draft, MessageDraft) and draft.after_ms is not None for draft in drafts)


def checked(draft: MessageDraft, topic: Topic, group: str, now_ms: int) -> NewMessage | Refused:
    try:
        at_ms = rules.position(draft.at_ms, draft.after_ms, topic.settings, now_ms)
        body, is_json = _body(draft, topic.settings.max_body_bytes)
    except Invalid as error:
        return Refused(draft.id, error.detail)
    if draft.id is not None and not is_identifier(draft.id):
        return Refused(draft.id, "an id is 1 to 128 characters of 0-9 A-Z a-z . _ : @ -")
    message_id = draft.id if draft.id is not None else new_id(now_ms)
    bucket_id = rules.bucket_of(message_id, topic.settings.bucket_count)
    return NewMessage(message_id, at_ms, bucket_id, group, is_json, body)


def new_id(now_ms: int) -> str:
    """Unique, which needs no secret randomness, and sorted by the time of its making, so that neighbours in time are
    neighbours in the index."""
    return f"{now_ms:011x}{_random_bits(72):018x}"


def _body(draft: MessageDraft, most: int) -> tuple[bytes, bool]:
    text = bytes(draft.body)
    if draft.body_b64 is None:
        body, is_json = text or _NULL, True
    elif text and text != _NULL:
        raise Invalid("give only one of body and body_b64")
    else:
        body, is_json = _decoded(draft.body_b64), False
    if len(body) > most:
        raise Invalid(f"the body has {len(body)} bytes; at most {most} are allowed here")
    return body, is_json


def _decoded(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise Invalid("body_b64 is not base64") from error
