"""Batches of drafts and claims: one bad entry spoils no other."""

import msgspec
import pytest

from meantime.api.topics.forms import ClaimForm, ReleaseForm, read_claims, read_drafts, read_releases
from meantime.errors import Invalid, Malformed
from meantime.topics.drafts import checked, new_id
from meantime.topics.model import MessageDraft, NewMessage, Refused, Settings, Topic

NOW_MS = 1_000_000
TOPIC = Topic(1, "t", 1, Settings(max_body_bytes=8, max_future_ms=1000))


def draft(**fields: object) -> NewMessage | Refused:
    (entry,) = read_drafts(msgspec.json.encode({"messages": [fields]}))
    return checked(entry, TOPIC, "owners", NOW_MS) if isinstance(entry, MessageDraft) else entry


def test_a_json_body_is_kept_as_it_was_given() -> None:
    (entry,) = read_drafts(b'{"messages":[{"at_ms":1,"body": {"a" : 1.0}}]}')
    assert isinstance(entry, MessageDraft)
    message = checked(entry, msgspec.structs.replace(TOPIC, settings=Settings()), "owners", NOW_MS)
    assert isinstance(message, NewMessage)
    assert message.body == b'{"a" : 1.0}'


def test_bytes_count_decoded_against_the_limit() -> None:
    assert isinstance(draft(at_ms=1, body_b64="MTIzNDU2Nzg="), NewMessage)
    assert isinstance(draft(at_ms=1, body_b64="MTIzNDU2Nzg5"), Refused)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"at_ms": 1, "after_ms": 1},
        {"at_ms": NOW_MS + 1001},
        {"at_ms": 1, "body": "too large"},
        {"at_ms": 1, "body": 1, "body_b64": "MQ=="},
        {"at_ms": 1, "body_b64": "not base64"},
        {"at_ms": 1, "id": ""},
        {"at_ms": 1, "id": "a b"},
        {"at_ms": 1, "id": "x" * 129},
        {"at_ms": "1"},
    ],
)
def test_a_draft_that_makes_no_sense_is_refused(fields: dict[str, object]) -> None:
    assert isinstance(draft(**fields), Refused)


def test_a_missing_body_is_null_and_null_is_no_second_body() -> None:
    assert draft(at_ms=1).body == b"null"  # type: ignore[union-attr]
    assert draft(at_ms=1, body=None, body_b64="MQ==").body == b"1"  # type: ignore[union-attr]


def test_the_past_means_now() -> None:
    assert draft(at_ms=5).at_ms == NOW_MS  # type: ignore[union-attr]


def test_ids_that_the_broker_makes_are_sorted_by_time() -> None:
    assert new_id(1) < new_id(2) < new_id(NOW_MS)


def test_one_bad_entry_spoils_no_other() -> None:
    entries = read_drafts(b'{"messages":[{"id":"a","at_ms":1},{"id":"b","at_ms":"x"},7]}')
    assert [isinstance(entry, MessageDraft) for entry in entries] == [True, False, False]
    assert [entry.id for entry in entries] == ["a", "b", None]


@pytest.mark.parametrize("body", [b"", b"{}", b'{"messages":[]}', b'{"messages":null}'])
def test_an_empty_batch_makes_no_sense(body: bytes) -> None:
    with pytest.raises(Invalid):
        read_drafts(body)


@pytest.mark.parametrize("body", [b"[", b"[]", b'{"messages":5}', b'{"messages":"x"}', b"\xff", b'{"messages":["\xff"]}'])
def test_what_is_not_a_batch_is_malformed(body: bytes) -> None:
    with pytest.raises(Malformed):
        read_drafts(body)


def test_a_claim_without_a_readable_version_is_still_about_its_message() -> None:
    consumer, claims = read_claims(
        b'{"consumer_id":"c","leases":[{"id":"a","version":"x"},{"version":1},{"id":"b","version":2}]}'
    )
    assert consumer == "c"
    assert claims[0] == ClaimForm("a", None)
    assert isinstance(claims[1], Refused)
    assert claims[2] == ClaimForm("b", 2)


def test_a_claim_with_an_unreadable_instant_is_not_one_without_an_instant() -> None:
    """Which would be due when the topic's policy says."""
    _, claims = read_releases(b'{"leases":[{"id":"a","version":1,"after_ms":"soon"},{"id":"b","version":1,"reason":"why"}]}')
    assert claims == [ClaimForm("a", 1, at_ms=0), ReleaseForm("b", 1, reason="why")]
