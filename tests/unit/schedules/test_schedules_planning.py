"""What a leader does about one schedule at one moment."""

from typing import Any

import pytest

from meantime.schedules.calendar import calendar_of
from meantime.schedules.forecast import EqualSchedules, slots_of
from meantime.schedules.model import Recurrence, Schedule, ScheduleDeclaration, ScheduleTarget
from meantime.schedules.planning import AHEAD_MS, LATE_MS, MOST_MISSED, SLACK_MS, Plan, planned

NOW = 1_800_000_000_000
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000


def schedule(every_ms: int, cursor_ms: int, firings: int = 0, **more: Any) -> Schedule:
    recurrence = Recurrence(every_ms=every_ms, ends_at_ms=more.pop("ends_at_ms", None))
    return Schedule(
        id="s",
        version=1,
        revision=1,
        declaration=ScheduleDeclaration(
            recurrence=recurrence, target=ScheduleTarget(topic="t", group="g"), body=b"null", **more
        ),
        paused=False,
        note=None,
        cursor_ms=cursor_ms,
        next_at_ms=None,
        last_at_ms=None,
        firings=firings,
        tzdata="",
        moved=None,
        created_at_ms=0,
        changed_at_ms=0,
    )


def plan(one: Schedule, now_ms: int = NOW) -> Plan:
    return planned(one, calendar_of(one.declaration.recurrence), now_ms)


def fired(found: Plan) -> list[int]:
    return [one.at_ms for one in found.firings if one.missed is None]


def test_a_minute_and_a_little_more_is_set_ahead() -> None:
    found = plan(schedule(SECOND, NOW))
    assert fired(found) == list(range(NOW + SECOND, NOW + AHEAD_MS + SLACK_MS + 1, SECOND))
    assert (found.cursor_ms, found.next_at_ms) == (NOW + AHEAD_MS + SLACK_MS, NOW + AHEAD_MS + SLACK_MS + SECOND)


def test_what_has_nothing_to_fire_stays_where_it_is() -> None:
    found = plan(schedule(HOUR, NOW))
    assert found == Plan((), NOW, NOW + HOUR)


def test_what_is_late_by_less_than_a_minute_is_fired_whatever_the_policy_says() -> None:
    for policy in ("last", "all", "none"):
        found = plan(schedule(10 * SECOND, NOW - LATE_MS, missed=policy))
        assert fired(found)[:7] == list(range(NOW - 50 * SECOND, NOW + 11 * SECOND, 10 * SECOND))


@pytest.mark.parametrize(("policy", "expected"), [("last", [NOW]), ("none", []), ("all", [NOW - 2 * HOUR, NOW - HOUR, NOW])])
def test_after_somebody_was_away_the_policy_decides(policy: Any, expected: list[int]) -> None:
    found = plan(schedule(HOUR, NOW - 3 * HOUR, missed=policy))
    assert fired(found) == expected
    assert [one.at_ms for one in found.firings] == [NOW - 2 * HOUR, NOW - HOUR, NOW]
    assert all("nobody could fire it" in one.missed for one in found.firings if one.missed)


def test_what_is_older_than_it_may_be_is_not_made_up_for() -> None:
    found = plan(schedule(HOUR, NOW - 5 * HOUR, missed="all", missed_within_ms=HOUR + MINUTE))
    assert fired(found) == [NOW - HOUR, NOW]
    late = plan(schedule(24 * HOUR, NOW - 40 * HOUR, missed="last", missed_within_ms=HOUR), NOW + 2 * HOUR)
    assert fired(late) == []


def test_of_more_than_a_thousand_the_latest_are_made_up_for_and_that_is_said() -> None:
    found = plan(schedule(SECOND, NOW - 24 * HOUR, missed="all"))
    late = [at for at in fired(found) if at <= NOW]
    assert (len(late), late[-1]) == (MOST_MISSED, NOW)
    assert found.firings[0].missed is not None
    assert f"more than {MOST_MISSED} were missed" in found.firings[0].missed


def test_after_the_last_that_is_allowed_there_is_nothing() -> None:
    found = plan(schedule(SECOND, NOW, firings=3, max_firings=5))
    assert fired(found) == [NOW + SECOND, NOW + 2 * SECOND]
    assert [one.number for one in found.firings] == [4, 5]
    assert found.next_at_ms is None


def test_what_ends_has_no_next() -> None:
    found = plan(schedule(SECOND, NOW, ends_at_ms=NOW + 2 * SECOND))
    assert (fired(found), found.next_at_ms) == ([NOW + SECOND], None)


def test_jitter_delays_and_changes_no_instant() -> None:
    found = plan(schedule(SECOND, NOW, jitter_ms=500))
    assert all(0 <= one.due_at_ms - one.at_ms <= 500 for one in found.firings)
    assert len({one.due_at_ms - one.at_ms for one in found.firings}) > 10


def test_where_messages_must_not_overlap_nothing_is_set_ahead() -> None:
    found = plan(schedule(10 * SECOND, NOW, overlap="skip"))
    assert (found.firings, found.next_at_ms) == ((), NOW + 10 * SECOND)
    assert fired(plan(schedule(10 * SECOND, NOW, overlap="skip"), NOW + 9_500)) == [NOW + 10 * SECOND]


def test_firings_to_come_are_counted_slot_by_slot() -> None:
    rhythm = EqualSchedules(Recurrence(every_ms=SECOND), NOW + 5 * SECOND, None, 2)
    daily = EqualSchedules(Recurrence(cron="0 9 * * *"), NOW, None, 10)
    few = EqualSchedules(Recurrence(every_ms=SECOND), NOW, 3, 1)
    ended = EqualSchedules(Recurrence(every_ms=SECOND, ends_at_ms=NOW + 2 * SECOND), NOW, None, 1)

    def slots(*groups: EqualSchedules) -> dict[int, int]:
        return dict(slots_of(groups, NOW, NOW + 40 * SECOND, 10 * SECOND))

    assert slots(rhythm) == {0: 10, 1: 20, 2: 20, 3: 20}
    assert slots(few) == {0: 3}
    assert slots(ended) == {0: 2}
    assert dict(slots_of([daily], NOW, NOW + 48 * HOUR, 24 * HOUR)) == {0: 10, 1: 10}


def test_a_dense_calendar_over_years_costs_no_more_than_a_look_may() -> None:
    dense = EqualSchedules(Recurrence(cron="* * * * * *"), NOW, None, 1)
    counts = slots_of([dense], NOW, NOW + 1_000 * 24 * HOUR, 24 * HOUR)
    assert all(abs(counts[day] - 86_400) < 100 for day in range(1, 1_000))
