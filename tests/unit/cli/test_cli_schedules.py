"""Schedules as `meantime schedules` shows them."""

from meantime.cli.commands.schedules.calendar import marks, recurrence
from meantime.sdk.schedule_model import PlannedFiring, Schedule, ScheduleTarget


def planned(local: str, note: str | None = None) -> PlannedFiring:
    return PlannedFiring(at_ms=0, local=local, note=note)


def schedule(**calendar: object) -> Schedule:
    return Schedule(id="a", version=1, target=ScheduleTarget(topic="t"), **calendar)  # type: ignore[arg-type]


def test_the_calendar_marks_where_the_clocks_change_and_what_that_does() -> None:
    assert marks(
        [
            planned("2027-03-27T02:30:00+01:00"),
            planned("2027-03-28T03:00:00+02:00", "moved: gap"),
            planned("2027-03-29T02:30:00+02:00"),
        ]
    ) == ["", "moved: the clocks go forward past its time; clocks changed: +01:00 → +02:00", ""]


def test_instants_with_milliseconds_have_an_offset_too_and_unknown_notes_are_shown_as_they_are() -> None:
    found = marks([planned("2027-10-31T02:30:00.500-03:00", "news"), planned("2027-10-31T02:30:00.500-02:00")])
    assert found == ["news", "clocks changed: -03:00 → -02:00"]


def test_a_recurrence_is_told_on_one_line() -> None:
    assert recurrence(schedule(cron="0 9 * * 1-5", time_zone="Europe/Berlin")) == "0 9 * * 1-5 in Europe/Berlin"
    assert recurrence(schedule(every_ms=600_000, phase_ms=30_000)) == "every 10 min, 30 s later"
    assert recurrence(schedule(at_ms=[1, 2])) == "2 instants"
