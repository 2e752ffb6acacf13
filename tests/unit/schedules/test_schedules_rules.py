"""What may be asked for, templates and jitter."""

from typing import Any

import msgspec
import pytest

from meantime.errors import Invalid
from meantime.schedules.model import ScheduleDeclaration, ScheduleDraft, ScheduleTarget
from meantime.schedules.rules import check_id, declared, jitter, natural_id
from meantime.schedules.templates import Filling, filled, template_of

NOW = 1_800_000_000_000
TARGET = ScheduleTarget(topic="jobs", group="g")


def asked(**fields: Any) -> ScheduleDeclaration:
    given = {"cron": "0 9 * * *", "target": TARGET} | fields
    if "body" in given:
        given["body"] = msgspec.Raw(given["body"])
    return declared(ScheduleDraft(**given), NOW)


@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("cron", {"cron": "30 2 30 2 *"}),
        ("cron", {"cron": "nonsense"}),
        ("cron", {"cron": "0 9 * * *" + " " * 3 + "x" * 300}),
        ("cron", {"cron": None}),
        ("every_ms", {"every_ms": 60_000}),
        ("every_ms", {"cron": None, "every_ms": 999}),
        ("phase_ms", {"cron": None, "every_ms": 1_000, "phase_ms": 1_000}),
        ("phase_ms", {"phase_ms": 1}),
        ("at_ms", {"cron": None, "at_ms": []}),
        ("at_ms", {"cron": None, "at_ms": [NOW + 1_000, NOW + 1_500]}),
        ("at_ms", {"cron": None, "at_ms": [NOW - 1_000]}),
        ("time_zone", {"time_zone": "Europe/Berln"}),
        ("time_zone", {"time_zone": "../etc/passwd"}),
        ("target", {"target": None}),
        ("target", {"target": ScheduleTarget()}),
        ("target", {"target": ScheduleTarget(topic="a", group="g", event_type="b")}),
        ("target.group", {"target": ScheduleTarget(topic="a")}),
        ("target.group", {"target": ScheduleTarget(event_type="a", group="g")}),
        ("target.key", {"target": ScheduleTarget(event_type="a", key="k")}),
        ("target.topic", {"target": ScheduleTarget(topic="a b", group="g")}),
        ("target.event_type", {"target": ScheduleTarget(event_type="a b")}),
        ("body", {"body": b'"{not json"'}),
        ("body", {"body": b'"{\\"n\\": {{schedule}}}"'}),
        ("body", {"target": ScheduleTarget(event_type="orders"), "body": b"[1]"}),
        ("body", {"body": b"[" * 300 + b"]" * 300}),
        ("body_b64", {"body_b64": "?"}),
        ("body", {"body": b"1", "body_b64": "eA=="}),
        ("missed_within_ms", {"missed_within_ms": -1}),
        ("jitter_ms", {"jitter_ms": -1}),
        ("max_firings", {"max_firings": 0}),
        ("starts_at_ms", {"starts_at_ms": 10**15}),
        ("ends_at_ms", {"starts_at_ms": NOW, "ends_at_ms": NOW}),
        ("ends_at_ms", {"ends_at_ms": NOW - 1}),
        ("overlap", {"overlap": "skip", "target": ScheduleTarget(kafka_topic="calls")}),
        ("note", {"note": "x" * 1_001}),
    ],
)
def test_what_makes_no_sense_is_refused_by_the_name_of_its_field(field: str, fields: dict[str, Any]) -> None:
    with pytest.raises(Invalid) as refused:
        asked(**fields)
    assert refused.value.extras["field"] == field


def test_a_zone_that_is_misspelt_is_named() -> None:
    with pytest.raises(Invalid, match=r"did you mean Europe/Berlin\?"):
        asked(time_zone="Europe/Berln")


def test_what_is_left_out_has_its_default() -> None:
    declaration = asked()
    assert (declaration.missed, declaration.overlap, declaration.jitter_ms, declaration.body) == (
        "last",
        "allow",
        0,
        b"null",
    )
    assert declaration.recurrence.time_zone == "UTC"


def test_a_name_leaves_room_for_the_instant() -> None:
    with pytest.raises(Invalid):
        check_id("x" * 101)
    assert len(natural_id("x" * 100, 10**13)) < 128


def test_four_words_are_filled_in_and_nothing_else() -> None:
    template = (
        b'{"a": "{{schedule}} {{scheduled_at}}", "b": "{{instant}}", "c": "{{firing}}", "d": "{{other}} {{ firing }} {1+1}"}'
    )
    found = msgspec.json.decode(filled(template, Filling("nightly", 1_800_000_000_000, 7)))
    assert found == {
        "a": "nightly 2027-01-15T08:00:00.000Z",
        "b": "1800000000000",
        "c": "7",
        "d": "{{other}} {{ firing }} {1+1}",
    }


def test_a_string_is_the_template_itself_so_that_numbers_need_no_quotes() -> None:
    template = template_of(b'"{\\"n\\": {{firing}}}"')
    assert filled(template, Filling("s", 0, 3)) == b'{"n": 3}'


def test_jitter_is_the_same_for_the_same_instant_and_spreads_the_others() -> None:
    found = [jitter("nightly", instant, 1_000) for instant in range(0, 100_000, 1_000)]
    assert found == [jitter("nightly", instant, 1_000) for instant in range(0, 100_000, 1_000)]
    assert 0 <= min(found) < 100
    assert 900 < max(found) <= 1_000
    assert found != [jitter("other", instant, 1_000) for instant in range(0, 100_000, 1_000)]
    assert jitter("nightly", 5, 0) == 0
