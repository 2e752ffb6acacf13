from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from meantime.errors import Invalid
from meantime.sdk.async_client import AsyncClient
from meantime.sdk.calls import schedules
from meantime.sdk.calls.call import Call, Response
from meantime.sdk.client import Client
from meantime.sdk.messages import LeasedMessage
from meantime.sdk.schedule_model import ScheduleTarget


def sent(call: Call[Any]) -> Any:
    return msgspec.json.decode(call.content or b"null")


def read(call: Call[Any], document: object, status: int = 200) -> Any:
    return call.read(Response(status, {}, b"" if document is None else msgspec.json.encode(document)))


def test_a_schedule_is_sent_in_milliseconds_without_what_was_not_given() -> None:
    call = schedules.put(
        "report",
        every="10m",
        phase=timedelta(seconds=30),
        target={"topic": "reports", "group": "shop"},
        body={"for": "{{instant}}"},
        missed="all",
        missed_within="2h",
        jitter=1.5,
        starts_at="2027-01-01T00:00:00Z",
        ends_at=datetime(2028, 1, 1, tzinfo=UTC),
        max_firings=7,
    )
    assert (call.method, call.path, call.repeatable) == ("PUT", "/schedules/report", True)
    assert sent(call) == {
        "every_ms": 600_000,
        "phase_ms": 30_000,
        "target": {"topic": "reports", "group": "shop"},
        "body": {"for": "{{instant}}"},
        "missed": "all",
        "missed_within_ms": 7_200_000,
        "jitter_ms": 1500,
        "starts_at_ms": 1_798_761_600_000,
        "ends_at_ms": 1_830_297_600_000,
        "max_firings": 7,
    }


def test_a_list_of_instants_is_a_calendar_and_bytes_are_a_body() -> None:
    document = sent(schedules.put("a", at=["2027-01-01T00:00:00Z", 1.5], target=ScheduleTarget(kafka_topic="k"), body=b"\0"))
    assert document == {"at_ms": [1_798_761_600_000, 1500], "target": {"kafka_topic": "k"}, "body_b64": "AA=="}


@pytest.mark.parametrize("calendar", [{}, {"cron": "* * * * *", "every": "1m"}, {"every": 60, "at": [1.0]}])
def test_exactly_one_calendar_is_wanted(calendar: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="cron"):
        schedules.put("a", target={"topic": "t"}, **calendar)


def test_what_a_schedule_does_not_have_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(TypeError, match="timezone"):
        schedules.put("a", cron="* * * * *", timezone="UTC")  # type: ignore[call-arg]


def test_a_change_that_names_a_version_is_not_sent_twice_and_a_firing_only_with_an_instant() -> None:
    assert not schedules.put("a", cron="* * * * *", target={"topic": "t"}, version=3).repeatable
    assert not schedules.fire("a").repeatable
    assert schedules.fire("a", at=5.0).repeatable
    assert sent(schedules.fire("a", at=5.0)) == {"at_ms": 5000}
    assert schedules.backfill("a", 0.0, 9.0).repeatable


def test_filters_and_ranges_are_part_of_the_address() -> None:
    assert schedules.list_schedules(prefix="a.", paused=False, limit=5).path == "/schedules?prefix=a.&paused=false&limit=5"
    assert schedules.next_firings("a", count=3, start=1.0).path == "/schedules/a/next?count=3&from_ms=1000"
    assert schedules.firings("a", end=2.0).path == "/schedules/a/firings?to_ms=2000"


def test_a_deleted_schedule_tells_what_could_not_be_taken_back() -> None:
    assert read(schedules.delete("a"), None, 204) == []
    assert read(schedules.delete("a"), {"too_late": [5, 6]}) == [5, 6]


def test_answers_are_read_and_what_is_new_in_them_is_ignored() -> None:
    document = {
        "id": "a",
        "version": 2,
        "target": {"event_type": "orders"},
        "cron": "* * * * *",
        "moved": {"to_ms": 5},
        "x": 1,
    }
    schedule = read(schedules.get("a"), document)
    assert (schedule.version, str(schedule.target), schedule.moved.to_ms) == (2, "event type orders", 5)
    (planned,) = read(schedules.next_firings("a"), {"firings": [{"at_ms": 1000, "local": "x", "note": "moved: gap"}]})
    assert (planned.at, planned.note) == (datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "moved: gap")


def test_a_leased_message_says_which_firing_it_is() -> None:
    document = {"id": "s:a@5000", "version": 1, "at_ms": 9, "schedule": {"id": "a", "version": 3, "at_ms": 5000}}
    origin = msgspec.convert(document, LeasedMessage).schedule
    assert origin is not None
    assert (origin.id, origin.version, origin.at) == ("a", 3, datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC))


def test_both_clients_have_the_same_schedules() -> None:
    def names(kind: type) -> set[str]:
        return {name for name in dir(kind) if not name.startswith("_")}

    with Client("http://127.0.0.1:1") as client:
        assert names(type(client.schedules)) == names(type(AsyncClient("http://127.0.0.1:1").schedules))
