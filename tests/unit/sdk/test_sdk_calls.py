from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from meantime.errors import Invalid, PublishFailed, UnexpectedAnswer
from meantime.sdk.calls import cursors, streams, timers
from meantime.sdk.calls import leases as lease_calls
from meantime.sdk.calls import subscriptions as subscription_calls
from meantime.sdk.calls import topics as topic_calls
from meantime.sdk.calls.call import Call, Response
from meantime.sdk.messages import LeasedMessage, Slot, Topic
from meantime.sdk.model import Cursor, EventType, SubscriptionBatch, Timer


def sent(call: Call[Any]) -> Any:
    return msgspec.json.decode(call.content or b"null")


def read(call: Call[Any], document: object, status: int = 200) -> Any:
    return call.read(Response(status, {}, msgspec.json.encode(document)))


@pytest.mark.parametrize(
    ("at", "expected"),
    [
        (datetime(2030, 1, 1, tzinfo=UTC), 1_893_456_000_000),
        (1_893_456_000.25, 1_893_456_000_250),
    ],
)
def test_an_instant_is_a_datetime_or_unix_seconds(at: datetime | float, expected: int) -> None:
    assert sent(topic_calls.schedule("t", 1, at=at))["messages"][0]["at_ms"] == expected


@pytest.mark.parametrize("after", [timedelta(minutes=1), 60, 60.0])
def test_a_duration_is_a_timedelta_or_seconds(after: timedelta | float) -> None:
    assert sent(topic_calls.schedule("t", 1, after=after))["messages"][0]["after_ms"] == 60_000


@pytest.mark.parametrize("when", [{}, {"at": 1.0, "after": 1.0}, {"at": datetime(2030, 1, 1)}])
def test_exactly_one_clear_instant_is_wanted(when: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        topic_calls.schedule("t", 1, **when)


def test_bytes_travel_as_base64_and_come_back_as_bytes() -> None:
    message = sent(topic_calls.schedule("t", b"\x00\xff", after=0, id="a"))["messages"][0]
    assert message == {"id": "a", "after_ms": 0, "body_b64": "AP8="}
    leased = lease_calls.read_line(b'{"id":"a","version":2,"at_ms":5,"body_b64":"AP8="}')
    assert leased.content == b"\x00\xff"


def test_an_invalid_message_is_an_error_alone_and_a_result_among_many() -> None:
    results = {"results": [{"id": "a", "status": "invalid", "error": "too far"}]}
    with pytest.raises(Invalid, match="too far"):
        read(topic_calls.schedule("t", 1, after=1), results, 207)
    assert read(topic_calls.schedule_many("t", [topic_calls.Draft(1, after=1)]), results, 207)[0].error == "too far"


def test_messages_without_an_id_get_ids_of_their_own_in_the_order_of_time() -> None:
    drafts = [topic_calls.Draft(n, after=1) for n in range(500)] + [topic_calls.Draft(0, after=1, id="mine")]
    ids = [message["id"] for message in sent(topic_calls.schedule_many("t", drafts))["messages"]]
    later = sent(topic_calls.schedule("t", 1, after=1))["messages"][0]["id"]
    assert len(set(ids)) == 501
    assert ids[-1] == "mine"
    assert max(ids[:-1])[:11] <= later[:11]


@pytest.mark.parametrize(("id", "expected"), [(".", "%2E"), ("..", "%2E%2E"), ("a.b", "a.b"), ("a@b:c", "a@b:c")])
def test_dots_alone_are_no_step_up_in_a_path(id: str, expected: str) -> None:
    assert topic_calls.message("t", id).path == f"/topics/t/messages/{expected}"


def test_a_topic_keeps_what_is_not_given() -> None:
    call = topic_calls.create_topic("t", max_lease=timedelta(hours=1), dedupe=60)
    assert (call.method, call.path) == ("PUT", "/topics/t")
    assert sent(call) == {"max_lease_ms": 3_600_000, "dedupe_ms": 60_000}


def test_answers_are_read_into_frozen_data() -> None:
    assert read(topic_calls.topics(), {"topics": [{"name": "a", "new_field": 1}]}) == [Topic(name="a")]
    slots = read(topic_calls.load("t", 0, 2, 1), {"slots": [{"from_ms": 0, "waiting": 2, "processing": 1}]})
    assert slots == [Slot(from_ms=0, waiting=2, processing=1)]
    assert slots[0].total == 3
    assert read(topic_calls.count("t"), {"count": 7}) == 7


def test_an_answer_of_something_else_is_said_to_be_unexpected() -> None:
    with pytest.raises(UnexpectedAnswer, match="is this a Meantime node"):
        topic_calls.topics().read(Response(200, {}, b"<html>Welcome to nginx"))


def test_load_and_count_name_their_range_in_milliseconds() -> None:
    assert topic_calls.load("t", 1, 2, 0.5).path == "/topics/t/load?from_ms=1000&to_ms=2000&step_ms=500"
    assert topic_calls.count("t", status="waiting").path == "/topics/t/count?status=waiting"


def test_lease_changes_name_the_version_they_believe_in() -> None:
    held = [LeasedMessage(id="a", version=4, at_ms=9)]
    assert sent(lease_calls.extend_leases("t", "c", held, 10)) == {
        "consumer_id": "c",
        "leases": [{"id": "a", "version": 4, "after_ms": 10_000}],
    }
    assert sent(lease_calls.release_leases("t", "c", held, after=0))["leases"][0]["after_ms"] == lease_calls.SOONEST_MS
    assert sent(lease_calls.release_leases("t", "c", held))["leases"] == [{"id": "a", "version": 4}]
    assert sent(lease_calls.delete_leases("t", "c", held))["leases"] == [{"id": "a", "version": 4}]


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("no such user", "no such user"),
        ("", None),
        ("x" * 1000, "x" * 1000),
        ("ü" * 1001, "ü" * 999 + "…"),
        ("a\x00b", "a\ufffdb"),
        ("\ud800", "?"),
    ],
)
def test_a_reason_is_told_as_far_as_a_broker_can_keep_it(reason: str, told: str | None) -> None:
    held = [LeasedMessage(id="a", version=4, at_ms=9)]
    (entry,) = sent(lease_calls.release_leases("t", "c", held, after=1, reason=reason))["leases"]
    assert entry.get("reason") == told


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "reason"),
    [(ValueError("no such user"), "ValueError: no such user"), (KeyError(), "KeyError"), (Mute("a"), "Mute")],
)
def test_an_exception_is_a_reason(error: Exception, reason: str) -> None:
    assert lease_calls.reason_of(error) == reason


def test_taking_leases_is_not_repeated_in_doubt_and_waits_as_long_as_asked() -> None:
    call = lease_calls.lease("t", "c", wait_for=20)
    assert not call.repeatable
    assert call.wait_for == 20


def test_an_event_type_needs_only_a_name() -> None:
    assert sent(streams.create_event_type("orders", partitions=4, retention_for=60)) == {
        "name": "orders",
        "owning_application": "meantime",
        "category": "undefined",
        "schema": {"type": "json_schema", "schema": "{}"},
        "default_statistic": {"read_parallelism": 4, "write_parallelism": 4},
        "options": {"retention_time": 60_000},
    }


def test_an_event_type_in_full_is_sent_as_it_is() -> None:
    declared = EventType("users", "crm", "business", "hash", ["id"])
    document = sent(streams.create_event_type(declared, schema={"type": "object"}, adopt_topic="old"))
    assert document["category"] == "business"
    assert document["schema"]["schema"] == '{"type":"object"}'
    assert document["adopt_topic"] == "old"


def test_publishing_says_which_events_failed_and_why() -> None:
    call = streams.publish("orders", [{"id": 1}, {"id": 2}])
    items = [
        {"publishing_status": "aborted", "step": "none", "detail": ""},
        {"publishing_status": "failed", "step": "validating", "detail": "id is no string", "eid": "e2"},
    ]
    assert call.refusal is not None
    error = call.refusal(Response(422, {}, msgspec.json.encode(items)))
    assert isinstance(error, PublishFailed)
    assert error.detail == "2 of 2 events were not published: validating: id is no string"
    assert error.extras["written"] == 0
    assert error.extras["items"][1].eid == "e2"


def test_a_batch_that_was_written_in_part_is_an_error_too() -> None:
    items = [{"publishing_status": "submitted"}, {"publishing_status": "failed", "step": "publishing", "detail": "no"}]
    with pytest.raises(PublishFailed) as caught:
        read(streams.publish("orders", {"id": 1}), items, 207)
    assert caught.value.extras["written"] == 1


def test_a_refusal_with_a_problem_document_is_left_to_the_common_rule() -> None:
    call = streams.publish("orders", {})
    assert call.refusal is not None
    assert call.refusal(Response(422, {}, b'{"code":"invalid"}')) is None


def test_a_switch_carries_one_idempotency_key_through_all_its_repetitions() -> None:
    call = streams.switch("orders", "east")
    assert call.repeatable
    assert len(call.headers["Idempotency-Key"]) == 32
    assert streams.switch("orders", "east", key="mine").headers["Idempotency-Key"] == "mine"


def test_distances_are_plain_numbers() -> None:
    call = cursors.distances("orders", [(Cursor("0", "BEGIN"), Cursor("0", "001-0001-000000000000000003"))])
    assert read(call, [{"distance": 4, "initial_cursor": {}, "final_cursor": {}}]) == [4]


def test_a_commit_names_the_stream_of_its_batch() -> None:
    batch = SubscriptionBatch(subscription_id="s", stream_id="x", cursor=Cursor("0", "5", "orders", "token"))
    call = subscription_calls.commit(batch)
    assert call.headers["X-Nakadi-StreamId"] == "x"
    assert sent(call) == {"items": [{"partition": "0", "offset": "5", "event_type": "orders", "cursor_token": "token"}]}
    assert call.read(Response(204, {}, b"")) is True
    items = [{"cursor": {"partition": "0", "offset": "5"}, "result": "outdated"}]
    assert read(call, {"items": items}) is False


def test_a_timer_at_a_second_gets_a_token_and_is_never_early() -> None:
    call = timers.timer("callbacks", {"id": 7}, at=100.2, key="k")
    assert call.repeatable
    document = sent(call)
    assert document["at"] == 101
    assert len(document.pop("token")) == 32
    assert not timers.timer("callbacks", "x", after=3).repeatable


def test_cancelling_takes_a_token_or_the_timer_itself() -> None:
    assert timers.cancel("abc").path == "/timers/abc"
    assert timers.cancel(Timer(token="abc", at=9)).path == "/timers/abc?at=9"


def test_many_timers_go_in_one_call_that_is_repeatable_if_all_name_their_second() -> None:
    call = timers.timer_many([timers.TimerDraft("a", "x", at=5), timers.TimerDraft("b", b"\x00", at=6, token="mine")])
    assert call.repeatable
    assert [timer["callback_topic"] for timer in sent(call)["timers"]] == ["a", "b"]
    assert sent(call)["timers"][1] == {"at": 6, "callback_topic": "b", "callback_b64": "AA==", "token": "mine"}
    assert read(call, {"results": [{"token": "t", "at": 5}]}, 202) == [Timer(token="t", at=5)]
    assert not timers.timer_many([timers.TimerDraft("a", after=5)]).repeatable
