"""A firing as an event: what no template can give is filled in, and it says where it comes from."""

import msgspec

from meantime.processes.schedule_targets import event_of
from meantime.schedules.model import ScheduleTarget
from meantime.schedules.targets import ScheduledTimer
from meantime.streams.model import UNDEFINED

AT = 1_800_000_000_000
TIMER = ScheduledTimer(
    "s:nightly@1800000000000", AT // 1000, ScheduleTarget(event_type="orders"), b'{"a": 1}', "nightly", 3, AT
)


def test_an_event_with_metadata_gets_an_id_a_time_and_its_origin() -> None:
    event = msgspec.json.decode(event_of(TIMER, "business"))
    metadata = event["metadata"]
    assert (event["a"], metadata["occurred_at"]) == (1, "2027-01-15T08:00:00.000Z")
    assert (metadata["schedule"], metadata["schedule_version"], metadata["schedule_at"]) == ("nightly", 3, AT)
    assert metadata["eid"] == msgspec.json.decode(event_of(TIMER, "business"))["metadata"]["eid"]


def test_what_the_template_has_stays() -> None:
    body = b'{"metadata": {"eid": "6f1d6a51-2f4f-4c53-9d1b-6a1f6a0a4a4e"}}'
    timer = ScheduledTimer(TIMER.token, TIMER.second, TIMER.target, body, "nightly", 3, AT)
    assert msgspec.json.decode(event_of(timer, "data"))["metadata"]["eid"] == "6f1d6a51-2f4f-4c53-9d1b-6a1f6a0a4a4e"


def test_an_event_of_no_category_is_never_touched() -> None:
    assert event_of(TIMER, UNDEFINED) == TIMER.body
